"""Which files may hold a match, found by pages of rows."""
