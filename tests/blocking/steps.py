"""What tests of blocking code have in common."""

import threading

from tests.waiting import PATIENCE_S, until_blocking


class Came(Exception):
    """What a handler of a signal raises."""


def here(portal):
    """Whether a step is taken in the calling thread; not at once, where its loop is busy."""

    async def thread():
        return threading.get_ident()

    return until_blocking(lambda: portal.run(thread()) == threading.get_ident())


def ends(work):
    """In a thread of its own, as one that never ends would be waited for forever."""
    raised = []

    def bear():
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=bear, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it waits for itself"
    assert raised == []
