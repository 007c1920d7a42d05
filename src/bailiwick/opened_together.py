"""Directories that several have open at once, for what their modes would keep out: each knows of
the others, in whichever process they are, and the last one out shuts them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from bailiwick.store import Handle


class Share(Protocol):
    """A part in one directory. It ends with its process, however that ends."""

    @property
    def key(self) -> tuple[int, int]:
        """Which directory it is, wherever it is by now."""
        ...

    def try_turn(self) -> bool:
        """Be the only one who opens or shuts it, for a moment; False where another is."""
        ...

    def end_turn(self) -> None: ...

    def others(self) -> int | None:
        """The mode that it had before it was opened, as one of the others knows it who have it
        open; None where nobody else has."""
        ...

    def join(self, mode: int) -> None:
        """Have it open, from here until `close`; ``mode`` is the one that it had before."""
        ...

    def close(self) -> None:
        """Let go of it. Closing twice does nothing."""
        ...


@runtime_checkable
class SharesDirectories(Protocol):
    """Telling who has a directory open. It changes no answer, so `Store.powers` does not name
    it."""

    def share_directory(self, directory: Handle, beside: Share | None = None) -> Share | None:
        """None where nobody can tell, since the system has no such locks, or where it is none.
        Whoever has one open has another one ``beside`` it, so that many cost no more than one; to
        each other they are not others."""
        ...


@runtime_checkable
class TellsModes(Protocol):
    """Keeping what became of the mode of a directory that several have open. Each of them has found
    it shut and leaves it shut, whoever opens and shuts it: so nobody who takes back what one did
    opens it for good, or keeps it from what the others did."""

    async def set_mode_for_all(
        self, entry: Handle, was: int, file_mode: int, *, by_us: bool
    ) -> None:
        """Have it on record that a directory got another mode, which was ``was``. Where it is not
        ``by_us`` others have given it that, or will."""
        ...
