"""Runs over HTTP and through the client: listed, shown, taken back, named by headers."""

import pytest

import bailiwick
from tests.fronts.http.serving import check_error, serving

ALL = ("read", "write", "list", "delete", "move", "metadata")


@pytest.mark.spec("RUN-1", "RUN-2", "RUN-3")
async def test_runs_are_listed_shown_and_taken_back(tmp_path):
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        person, agent = house.client(), await house.agent(*ALL)
        await person.post("/file/write", json={"path": "a", "content": "1\n2\n3\n"})
        named = {"x-bailiwick-run": "Tidy%20up%20%E2%9C%93", "x-bailiwick-step": "one"}
        body = {"path": "a", "content": "1\ntwo\n3\n"}
        assert (await agent.post("/file/write", json=body, headers=named)).status_code == 200
        (run,) = (await person.get("/runs")).json()["runs"]
        assert (run["title"], run["front"], run["changed"]) == ("Tidy up ✓", "http", 1)
        assert (await person.get(f"/runs/{run['id']}")).json()["steps"][0]["name"] == "one"
        (change,) = (await person.get(f"/runs/{run['id']}/changes")).json()["changes"]
        assert change["hunks"][0]["lines"] == [" 1", "-2", "+two", " 3"]
        other = await house.agent(*ALL, subject="agent_run:c1/r2")
        assert (await other.get("/runs")).json()["runs"] == []
        hidden = await other.get(f"/runs/{run['id']}")
        check_error(hidden.status_code, hidden.json(), "path_not_found")
        undo = {"hunks": [change["hunks"][0]["id"]], "preview": True}
        looked = (await person.post(f"/runs/{run['id']}/undo", json=undo)).json()
        assert (looked["undone"], looked["preview"]) == (["a"], True)
        await person.post(f"/runs/{run['id']}/undo", json={"paths": ["a"]})
        assert (await person.get("/file?path=a")).json()["content"] == "1\n2\n3\n"


@pytest.mark.spec("RUN-1", "RUN-3")
async def test_the_client_has_runs(tmp_path):
    async with (
        serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house,
        bailiwick.connect(house.url, token=house.token) as fs,
    ):
        await fs.with_run(title="By hand ✓").write_text("a.txt", "a\n")
        (run,) = await fs.runs()
        assert (run.title, run.created) == ("By hand ✓", 1)
        assert (await fs.run_info(run.id)).id == run.id
        assert [str(each.path) for each in (await run.changes()).changes] == ["a.txt"]
        assert (await run.undo(preview=True)).undone == ["a.txt"]
        assert (await fs.undo(run=run.id, paths=["a.txt"])).undone == ["a.txt"]
        done = await fs.write_text("b.txt", "b\n")
        assert (await fs.undo(done.request_id)).undone == ["b.txt"]


@pytest.mark.spec("RUN-1")
async def test_lists_of_runs_say_where_they_were_cut_over_http_and_to_the_client(tmp_path):
    async with (
        serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house,
        bailiwick.connect(house.url, token=house.token) as fs,
    ):
        for title in ("one", "two", "three"):
            await fs.with_run(title=title).write_text("a.txt", title)
        person = house.client()
        told = (await person.get("/runs?limit=2")).json()
        assert [each["title"] for each in told["runs"]] == ["three", "two"]
        assert told["truncated"] is True
        rest = (await person.get("/runs", params={"cursor": told["nextCursor"]})).json()
        assert [each["title"] for each in rest["runs"]] == ["one"]
        assert (rest["truncated"], rest["nextCursor"]) == (False, None)
        wrong = await person.get("/runs?cursor=nonsense")
        check_error(wrong.status_code, wrong.json(), "parse_error")
        page = await fs.runs(limit=2)
        assert ([each.title for each in page], page.truncated) == (["three", "two"], True)
        page = await fs.runs(limit=2, cursor=page.next_cursor)
        assert ([each.title for each in page], page.truncated) == (["one"], False)
