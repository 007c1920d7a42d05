"""What files hold: pieces and chunks in rows, large ones in a blob store."""
