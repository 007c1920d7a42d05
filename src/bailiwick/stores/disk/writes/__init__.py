"""New content and new trees: staged beside their name, published in one step."""
