"""Conditions on changes, over HTTP: the server holds them against what stands there."""

import pytest

from bailiwick import errors
from tests.client.test_verbs import remote
from tests.scope.test_expecting import FILE


@pytest.mark.spec("TREE-9", "HTTP-4")
async def test_what_is_expected_is_held_against_there_too(tmp_path):
    async with remote(tmp_path) as fs:
        for verb, change in FILE.items():
            await fs.write_bytes("other", b"two")
            seen = await fs.write_bytes("f", b"one")
            for wrong in ({"expected_version": "0"}, {"expected_sha256": "0" * 64}):
                with pytest.raises(errors.HashMismatch) as caught:
                    await change(fs, "f", **wrong)
                assert caught.value.details["current_sha256"] == seen.sha256, verb
            assert (await fs.read_bytes("f")).data == b"one", verb
            right = {"expected_version": seen.version, "expected_sha256": seen.sha256}
            assert (await change(fs, "f", **right)).request_id, verb
            await fs.remove("new", missing_ok=True)
        seen = await fs.write_bytes("f", b"one")
        await fs.write_bytes("f", b"two")
        with pytest.raises(errors.HashMismatch):
            await fs.restore("f", seen.version, expected_version=seen.version)
        assert (await fs.read_bytes("f")).data == b"two"

        async def changed_together():
            async with fs.transaction() as inside:
                await inside.write_text("other", "not kept")
                await inside.remove("f", expected_version=seen.version)

        with pytest.raises(errors.HashMismatch) as caught:
            await changed_together()
        assert caught.value.details["operation"] == 1
        assert (await fs.read_bytes("f")).data == b"two"
