"""Overlays for tests: over memory or a directory, opened by hand."""

import time

from bailiwick.stores.disk.syscalls import flush_all
from bailiwick.working_copies.folder import About, Folders, new_id
from bailiwick.working_copies.overlay_record import OverlayRecord
from bailiwick.working_copies.overlay_store import OverlayStore


class ClosingOverlay(OverlayStore):
    """Closes what it lies over, and its record, with itself."""

    async def release(self):
        self.record.close()
        self.folder.close()
        await self.lower.aclose()


def overlay(lower, state, *, symlinks="in-root"):
    """A new one."""
    about = About(id=new_id(), root="workspace:test", subject="user:local", began_ns=1)
    folder = Folders(str(state), "key", flush_all).make(about)
    record = OverlayRecord(folder)
    record.open()
    return ClosingOverlay(lower, folder, record, clock_ns=time.time_ns, symlinks=symlinks)
