"""Taking away what nobody can look at any more."""
