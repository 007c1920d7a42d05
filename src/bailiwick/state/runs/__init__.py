"""Runs as the ledger tells of them, and what people said of them."""
