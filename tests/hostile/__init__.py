"""The attacker on our side: hostile layouts, a live attacker, and kill -9, all behind a wall.

These tests are loaded guns. They make trees that try to lead a caller out of its root, and their
*controls* then obey those trees with plain calls of the operating system, on purpose, to prove
that the attack is real. Run as root against a real machine such a control deletes the machine. So
nothing here runs in the test process itself:

- `wall.py`      starts a child behind the wall and calls functions in it;
- `inside.py`    is that child: it builds the wall, proves that it holds, and only then serves;
- `kernel.py`    the system calls that this needs and Python lacks;
- `messages.py`  how the two talk;
- `verbs.py`     every verb twice: through a scope, and as the plain call it stands for;
- `layouts.py`   a root, an outside, and the things that can lie in a root;
- `profiles.py`  what each verb may answer, for each class of attack;
- `row.py`       one attack as data;
- `rows_*.py`    the corpus as data: names, links, objects;
- `corpus.py`    all rows together, and how a row is run and judged;
- `exhaustion.py` space, inodes, descriptors, depth and patience that run out;
- `upheaval.py`  roots replaced, openat2 denied, the same done twice at once, closing;
- `archives.py`  archives that attack whoever unpacks them, and careless programs that show it;
- `foreign_volume.py` another user of the machine, against the file of a volume and its blobs;
- `volume_copies.py` the same, while root copies a volume, or lets go of a copy;
- `claude_workspaces.py` what a person agreed to, against whoever changes the tree before the call;
- `strangers.py` other agents and nobody, against what people answered, said and were asked for;
- `lying_hooks.py` webhooks whose servers lie;
- `words.py`     link texts, patterns, cursors, search words, numbers;
- `attacker.*`   the one who swaps, in C and in Python;
- `attack.py`    a live attacker for as long as you like: `make attack TRIES=1000000`;
- `crash.py`     kill -9 at random instants: `make crash KILLS=1000`;
- `test_*.py`    the same in sizes for continuous integration.

Rules for whoever adds to it: a function that runs behind the wall is called only through
`Wall.call`; an outside target is a planted file in the arena, never a place of the machine; every
loop has an end.
"""
