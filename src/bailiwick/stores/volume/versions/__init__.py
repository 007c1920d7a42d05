"""What was and what is tried apart: histories, branches, merges, the log."""
