"""The tools that look: `read_file`, `ls`, `tree`, `glob`, `grep` and `stat`, and their rows."""
