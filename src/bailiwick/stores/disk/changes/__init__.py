"""Changes of names and attributes, by the descriptor of the directory above."""
