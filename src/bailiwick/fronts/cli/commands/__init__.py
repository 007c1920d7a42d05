"""The commands, a module for each family: what it takes, and what it prints."""
