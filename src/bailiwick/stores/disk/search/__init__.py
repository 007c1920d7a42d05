"""Which files may hold a match: ripgrep, shut in by the kernel."""
