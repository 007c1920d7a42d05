"""Notices: kept for a moment in the state, so that every process that shares it hears of them."""
