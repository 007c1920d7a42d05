"""Bringing back what was changed in a working copy."""
