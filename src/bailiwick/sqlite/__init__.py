"""What every room with an SQLite database of its own shares: one thread that writes, and SQLite's
failures as errors of Bailiwick. Knows no table."""
