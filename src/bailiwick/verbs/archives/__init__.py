"""`create_archive` and `extract_archive`."""
