"""How people elsewhere are told that a question waits: a webhook, a notification of the desktop.

What is told never holds content, and whoever asks never waits for it.
"""
