"""The rows of a volume: the database, its schema, and the tree that they form."""
