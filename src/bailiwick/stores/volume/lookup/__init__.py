"""From a path to what it names, and what is remembered of that."""
