"""Where names and bytes are kept. Each store is understood alone and never learns who asks."""
