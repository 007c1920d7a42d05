"""Places joined under one tree: how they are named and opened, and a scope as one of them."""
