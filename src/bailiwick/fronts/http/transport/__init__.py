"""Beneath the application: sockets, connections, and how long each may take."""
