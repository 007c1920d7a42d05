"""Working copies as they are kept on this machine: what commands changed on top of a directory."""
