"""Three servers on one PostgreSQL and one object store, driven while all of them are killed."""
