"""One row of the corpus: an attack, what it may come to, and the proof that it is one."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.hostile.layouts import Layout
from tests.hostile.profiles import Profile

Control = Callable[[Layout], bool]


class Row(NamedTuple):
    """An attack as data.

    ``control`` proves that the attack works without the boundary: the names of plain verbs that
    must reach outside when they are given the row's first path, or a function that says whether it
    does. Where a plain call has nothing to gain there is none, and ``no_control`` says why.
    """

    number: str
    title: str
    paths: tuple[str, ...]
    expect: Profile
    build: Callable[[Layout], None] = lambda layout: None
    control: tuple[str, ...] | Control | None = None
    no_control: str = ""
    options: dict[str, Any] = {}
    who: tuple[str, ...] = ("root", "user", "bare")
    place: str = "case"
    keep: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    """The verbs to run; all of them when empty."""
    shared: str = ""
    """`name`: an outside file has a second name inside, so that its count of names may change;
    `content`: its content may be read as well."""
    ready: Callable[[Layout], None] = lambda layout: None
    """Prepares the process, once for the row."""
