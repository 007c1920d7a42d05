"""How fast Bailiwick is, beside its peers: one run, one machine, ratios.

`python -m bench` measures and writes `bench/RESULTS.md`. Nothing here asserts a time: a missed bar
is shown as missed, and only a case that crashed makes the run fail.
"""
