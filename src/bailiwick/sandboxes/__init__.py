"""Ways to run a command confined. Each is reached through the seam in `bailiwick.sandbox`."""
