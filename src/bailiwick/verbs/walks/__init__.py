"""Walks beneath a held directory, and what they leave out."""
