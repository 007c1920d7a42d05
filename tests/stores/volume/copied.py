"""A process that copies a volume, and is killed at an instant that it is told."""

import asyncio
import os
import signal
import sys

from bailiwick.build.care import copy_volume
from bailiwick.stores.volume import volume_copy


def main(source, target, instant):
    """Steps of the copy, and whatever of it reaches the disk, are counted together."""
    seen = 0

    def happened(*_):
        nonlocal seen
        seen += 1
        if seen == instant:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(real):
        def call(*arguments, **options):
            happened()
            return real(*arguments, **options)

        return call

    os.fsync, os.rename = counted(os.fsync), counted(os.rename)
    volume_copy.PAGE_ROWS = 16
    asyncio.run(copy_volume(source, target, told=happened))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
