"""Whether a bill of materials keeps to the schema of CycloneDX: `python schema_check.py FILE`.

Run with the packages of requirements/release.lock, which are not those of the project.
"""

import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator


def main() -> int:
    for name in sys.argv[1:]:
        text = Path(name).read_text(encoding="utf-8")
        wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
        if wrong is not None:
            print(f"{name}: {wrong}", file=sys.stderr)
            return 1
        print(f"{name}: valid CycloneDX 1.6")
    return 0


if __name__ == "__main__":
    sys.exit(main())
