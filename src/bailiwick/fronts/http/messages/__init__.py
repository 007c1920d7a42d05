"""Requests and replies: their parts, read strictly and written by one rule."""
