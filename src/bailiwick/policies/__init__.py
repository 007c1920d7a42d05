"""Policies: implementations of the seam in `bailiwick.policy`.

`rules.RulePolicy` decides by rules that a person can read: remembered answers, then the operator's,
then the shipped protective ones, then what each kind of root allows by itself.
"""
