"""Who asks, from where, and which scopes, grants and leases are theirs."""
