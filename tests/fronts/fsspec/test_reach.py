"""What someone reaches who chooses the URL, or the storage options too: an untrusted catalog."""

import contextlib
import os
import pickle
import socket
import threading

import fsspec
import pytest

import bailiwick
from bailiwick.fronts.fsspec import BailiwickFileSystem, places, reach, restrict

pytestmark = [
    pytest.mark.spec("FSSPEC-1", "HTTP-2"),
    pytest.mark.leaks_ok("fsspec's own loop keeps worker threads for the whole process"),
]

KINDS = (places.DirectoryFileSystem, places.VolumeFileSystem, places.ServerFileSystem)
SECRET = "the-secret-of-another-place"


@pytest.fixture(autouse=True)
def unrestricted(monkeypatch):
    monkeypatch.setattr(reach.REACH, "_options", None)
    yield
    for kind in KINDS:
        for fs in list(kind._cache.values()):
            if fs.loop is not None:
                fs.close()
        kind.clear_instance_cache()


@pytest.fixture
def house(tmp_path):
    """A place that is meant, another beside it with a secret, and a volume with two."""
    for name, text in (("mine", "mine"), ("other", SECRET)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(text)
        with bailiwick.open_sync(f"sqlite:{tmp_path}/v.db?volume={name}") as scope:
            scope.write_text("a", text)
    (tmp_path / "mine" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "link").symlink_to(tmp_path / "other")
    return tmp_path


def read(url, **options):
    with fsspec.open(url, "rb", **options) as file:
        return file.read().decode()


# --- which places there are ----------------------------------------------------------------------


def others(house):
    """URLs that name another place, in every way that was thought of."""
    mine, other, slashes = f"{house}/mine", f"{house}/other", f"//{house}/other"
    yield from (
        f"bailiwick+file://{other}!/a", f"bailiwick+file://{mine}/../other!/a",
        f"bailiwick+file://{mine}/./../other/!/a", f"bailiwick+file://{house}/link!/a",
        f"bailiwick+file://{mine}/link!/a", f"bailiwick+file://{house}!/other/a",
        f"bailiwick+file://{slashes}!/a", f"bailiwick+file://{os.path.relpath(other)}!/a",
        f"bailiwick+file://{house}/..!/{house.name}/other/a",
        f"bailiwick+file://{mine}\0!/a", f"bailiwick+file://sqlite:{house}/v.db!/a",
        f"bailiwick+file://{mine}?!/../other/a",
        f"bailiwick+sqlite://{house}/v.db?volume=other!/a",
        f"bailiwick+sqlite://{house}/v.db?volume=mine&branch=x!/a",
        f"bailiwick+sqlite://{house}/v.db?volume=mine&blobs={other}!/a",
        f"bailiwick+sqlite://{house}/new.db?volume=mine!/a",
        f"bailiwick+sqlite://{house}/v.db?volume=%6fther!/a",
        "bailiwick://127.0.0.1:9/workspace/demo/a", "bailiwick://127.0.0.1/workspace/demo/a",
        "bailiwick://evil.example/workspace/demo/a", "bailiwick://[::1]:4180/workspace/demo/a",
        "bailiwick://127.0.0.1:4180/workspace/other/a",
        "bailiwick://127.0.0.1:4180/memory/demo/a",
        "bailiwick://127.0.0.1:4180/workspace/demo%2f..%2fother/a",
    )  # fmt: skip
    for chain in ("simplecache", "filecache", "blockcache"):
        yield f"{chain}::bailiwick+file://{other}!/a"


def restrict_to_mine(house):
    restrict(
        {
            f"bailiwick+file://{house}/mine": {"trusted": False},
            f"bailiwick+sqlite://{house}/v.db?volume=mine": {},
            "bailiwick://127.0.0.1:4180/workspace/demo": {"token": "t"},
        }
    )


def test_where_places_are_named_no_url_reaches_another(house):
    restrict_to_mine(house)
    for url in others(house):
        with pytest.raises((PermissionError, ValueError)) as refused:
            read(url)
        assert SECRET not in str(refused.value), url
    assert not (house / "new.db").exists()


def test_the_control_without_it_a_url_names_any_place_as_file_does(house):
    """Both hand the secret out: whoever takes URLs from strangers has to say which places."""
    assert read(f"file://{house}/mine/../other/a") == SECRET
    assert read(f"bailiwick+file://{house}/mine/../other!/a") == SECRET
    assert read(f"bailiwick+sqlite://{house}/v.db?volume=other!/a") == SECRET


def test_the_places_that_are_named_are_reached_however_they_are_spelled(house, monkeypatch):
    restrict_to_mine(house)
    monkeypatch.chdir(house)
    for url in (
        f"bailiwick+file://{house}/mine!/a", "bailiwick+file://mine!/a",
        f"bailiwick+file://{house}/other/../mine/!/a", "bailiwick+file://./mine!/a",
        f"bailiwick+sqlite://{house}/v.db?volume=mine!/a", "bailiwick+sqlite://v.db?volume=mine!/a",
        f"simplecache::bailiwick+file://{house}/mine!/a",
    ):  # fmt: skip
        assert read(url) == "mine"
    new = fsspec.open(f"bailiwick+file://{house}/mine!/b", "wb")
    with pytest.raises(PermissionError), new as file:
        file.write(b"x")
    assert not (house / "mine/b").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"trusted": True}, {"access": ["read", "write"]}, {"state_dir": "STATE", "history": "on"},
        {"containment": "walk"}, {"cross_mounts": True}, {"copy_in": ["/etc"]},
        {"symlinks": "in-root"}, {"limits": bailiwick.Limits()}, {"mount_point": "/x"},
    ],
    ids=lambda options: next(iter(options)),
)  # fmt: skip
def test_how_a_place_is_opened_is_not_for_a_catalog_to_say(house, options):
    restrict_to_mine(house)
    options = {name: f"{house}/state" if value == "STATE" else value
               for name, value in options.items()}  # fmt: skip
    with pytest.raises(PermissionError, match="not for its caller"):
        read(f"bailiwick+file://{house}/mine!/a", **options)
    assert not (house / "state").exists()
    assert read(f"bailiwick+file://{house}/mine!/a", trusted=False) == "mine"


def test_storage_options_name_no_other_place_either(house):
    restrict_to_mine(house)
    other = str(house / "other")
    with pytest.raises((PermissionError, TypeError)):
        read(f"bailiwick+file://{house}/mine!/a", place=other)
    with pytest.raises(PermissionError):
        fsspec.filesystem("bailiwick+file", place=other)
    with pytest.raises(PermissionError):
        fsspec.filesystem("bailiwick+sqlite", place=f"{house}/v.db?volume=other")
    with pytest.raises(PermissionError):
        fsspec.filesystem("bailiwick", host="127.0.0.1:4180", root="workspace:other")
    with pytest.raises(PermissionError):
        fsspec.filesystem("bailiwick", host="127.0.0.1:4180", root="workspace:demo", tls=True)
    with pytest.raises(PermissionError):
        fsspec.filesystem("bailiwick", host="127.0.0.1:4180", root="workspace:demo", token="x")
    for more in ({"fo": f"{other}/a"}, {"target_protocol": "file"}, {"auto_mkdir": True}):
        assert read(f"bailiwick+file://{house}/mine!/a", **more) == "mine"


def test_one_that_was_made_before_is_asked_for_anew(house):
    url = f"bailiwick+file://{house}/other!/a"
    fs, _ = fsspec.core.url_to_fs(url)
    sent = pickle.dumps(fs)
    fs.close()
    restrict_to_mine(house)
    with pytest.raises(PermissionError):
        read(url)
    with pytest.raises(PermissionError):
        pickle.loads(sent)


def test_what_was_judged_is_what_is_opened(house):
    """A link that is turned round after the place was judged leads nowhere else."""
    (house / "way").symlink_to(house / "mine")
    restrict_to_mine(house)
    fs, path = fsspec.core.url_to_fs(f"bailiwick+file://{house}/way!/a")
    (house / "way").unlink()
    (house / "way").symlink_to(house / "other")
    assert fs.cat_file(path) == b"mine"
    with pytest.raises(PermissionError):
        fsspec.core.url_to_fs(f"bailiwick+file://{house}/way!/a", use_listings_cache=True)


# --- what a relative place means -----------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    """Two directories to work in, each with a place of the same name."""
    for side in "ab":
        (tmp_path / side / "data").mkdir(parents=True)
        (tmp_path / side / "data" / "f").write_text(side)
        with bailiwick.open_sync(f"sqlite:{tmp_path}/{side}/v.db") as scope:
            scope.write_text("f", side)
    return tmp_path


RELATIVE = [
    "bailiwick+file://./data!/f", "bailiwick+file://data!/f", "bailiwick+sqlite://v.db!/f",
    "bailiwick+sqlite://./v.db?volume=main!/f", "simplecache::bailiwick+file://./data!/f",
    "simplecache::bailiwick+sqlite://v.db!/f",
]  # fmt: skip


@pytest.mark.parametrize("url", RELATIVE)
def test_a_relative_place_is_that_of_the_directory_one_is_in(two, url, monkeypatch):
    for side in "abab":
        monkeypatch.chdir(two / side)
        assert read(url) == side
        sent = pickle.dumps(fsspec.core.url_to_fs(url.removeprefix("simplecache::"))[0])
        monkeypatch.chdir(two)
        assert pickle.loads(sent).cat_file("f") == side.encode(), "it is the same for others"


@pytest.mark.parametrize("place", [{"place": "./data"}, {"place": "data/"}])
def test_so_is_one_that_is_given_by_name(two, place, monkeypatch):
    kind, made = places.DirectoryFileSystem, {}
    for side in "ab":
        monkeypatch.chdir(two / side)
        made[side] = fsspec.filesystem("bailiwick+file", **place)
        assert made[side].cat_file("f") == side.encode()
        assert kind("data") is made[side]
        assert kind(f"{two}/{side}/data") is made[side], "and one place is one filesystem"
        assert made[side].unstrip_protocol("f") == f"bailiwick+file://{two}/{side}/data!/f"
    assert made["a"] is not made["b"]


def test_what_is_written_goes_there_too(two, monkeypatch):
    for side in "ab":
        monkeypatch.chdir(two / side)
        with fsspec.open("bailiwick+file://./data!/new", "wb") as file:
            file.write(side.encode())
    assert [(two / side / "data/new").read_text() for side in "ab"] == ["a", "b"]


def test_a_relative_place_for_blobs_stays_where_it_was(two, monkeypatch):
    monkeypatch.chdir(two / "a")
    url = "bailiwick+sqlite://new.db?volume=main&blobs=blobs%26!/f"
    fs, _ = fsspec.core.url_to_fs(url, create=True)
    monkeypatch.chdir(two / "b")
    fs.pipe_file("f", b"x" * 5_000_000)
    assert (two / "a/blobs&").is_dir()
    assert sorted(os.listdir(two / "b")) == ["data", "v.db"]


def test_a_place_is_judged_each_time_that_it_is_named(two, monkeypatch):
    monkeypatch.chdir(two / "a")
    restrict({"bailiwick+file://./data": {}, "bailiwick+sqlite://v.db": {}})
    for url in RELATIVE:
        monkeypatch.chdir(two / "a")
        assert read(url) == "a"
        monkeypatch.chdir(two / "b")
        with pytest.raises(PermissionError):
            read(url)
    for protocol, place in (("bailiwick+file", "data"), ("bailiwick+sqlite", "v.db")):
        with pytest.raises(PermissionError):
            fsspec.filesystem(protocol, place=place)


def test_a_link_that_is_turned_round_is_another_place(house):
    way = house / "way"
    url = f"bailiwick+file://{way}!/a"
    for name, text in (("mine", "mine"), ("other", SECRET)):
        way.unlink(missing_ok=True)
        way.symlink_to(house / name)
        assert read(url) == text
    restrict_to_mine(house)
    with pytest.raises(PermissionError):
        read(url)
    way.unlink()
    way.symlink_to(house / "mine")
    assert read(url) == "mine"
    way.unlink()
    way.symlink_to(house / "other")
    with pytest.raises(PermissionError):
        read(url)


def test_a_place_of_fsspec_s_own_settings_is_settled_too(two, monkeypatch):
    monkeypatch.setitem(fsspec.config.conf, "bailiwick+file", {"place": "data"})
    for side in "ab":
        monkeypatch.chdir(two / side)
        assert fsspec.filesystem("bailiwick+file").cat_file("f") == side.encode()


# --- what is sent along --------------------------------------------------------------------------


def test_a_token_that_is_given_is_sent_along_and_others_are_not(monkeypatch):
    where = {"host": "127.0.0.1:4180", "root": "workspace:demo"}

    def told(fs):
        return f"{pickle.dumps(fs)} {fs.to_json()} {fs.storage_options}"

    assert told(fsspec.filesystem("bailiwick", **where, token=TOKEN)).count(TOKEN) == 3
    monkeypatch.setenv("BAILIWICK_TOKEN", TOKEN)
    assert TOKEN not in told(fsspec.filesystem("bailiwick", **where))
    restrict({"bailiwick://127.0.0.1:4180/workspace/demo": {"token": TOKEN}})
    assert TOKEN not in told(fsspec.filesystem("bailiwick", **where))


@pytest.mark.parametrize("url", ["", "/srv", "file://srv", "bailiwick+file://", "bailiwick://x/y"])
def test_what_names_no_place_restricts_nothing(url):
    with pytest.raises(bailiwick.ParseError):
        restrict({url: {}})
    assert reach.REACH._options is None


def test_a_filesystem_on_a_scope_keeps_to_it_whatever_a_url_says(house):
    with bailiwick.open_sync(house / "mine") as scope:
        fs = BailiwickFileSystem(scope)
        for url in (f"bailiwick+scope://{house}/other/a", f"bailiwick+file://{house}/other!/a",
                    f"file://{house}/other/a", f"{house}/other/a"):  # fmt: skip
            with pytest.raises(FileNotFoundError):
                fs.cat_file(url)


# --- to whom a token is shown --------------------------------------------------------------------


@contextlib.contextmanager
def listening():
    """A server of somebody else's, which keeps what it is sent."""
    heard = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        heard.append(connection.recv(65536))
                        connection.sendall(
                            b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n"
                            b"Content-Type: application/json\r\nConnection: close\r\n\r\n{}"
                        )

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], heard
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join()


TOKEN = "a-token-that-is-for-one-server-only"


def shown_to(url, **options):
    """What a server is sent when a URL is opened that somebody else has chosen."""
    with listening() as (port, heard):
        with pytest.raises(bailiwick.InternalError, match="no answer"):
            read(url.format(port=port), **options)
        sent = b"".join(heard)
    assert sent.startswith(b"GET "), "nobody was spoken with: this proves nothing"
    return sent.decode()


def test_the_token_of_the_environment_goes_to_no_other_server(monkeypatch):
    monkeypatch.setenv("BAILIWICK_TOKEN", TOKEN)
    monkeypatch.delenv("BAILIWICK_PLACE", raising=False)
    url = "bailiwick://127.0.0.1:{port}/workspace/demo/a"
    assert TOKEN not in shown_to(url)
    for place in ("http://127.0.0.1:4180", "https://127.0.0.1", "./project", "http://[", "http://"):
        monkeypatch.setenv("BAILIWICK_PLACE", place)
        assert TOKEN not in shown_to(url)
    # The control: it is shown where the caller says so.
    assert TOKEN in shown_to(url, token=TOKEN)


def test_it_goes_to_the_server_that_it_is_for(monkeypatch):
    monkeypatch.setenv("BAILIWICK_TOKEN", TOKEN)
    for place, address in (
        (None, "http://127.0.0.1:4180"), ("./project", "http://127.0.0.1:4180"),
        ("http://Files.example:80/roots/workspace/demo", "http://files.example"),
        ("https://files.example", "https://files.example:443"),
    ):  # fmt: skip
        monkeypatch.delenv("BAILIWICK_PLACE", raising=False)
        if place is not None:
            monkeypatch.setenv("BAILIWICK_PLACE", place)
        assert reach.token_for(address) == TOKEN
    for address in ("http://files.example:443", "https://files.example.evil", "https://evil",
                    "https://files.example:444", "https://[",
                    "https://files.example@evil"):  # fmt: skip
        assert reach.token_for(address) is None
    monkeypatch.delenv("BAILIWICK_TOKEN")
    assert reach.token_for("https://files.example:443") is None


def test_whoever_is_refused_without_a_token_is_told_where_theirs_goes(server, monkeypatch):
    host, token = server
    monkeypatch.setenv("BAILIWICK_TOKEN", token)
    monkeypatch.delenv("BAILIWICK_PLACE", raising=False)
    with pytest.raises(bailiwick.Unauthenticated) as refused:
        read(f"bailiwick://{host}/workspace/demo/a")
    assert "BAILIWICK_PLACE" in refused.value.hint
    assert token not in f"{refused.value!r} {refused.value.hint}"


@pytest.mark.parametrize(
    "url",
    [
        "bailiwick://user:secret@127.0.0.1:4180/workspace/demo/a",
        "bailiwick://127.0.0.1:4180@evil.example/workspace/demo/a",
        "bailiwick://127.0.0.1:4180\\@evil.example/workspace/demo/a",
        "bailiwick://127.0.0.1:4180#@evil.example/workspace/demo/a",
        "bailiwick://127.0.0.1:4180?x=/workspace/demo/a",
        "bailiwick://127.0.0.1:4180%2f..%2f/workspace/demo/a",
        "bailiwick://127.0.0.1:4180\r\nX-Evil: 1/workspace/demo/a",
        "bailiwick://127.0.0.1:4180\t/workspace/demo/a", "bailiwick:// /workspace/demo/a",
        "bailiwick://127.0.0.1:99999999/workspace/demo/a", "bailiwick:///workspace/demo/a",
        "bailiwick://unix:%2frun%2fx.sock/workspace/demo/a", "bailiwick://workspace/demo",
        "bailiwick://127.0.0.1:4180", "bailiwick://", "bailiwick://-evil/workspace/demo/a",
    ],
)  # fmt: skip
def test_what_names_no_plain_server_is_refused(url):
    with pytest.raises(bailiwick.ParseError):
        read(url)


@pytest.mark.parametrize(
    "root",
    [
        "workspace/%00",
        "..%2f/x",
        "%20/x",
        "workspace%2fa/x",
        "workspace/..",
        "workspace/%2e%2e",
        "workspace/.",
    ],
)
def test_what_names_no_root_is_refused(root):
    """Before anything is sent: nobody listens there, and that is not what is said."""
    with pytest.raises(bailiwick.ParseError):
        read(f"bailiwick://127.0.0.1:9/{root}/a")


@pytest.mark.parametrize("root", ["..%2f..%2fx", "a%2f%2e%2e", "...", "x%3fy%23z"])
def test_the_name_of_a_root_is_one_part_of_what_is_asked_for(root):
    sent = shown_to("bailiwick://127.0.0.1:{port}/workspace/" + root + "/a")
    route = sent.split(" ")[1]
    assert route.startswith("/roots/workspace/")
    assert route.count("/") == 4
    assert route.partition("?")[0].endswith("/capabilities")


@pytest.mark.parametrize(
    "host", ["evil/x", "a@b", "a b", "a\r\nb", "", None, 7, "a?b", "a#b", "[x"]
)
def test_a_host_among_the_options_is_no_more_than_one(host):
    with pytest.raises(bailiwick.ParseError):
        fsspec.filesystem("bailiwick", host=host, root="workspace:demo")


def test_a_volume_that_is_not_there_is_made_only_where_that_is_said(tmp_path):
    url = f"bailiwick+sqlite://{tmp_path}/new.db?volume=main!/a"
    for mode in ("rb", "wb"):
        with pytest.raises(FileNotFoundError) as refused, fsspec.open(url, mode) as file:
            file.write(b"x")
        assert "create=True" in refused.value.hint
    assert os.listdir(tmp_path) == []
    with fsspec.open(url, "wb", create=True) as file:
        file.write(b"x")
    assert read(url) == "x"
