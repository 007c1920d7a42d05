"""Questions to people, and the rules that their answers became."""
