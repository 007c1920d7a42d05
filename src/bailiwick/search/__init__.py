"""Names and lines that match: globs, ignore rules and grep, as pure functions of text.

Nothing here touches a store or the machine, and everything a caller writes is matched in time
linear in what it is matched against.
"""
