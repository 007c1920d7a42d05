"""A server for clients in other languages, which learn of it from their environment."""

import contextlib
import os

from tests.fronts.http.serving import AGENT, PERSON, serving
from tests.fronts.http.test_asking import ASKS


@contextlib.asynccontextmanager
async def asking(place):
    """A house that asks about what is written in `migrations`, and the variables that tell where
    it is and who is who."""
    (place / "tree").mkdir()
    config = ASKS.format(place=place / "tree").replace('"move"]', '"move", "watch"]')
    async with serving(place, config=config, ask_wait_s=0.05) as house:
        agent = await house.authority.tokens.issue("agent", AGENT, by=PERSON, front="test")
        yield house, {
            "PATH": os.environ["PATH"], "BAILIWICK_URL": house.url,
            "BAILIWICK_AGENT": agent, "BAILIWICK_PERSON": house.token,
        }  # fmt: skip
