"""`python -m bailiwick` is the command `bailiwick`."""

from bailiwick.fronts.cli import main

raise SystemExit(main())
