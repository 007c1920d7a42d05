"""How a release is made and checked: the distributions, what is in them, and where they came from.

Nothing of this is in the package. `python -m release build` makes `dist/`, `python -m release
verify` makes the same files again from the commit that `dist/` names, and compares.
"""
