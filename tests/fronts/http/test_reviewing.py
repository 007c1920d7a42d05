"""Reviews over HTTP and through the client: the queue, verdicts, and who may give them."""

import pytest

import bailiwick
from bailiwick.state.runs.verdicts import VerdictBook
from tests.fronts.http.serving import check_error, serving
from tests.fronts.http.test_notices import listening

ALL = ("read", "write", "list", "delete", "move", "metadata")


@pytest.mark.spec("REVIEW-1")
async def test_a_person_accepts_and_rejects_over_http(tmp_path):
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL)
        await person.post("/file/write", json={"path": "a", "content": "1\n2\n3\n"})
        await agent.post("/file/write", json={"path": "a", "content": "1\ntwo\n3\n"})
        await agent.post("/file/write", json={"path": "b", "content": "b\n"})
        queue = (await person.get("/review")).json()
        assert (queue["kind"], queue["left"], queue["truncated"]) == ("review", 2, False)
        first, second = (file["hunks"][0] for file in queue["files"])
        assert first["lines"] == [" 1", "-2", "+two", " 3"]
        assert first["subject"].startswith("agent_run:")
        run = first["run"]
        page = (await person.get(f"/review?run={run}&limit=1")).json()
        rest = (await person.get(f"/review?run={run}&cursor={page['nextCursor']}")).json()
        assert [file["path"] for file in (*page["files"], *rest["files"])] == ["a", "b"]
        looked = await person.post("/review", json={"reject": [first["id"]], "preview": True})
        assert (looked.json()["undone"], looked.json()["left"]) == (["a"], 2)
        body = {"accept": [second["id"]], "reject": [first["id"]], "note": "keep the digit"}
        done = (await person.post("/review", json=body)).json()
        assert (done["accepted"], done["rejected"]) == ([second["id"]], [first["id"]])
        assert (done["left"], done["conflicts"]) == (0, [])
        assert (await person.get("/file?path=a")).json()["content"] == "1\n2\n3\n"
        assert (await person.get(f"/runs/{run}")).json()["reviewed"] == 2
        hunks = (await person.get(f"/runs/{run}/changes?path=b")).json()["changes"][0]["hunks"]
        assert hunks[0]["reviewed"] == "accepted"


@pytest.mark.spec("REVIEW-1")
async def test_a_rejection_that_is_refused_tells_what_was_accepted(tmp_path):
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL)
        await agent.post("/file/write", json={"path": "a", "content": "a\n"})
        await agent.post("/fork", json={"name": "try"})
        await agent.post("/file/write?fork=try", json={"path": "b", "content": "b\n"})
        for which, applied in (({}, []), ({"ofFork": "try"}, ["b"])):
            queue = (await person.get("/review", params=which)).json()
            ((hunk,),) = (file["hunks"] for file in queue["files"])
            said = {**which, "accept": [hunk["id"]], "reject": ["0123456789ab"]}
            refused = await person.post("/review", json=said)
            check_error(refused.status_code, refused.json(), "path_not_found")
            assert refused.json()["details"] == {"accepted": [hunk["id"]], "applied": applied}
            alone = await person.post("/review", json={**said, "accept": []})
            assert "details" not in alone.json()
        assert (await person.get("/file?path=b")).json()["content"] == "b\n"


@pytest.mark.spec("REVIEW-1")
async def test_verdicts_that_contradict_each_other_are_refused_before_either(tmp_path):
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL)
        await agent.post("/file/write", json={"path": "a", "content": "a\n"})
        await agent.post("/fork", json={"name": "try"})
        await agent.post("/file/write?fork=try", json={"path": "b", "content": "b\n"})
        for which, named in (({}, "run"), ({"ofFork": "try"}, None)):
            queue = (await person.get("/review", params=which)).json()
            ((hunk,),) = (file["hunks"] for file in queue["files"])
            whole = [hunk[named]] if named else ["try", "try:b", f"try@{queue['version']}"]
            for each in whole:
                said = {**which, "accept": [each], "reject": [hunk["id"]]}
                refused = await person.post("/review", json=said)
                check_error(refused.status_code, refused.json(), "parse_error")
            assert (await person.get("/review", params=which)).json()["left"] == 1


@pytest.mark.spec("REVIEW-1")
async def test_an_agent_reviews_nothing_over_http(tmp_path):
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL)
        await agent.post("/file/write", json={"path": "a", "content": "a\n"})
        (file,) = (await person.get("/review")).json()["files"]
        known, run = file["hunks"][0]["id"], file["hunks"][0]["run"]
        refused = await agent.get("/review")
        check_error(refused.status_code, refused.json(), "missing_access")
        for ids in ([known], [run], [f"{run}:a"]):
            for body in ({"accept": ids}, {"reject": ids}):
                refused = await agent.post("/review", json=body)
                check_error(refused.status_code, refused.json(), "missing_access")
        assert (await person.get("/review")).json()["left"] == 1
        wrong = await person.post("/review", json={"accept": ["0123456789ab"]})
        check_error(wrong.status_code, wrong.json(), "path_not_found")
        for body in (
            {}, {"accept": [known], "preview": True}, {"accept": [known], "note": "for nobody"},
            {"reject": [known], "over": True}, {"reject": [known], "text": "x"},
        ):  # fmt: skip
            wrong = await person.post("/review", json=body)
            check_error(wrong.status_code, wrong.json(), "parse_error")


@pytest.mark.spec("REVIEW-1")
async def test_the_client_reviews(tmp_path):
    async with (
        serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house,
        bailiwick.connect(house.url, token=house.token) as fs,
    ):
        agent = await house.agent(*ALL)
        for name in "abc":
            await agent.post("/file/write", json={"path": name, "content": f"{name}\n"})
        queue = await fs.review.queue(paths=["a"])
        ((hunk,),) = [file.hunks for file in queue.files]
        assert (await fs.review.accept(hunk.id)).left == 2
        planned = await fs.review.reject(run=hunk.run, paths=["b"], preview=True)
        assert planned.undone == ["b"]
        done = await fs.review.reject(run=hunk.run, note="not needed")
        assert (sorted(done.undone), done.left) == (["b", "c"], 0)


@pytest.mark.spec("REVIEW-3")
async def test_an_agent_is_told_once_what_was_taken_back(tmp_path):
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL)
        other = await house.agent(*ALL, subject="agent_run:c1/r2")
        await person.post("/file/write", json={"path": "a", "content": "1\n2\n3\n"})
        await agent.post("/file/write", json={"path": "a", "content": "1\ntwo\n3\n"})
        (file,) = (await person.get("/review")).json()["files"]
        body = {"reject": [file["hunks"][0]["id"]], "note": "keep the digit"}
        await person.post("/review", json=body)
        for whose in (person, other):
            assert "review" not in (await whose.get("/file?path=a")).json()
        told = (await agent.get("/file?path=a")).json()
        (note,) = told["review"]
        assert (note["path"], note["lines"]) == ("a", ["-2", "+two"])
        assert (note["note"], note["by"]) == ("keep the digit", "user:local")
        assert told["content"] == "1\n2\n3\n"
        assert "review" not in (await agent.get("/file?path=a")).json()


@pytest.mark.spec("REVIEW-3", "SCALE-6")
@pytest.mark.parametrize("step", ["has_notes", "take_notes"])
@pytest.mark.parametrize("error", [bailiwick.Busy, bailiwick.IoError])
async def test_what_was_done_is_answered_where_the_state_cannot_tell_what_was_taken_back(
    tmp_path, monkeypatch, step, error
):
    """Who is told that nothing was done does it again. What was taken back is told later."""

    def failing(*_):
        raise error("the database of the state does not answer")

    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL)
        await agent.post("/file/write", json={"path": "a", "content": "1\n"})
        await agent.post("/file/write", json={"path": "b", "content": "b\n"})
        (file, _) = (await person.get("/review")).json()["files"]
        await person.post("/review", json={"reject": [file["hunks"][0]["id"]]})
        with monkeypatch.context() as patched:
            patched.setattr(VerdictBook, step, failing)
            done = await agent.post("/file/append", json={"path": "b", "content": "more\n"})
            assert done.status_code == 200, done.text
            assert "review" not in done.json()
        told = (await agent.get("/file?path=b")).json()
        assert told["content"] == "b\nmore\n"
        assert [each["path"] for each in told["review"]] == ["a"]


@pytest.mark.spec("NOTE-1", "REVIEW-3")
async def test_a_verdict_is_heard_by_who_follows_the_root(tmp_path):
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL, "watch")
        for name in ("a", "b"):
            await agent.post("/file/write", json={"path": name, "content": f"{name}\n"})
        (first, second) = (await person.get("/review")).json()["files"]
        async with listening(person) as told, listening(agent) as heard:
            await person.post("/review", json={"accept": [first["hunks"][0]["id"]]})
            body = {"reject": [second["hunks"][0]["id"]], "note": "not that"}
            await person.post("/review", json=body)
            for each in (told, heard):
                found = await each.wait_for("review", 2)
                said = [(one["kind"], one["path"], one["note"]) for one in found]
                assert said == [("accepted", "a", ""), ("rejected", "b", "not that")]


@pytest.mark.spec("REVIEW-2")
async def test_a_fork_is_reviewed_over_http(tmp_path):
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL)
        lines = "".join(f"{number}\n" for number in range(1, 10))
        await person.post("/file/write", json={"path": "a", "content": lines})
        await agent.post("/fork", json={"name": "try"})
        theirs = lines.replace("2\n", "two\n").replace("8\n", "eight\n")
        await agent.post("/file/write?fork=try", json={"path": "a", "content": theirs})
        await agent.post("/file/write?fork=try", json={"path": "b", "content": "b\n"})
        assert (await person.get("/review")).json()["left"] == 0
        queue = (await person.get("/review?ofFork=try")).json()
        first, second = queue["files"]
        assert (queue["left"], first["against"], second["kind"]) == (3, None, "created")
        two, eight = (hunk["id"] for hunk in first["hunks"])
        said = {"ofFork": "try", "accept": [f"{two}@{first['version']}"], "reject": ["try:b"]}
        for body in ({**said, "reject": []}, {**said, "accept": []}):
            refused = await agent.post("/review", json=body)
            check_error(refused.status_code, refused.json(), "missing_access")
        refused = await agent.get("/review?ofFork=try")
        check_error(refused.status_code, refused.json(), "missing_access")
        done = (await person.post("/review", json={**said, "note": "not needed"})).json()
        assert (done["accepted"], done["applied"], done["undone"]) == ([two], ["a"], ["b"])
        assert (done["left"], done["conflicts"]) == (1, [])
        told = (await agent.get("/file?path=a")).json()
        assert told["content"] == lines.replace("2\n", "two\n")
        assert [(note["path"], note["note"]) for note in told["review"]] == [("b", "not needed")]
        gone = await person.get("/file?path=b&fork=try")
        check_error(gone.status_code, gone.json(), "path_not_found")
        wrong = await person.post("/review", json={**said, "accept": [f"{eight}@0"], "reject": []})
        check_error(wrong.status_code, wrong.json(), "hash_mismatch")
        async with bailiwick.connect(house.url, token=house.token) as fs:
            (file,) = (await fs.review.queue(fork="try")).files
            assert [hunk.id for hunk in file.hunks] == [eight]
            done = await fs.review.accept(fork="try", paths=["a"])
            assert (done.accepted, done.left) == ([eight], 0)
        assert (await person.get("/file?path=a")).json()["content"] == theirs


@pytest.mark.spec("REVIEW-2")
async def test_an_overlay_is_reviewed_over_http(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("1\n2\n3\n")
    async with serving(tmp_path, place=f"overlay:{tmp_path}/tree") as house:
        person, agent = house.client(), await house.agent(*ALL)
        await agent.post("/file/write", json={"path": "a", "content": "1\ntwo\n3\n"})
        await agent.post("/file/write", json={"path": "b", "content": "b\n"})
        work = (await person.get("/work")).json()["work"][-1]["id"]
        queue = (await person.get(f"/review?work={work}")).json()
        assert [file["path"] for file in queue["files"]] == ["a", "b"]
        body = {"work": work, "accept": [f"{work}:a"], "reject": [f"{work}:b"]}
        refused = await agent.post("/review", json=body)
        check_error(refused.status_code, refused.json(), "missing_access")
        done = (await person.post("/review", json=body)).json()
        assert (done["applied"], done["undone"], done["left"]) == (["a"], ["b"], 0)
        assert (tmp_path / "tree" / "a").read_text() == "1\ntwo\n3\n"
        gone = await agent.get("/file?path=b")
        check_error(gone.status_code, gone.json(), "path_not_found")
