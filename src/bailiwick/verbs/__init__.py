"""What the verbs of `Scope` do once their call was admitted: one room for each kind of work.

Internal: callers use `Scope`. The functions here act on the handles of a `Call` and show every
further path they visit to its policy.
"""
