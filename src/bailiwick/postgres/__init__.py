"""What every room with tables in PostgreSQL shares: how a connection is made, and PostgreSQL's
failures and words as ours. Knows no table."""
