"""Runs as the ledger tells of them."""
