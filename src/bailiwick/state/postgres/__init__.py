"""The authority's state in PostgreSQL, for any number of servers on any number of machines."""
