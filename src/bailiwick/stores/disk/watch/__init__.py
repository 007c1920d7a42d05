"""Noticing what other programs change in a root."""
