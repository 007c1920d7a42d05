"""Hooks that come with Bailiwick: each is registered by whoever wants it, and costs nothing else.

A hook sees every operation that got as far as a policy. What was refused before (a path that is no
path, an access that the grant does not hold) is in the ledger only.
"""
