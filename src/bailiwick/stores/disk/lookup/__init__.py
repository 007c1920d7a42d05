"""From a checked path to an object that is held open, without leaving the root."""
