"""The same steps on a volume and in memory: the same answers, and the same tree."""

import itertools

import hypothesis
import pytest
from hypothesis.stateful import run_state_machine_as_test

from bailiwick.testing.driver import StoreDriver
from tests.stores.test_model import Operations, outcome, plain, snapshot, text
from tests.stores.trees import make_memory
from tests.stores.volume.volumes import make_volume


def volume_against_memory(tmp_path, *, in_fork):
    numbers = itertools.count()

    class VolumeAgainstMemory(Operations):
        def __init__(self):
            super().__init__()
            place = tmp_path / f"example{next(numbers)}"
            place.mkdir()
            self.whole = self.runner.run(make_volume(place)())
            self.volume = self.whole
            if in_fork:
                fork = self.runner.run(self.whole.store.versions.fork("work"))
                self.volume = StoreDriver(fork)
            self.memory = self.runner.run(make_memory()())
            self.steps = 0

        def perform(self, verb, *arguments, **options):
            spelled = [text(a) if isinstance(a, tuple) else a for a in arguments]
            here = self.runner.run(outcome(getattr(self.volume, verb)(*spelled, **options)))
            there = self.runner.run(outcome(getattr(self.memory, verb)(*spelled, **options)))
            shown = [(said, plain(verb, r) if said == "done" else r) for said, r in (here, there)]
            assert shown[0] == shown[1], (verb, spelled, options)
            trees = [self.runner.run(snapshot(fs)) for fs in (self.volume, self.memory)]
            assert trees[0] == trees[1]
            self.steps += 1
            if in_fork and self.steps % 7 == 0:
                self.fork_again()

        def fork_again(self):
            """Go on in a fork of the fork: everything so far is inherited."""
            fork = self.runner.run(self.volume.store.versions.fork(f"work{self.steps}"))
            self.runner.run(self.volume.aclose())
            self.volume = StoreDriver(fork)

        def teardown(self):
            async def close():
                assert (await self.volume.store.versions.check()).problems == []
                await self.volume.aclose()
                if self.volume is not self.whole:
                    await self.whole.aclose()

            self.runner.run(close())
            super().teardown()

    return VolumeAgainstMemory


@pytest.mark.slow
@pytest.mark.spec("VOL-12", "TREE-3", "LINK-2")
@pytest.mark.parametrize("in_fork", [False, True])
def test_a_volume_does_what_memory_does(tmp_path, in_fork):
    settings = hypothesis.settings(max_examples=50, stateful_step_count=30)
    run_state_machine_as_test(volume_against_memory(tmp_path, in_fork=in_fork), settings=settings)
