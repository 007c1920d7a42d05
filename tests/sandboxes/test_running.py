"""A command runs as it was told to, sees what it was given, and nothing else."""

import asyncio
import hashlib
import os
import resource
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from bailiwick.errors import ParseError, PathNotFound
from bailiwick.sandbox import CommandLimits, HostPath, Invocation, Tree, View
from bailiwick.sandboxes import plans
from tests.sandboxes.workshop import Workshop, launchers_at_work
from tests.waiting import for_ever, until


@pytest.mark.spec("EXEC-4")
async def test_it_starts_in_its_tree_with_its_words_and_its_environment(workshop):
    workshop.plant({"sub/file": "text"})
    said = await workshop.run(
        "sh", "-c", 'pwd; cat file; printf "<%s>" "$@"; echo "$WHO"',
        "sh", "a b", "", "*", "\udcff", cwd="sub", env={"WHO": "me = you"},
    )  # fmt: skip
    assert said.out == "/work/project/sub\ntext<a b><><*><\ufffd>me = you\n"
    assert said.ending.exit_code == 0
    assert said.ending.sandbox == "bubblewrap"


@pytest.mark.spec("EXEC-4")
async def test_its_environment_is_what_it_was_given(workshop, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "canary")
    said = await workshop.shell("env; cat /proc/*/environ", env={"ONE": "1"})
    names = {line.partition("=")[0] for line in said.out.replace("\0", "\n").split("\n") if line}
    assert names == {"ONE", "PATH", "HOME", "LANG", "TMPDIR", "PWD"}
    assert "canary" not in said.out


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("./no-such", 127), ("./plain", 126)]
)
async def test_its_exit_code_is_told_as_a_shell_does(workshop, script, code):
    workshop.plant({"plain": "no program"})
    assert (await workshop.shell(script)).code == code


async def test_a_program_that_is_not_there_is_127_and_one_that_may_not_run_126(workshop):
    workshop.plant({"plain": "no program"})
    assert (await workshop.run("no-such-program")).code == 127
    assert (await workshop.run("./plain")).code == 126


async def test_a_signal_that_ended_it_is_told(workshop):
    said = await workshop.shell("kill -TERM $$")
    assert (said.ending.exit_code, said.ending.signal) == (None, 15)


async def test_it_reads_what_it_was_given_and_then_the_end(workshop):
    data = os.urandom(300_000)
    process = await workshop.start("sha256sum", stdin=data)
    ending = await process.wait()
    out = b"".join([piece.data async for piece in process.pieces()])
    await process.close()
    assert ending.exit_code == 0
    assert out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert (await workshop.run("cat")).out == ""


async def test_input_can_be_written_while_it_runs(workshop):
    process = await workshop.start("sh", "-c", "while read x; do echo got $x; done", stdin="pipe")
    pieces = process.pieces()
    await process.write(b"one\n")
    assert (await anext(pieces)).data == b"got one\n"
    await process.write(b"two\n")
    assert (await anext(pieces)).data == b"got two\n"
    await process.close_input()
    assert (await process.wait()).exit_code == 0
    await process.close()


@pytest.mark.spec("EXEC-4")
async def test_what_it_changes_is_in_the_upper_directory_and_the_tree_is_as_it_was(workshop):
    workshop.plant({"keep": "old", "gone": "old", "d/inner": "old"})
    await workshop.shell("echo new > keep; rm gone; mkdir e; echo x > e/f; chmod 755 e/f")
    assert (workshop.lower / "keep").read_text() == "old"
    assert (workshop.lower / "gone").exists()
    found = {(change.path, change.kind, change.mode) for change in workshop.changes()}
    assert found == {
        ("keep", "file_changed", 0o644),
        ("gone", "removed", 0),
        ("e", "directory_created", 0o755),
        ("e/f", "file_created", 0o755),
    }


@pytest.mark.spec("EXEC-4")
async def test_a_second_command_sees_what_the_first_one_changed(workshop):
    await workshop.shell("echo one > file")
    assert (await workshop.shell("cat file; rm file")).out == "one\n"
    assert workshop.changes() == []


@pytest.mark.spec("EXEC-4")
async def test_a_view_without_an_upper_directory_is_read_only(workshop):
    workshop.plant({"file": "text"})
    said = await workshop.shell(
        "cat file; echo x > new; rm file", view=workshop.view(writable=False)
    )
    assert said.out == "text"
    assert said.err.count("Read-only file system") == 2


@pytest.mark.spec("EXEC-4")
async def test_system_directories_are_read_only_and_its_own_are_private(workshop):
    said = await workshop.shell(
        "for d in / /usr /usr/bin /etc /proc /proc/sys /dev /run /var; do"
        " touch $d/probe 2>/dev/null && echo $d; done;"
        ' for d in /tmp "$HOME" /dev/shm /var/tmp; do touch $d/probe || echo $d; done; ls /tmp'
    )
    assert (said.out, said.err) == ("probe\n", "")
    assert (await workshop.shell("ls -A /tmp $HOME /dev/shm | grep probe")).out == ""


@pytest.mark.spec("EXEC-4")
async def test_other_trees_come_in_at_their_own_place(tmp_path, workshop):
    other = tmp_path / "other"
    other.mkdir()
    notes = Workshop(other, workshop.sandbox)
    notes.plant({"note": "of others"})
    view = View(
        trees=(
            workshop.tree(),
            Tree(place="/work/notes", lower=str(notes.lower)),
            Tree(
                place="/work/project/inner",
                lower=str(notes.lower),
                upper=str(notes.upper),
                work=str(notes.work),
            ),
        )
    )
    workshop.plant({"inner/hidden": "by the mount"})
    said = await workshop.shell(
        "cat /work/notes/note; ls inner; echo mine > inner/note; echo x > /work/notes/n", view=view
    )
    assert said.out == "of othersnote\n"
    assert "Read-only" in said.err
    assert [change.path for change in notes.changes()] == ["note"]
    assert workshop.changes() == []
    notes.clear()


@pytest.mark.spec("EXEC-4")
async def test_a_place_may_be_where_the_directory_is_on_the_host(workshop):
    """Beneath /tmp too, which is private: paths in messages are then those that everybody knows."""
    workshop.plant({"file": "text"})
    tree = Tree(place=str(workshop.lower), lower=str(workshop.lower))
    said = await workshop.shell("pwd; cat file; ls ..", view=View(trees=(tree,)))
    assert said.out == f"{workshop.lower}\ntextlower\n"


@pytest.mark.spec("EXEC-4")
async def test_a_tree_in_the_memory_of_the_machine_is_a_tree_like_any_other(workshop):
    workshop.plant({"file": "text"})
    tree = Tree(place="/dev/shm/quick/tree", lower=str(workshop.lower))
    said = await workshop.shell("pwd; cat file; ls /dev/shm", view=View(trees=(tree,)))
    assert said.out == "/dev/shm/quick/tree\ntextquick\n"
    for place in ("/dev/shm", "/dev/null", "/dev/shm/../x", "/dev/shmx/y"):
        with pytest.raises(ParseError):
            await workshop.shell(
                "true", view=View(trees=(Tree(place=place, lower=str(workshop.lower)),))
            )


@pytest.mark.spec("EXEC-4")
async def test_a_path_of_the_host_that_was_allowed_can_be_read(tmp_path, workshop):
    allowed, beside = tmp_path / "tools" / "allowed", tmp_path / "tools" / "beside"
    for directory in (allowed, beside):
        directory.mkdir(parents=True)
        (directory / "file").write_text("there")
    single = tmp_path / "tools" / "single"
    single.write_text("alone")
    view = workshop.view(readable=(HostPath(str(allowed)), HostPath(str(single))))
    said = await workshop.shell(
        f"cat {allowed}/file {single}; echo; ls {tmp_path}/tools; echo x > {allowed}/new", view=view
    )
    assert said.out == "therealone\nallowed\nsingle\n"
    assert "Read-only" in said.err


@pytest.mark.spec("EXEC-4")
async def test_a_home_that_was_given_is_kept(tmp_path, workshop):
    home = tmp_path / "home"
    home.mkdir()
    await workshop.shell("echo x > $HOME/.cache-of-it", view=workshop.view(home=str(home)))
    assert [path.name for path in home.iterdir()] == [".cache-of-it"]


@pytest.mark.spec("EXEC-4")
async def test_the_lower_tree_may_be_a_descriptor(workshop):
    workshop.plant({"file": "text"})
    fd = os.open(workshop.lower, os.O_PATH | os.O_DIRECTORY)
    try:
        view = View(trees=(Tree(place="/work/x", lower=fd),))
        assert (await workshop.shell("cat file", view=view)).out == "text"
    finally:
        os.close(fd)


@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize("writable", [True, False])
async def test_masked_names_are_not_there(workshop, writable):
    workshop.plant({".env": "k", "a/b/.env": "k", "a/b/seen": "s", "a/secrets/x": "k", "top": "t"})
    (workshop.lower / "link").symlink_to("a")
    os.chmod(workshop.lower / "a/b", 0o750)
    os.utime(workshop.lower / "a/b", (1_000_000, 1_000_000))
    masked = (".env", "a/b/.env", "./a/secrets", "a/secrets/x", "no/such", "link/b/.env", "top/x")
    view = workshop.view(writable=writable, masked=masked)
    said = await workshop.shell(
        "find . | sort; cat .env a/b/.env a/secrets/x link/b/.env; stat -c '%a %Y' a/b", view=view
    )
    seen = [".", "./a", "./a/b", "./a/b/seen", "./link", "./top"]
    assert said.out.split("\n") == [*seen, "750 1000000", ""]
    assert said.err.count("No such file or directory") == 4


@pytest.mark.spec("EXEC-4")
async def test_sockets_and_fifos_of_the_host_are_not_there(workshop):
    os.makedirs(workshop.lower / "deep/er")
    os.mkfifo(workshop.lower / "deep/er/fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workshop.lower / "socket"))
        assert (await workshop.shell("find . | sort")).out == ".\n./deep\n./deep/er\n"


CONNECT = """
import socket, sys
for path in sys.argv[1:]:
    with socket.socket(socket.AF_UNIX) as s:
        try: s.connect(path)
        except OSError: continue
        print("connected", path)
"""


@pytest.mark.spec("EXEC-4")
async def test_sockets_in_what_may_be_read_and_in_a_given_home_lead_nowhere(workshop, tmp_path):
    """The same socket is connected to through a plain bind."""
    home, tools = tmp_path / "h", tmp_path / "t"
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        for server, directory in ((one, home), (two, tools)):
            directory.mkdir()
            server.bind(str(directory / "s"))
            server.listen()
        view = workshop.view(home=str(home), readable=(HostPath(str(tools)),))
        inside = (f"{plans.HOME}/s", f"{tools}/s")
        said = await workshop.run("/usr/bin/python3", "-c", CONNECT, *inside, view=view)
        assert (said.out, said.err) == ("", "")
        with pytest.raises(ParseError):
            await workshop.run("true", view=workshop.view(readable=(HostPath(f"{tools}/s"),)))
        bound = ["--bind", home, "/h", "--ro-bind", tools, "/t", "--unshare-all"]
        system = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib"]
        plain = subprocess.run(
            ["bwrap", *system, "--symlink", "usr/lib64", "/lib64", *bound,
             "/usr/bin/python3", "-c", CONNECT, "/h/s", "/t/s"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert plain.stdout == "connected /h/s\nconnected /t/s\n", plain


@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize(
    ("network", "inet", "lo"), [("none", False, False), ("loopback", True, True)]
)
async def test_the_network_is_none_or_a_loopback_of_its_own(workshop, network, inet, lo):
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"""
import socket
def can(call):
    try: call(); return True
    except OSError: return False
def own():
    with socket.create_server(("127.0.0.1", 0)) as s: socket.create_connection(s.getsockname())
print(can(lambda: socket.socket(socket.AF_INET)), can(own),
      can(lambda: socket.create_connection(("127.0.0.1", {server.getsockname()[1]}))),
      can(lambda: socket.socketpair()), can(lambda: socket.socket(socket.AF_PACKET)),
      can(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)))
"""
        said = await workshop.run("/usr/bin/python3", "-c", program, network=network)
    assert said.out == f"{inet} {lo} False True False False\n", said.err


@pytest.mark.spec("EXEC-4")
async def test_the_network_of_the_host_where_it_was_given(workshop):
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = (
            "import socket\n"
            f"socket.create_connection(('127.0.0.1', {server.getsockname()[1]})).send(b'here')"
        )
        said = await workshop.run("/usr/bin/python3", "-c", program, network="host")
        assert said.err == ""
        connection, _ = server.accept()
        with connection:
            assert connection.recv(9) == b"here"


async def test_what_makes_no_sense_is_refused(workshop):
    tree = workshop.tree()
    plain = View(trees=(tree,))
    refused = [
        (Invocation(argv=()), plain),
        (Invocation(argv=("a\0b",)), plain),
        (Invocation(argv=("a",), env={"A=B": ""}), plain),
        (Invocation(argv=("a",), env={"": "x"}), plain),
        (Invocation(argv=("a",), cwd="../x"), plain),
        (Invocation(argv=("a",), cwd="/etc"), plain),
        (Invocation(argv=("a",), cwd="../x"), View(trees=())),
        (Invocation(argv=("a",)), View(trees=(tree, tree))),
        (Invocation(argv=("a",)), View(trees=(Tree(place="/", lower="/nowhere"),))),
        (Invocation(argv=("a",)), View(trees=(Tree(place="/usr/x", lower="/nowhere"),))),
        (Invocation(argv=("a",)), View(trees=(Tree(place="/a/../b", lower="/nowhere"),))),
        (Invocation(argv=("a",)), View(trees=(Tree(place="/w", lower="/nowhere", upper="/x"),))),
        (Invocation(argv=("a",)), View(trees=(Tree(place="/tmp", lower="/nowhere"),))),
        (Invocation(argv=("a",)), View(trees=(Tree(place="/home", lower="/nowhere"),))),
        (Invocation(argv=("a",)), workshop.view(readable=(HostPath("/"),))),
        (Invocation(argv=("a",)), workshop.view(readable=(HostPath("/home"),))),
        (Invocation(argv=("a",)), workshop.view(readable=(HostPath("/proc/1/root"),))),
        (Invocation(argv=("a",)), workshop.view(readable=(HostPath("/dev"),))),
        (Invocation(argv=("a",)), workshop.view(readable=(HostPath("etc"),))),
        (Invocation(argv=("a",)), workshop.view(masked=("../x",))),
        (Invocation(argv=("a",)), workshop.view(masked=("/x",))),
        (Invocation(argv=("x" * 200_000,)), plain),
    ]
    for command, view in refused:
        with pytest.raises(ParseError):
            await workshop.sandbox.start(command, view)
    missing = [
        (Invocation(argv=("a",)), View(trees=(Tree(place="/w", lower="/no/where"),))),
        (Invocation(argv=("a",), cwd="no/where"), plain),
        (Invocation(argv=("a",)), workshop.view(home="/no/where")),
        (Invocation(argv=("a",)), workshop.view(readable=(HostPath("/no/where"),))),
    ]
    for command, view in missing:
        with pytest.raises(PathNotFound):
            await workshop.sandbox.start(command, view)


@pytest.mark.spec("EXEC-5")
async def test_limits_are_those_of_the_command(workshop):
    limits = CommandLimits(
        seconds_max=60,
        cpu_seconds_max=17,
        memory_bytes_max=300 * 2**20,
        address_space_bytes_max=2**30,
        processes_max=40,
        file_bytes_max=2**20,
        descriptors_max=64,
        scratch_bytes_max=2**20,
    )
    said = await workshop.shell(
        "cat /proc/self/limits; head -c 2000000 /dev/zero > large; stat -c %s large;"
        " head -c 2000000 /dev/zero > /tmp/large",
        limits=limits,
    )
    rows = {line[:26].strip(): line[26:].split()[:2] for line in said.out.split("\n")[1:]}
    assert rows["Max cpu time"] == ["17", "22"]
    assert rows["Max data size"] == [str(300 * 2**20)] * 2
    assert rows["Max address space"] == [str(2**30)] * 2
    assert rows["Max file size"] == [str(2**20)] * 2
    assert rows["Max open files"] == ["64", "64"]
    assert rows["Max core file size"] == ["0", "0"]
    assert "\n1048576\n" in said.out
    assert "No space left" in said.err


@pytest.mark.spec("EXEC-3", "EXEC-5")
async def test_a_limit_of_files_is_for_those_of_the_command_however_small_it_is(workshop):
    limits = CommandLimits(seconds_max=60, file_bytes_max=1)
    said = await workshop.shell("printf 1 > a; cat a; exec printf 12 > b", limits=limits)
    assert (said.out, said.ending.signal) == ("1", signal.SIGXFSZ)
    assert [os.stat(workshop.upper / name).st_size for name in "ab"] == [1, 1]


@pytest.mark.spec("EXEC-5")
async def test_settings_of_the_machine_are_as_they_were(workshop):
    """Numbers of processes are limited for root by a setting that once was the whole machine's."""
    paths = ("/proc/sys/kernel/pid_max", "/proc/sys/kernel/hostname")
    before = [Path(path).read_text() for path in paths]
    said = await workshop.shell(f"cat {' '.join(paths)}")
    assert [Path(path).read_text() for path in paths] == before
    assert said.out.endswith("sandbox\n")


@pytest.mark.spec("EXEC-5")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a file that runs as another user")
async def test_a_file_that_would_run_as_another_user_does_not(workshop):
    shutil.copy("/usr/bin/id", workshop.lower / "as-nobody")
    os.chown(workshop.lower / "as-nobody", 65534, 65534)
    os.chmod(workshop.lower / "as-nobody", 0o4755)
    assert (await workshop.run("./as-nobody", "-u")).out == "0\n"
    if os.statvfs(workshop.lower).f_flag & os.ST_NOSUID:
        return  # nor would it without a sandbox, here
    plain = subprocess.run([workshop.lower / "as-nobody", "-u"], capture_output=True, text=True)
    assert plain.stdout == "65534\n"


@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize("in_a_room", [False, True])
async def test_no_descriptor_comes_in_however_many_there_are(workshop, in_a_room):
    """A server has thousands open, and what is opened for a command comes after them: above what
    the command may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3_000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"no more than {hard} descriptors can be had: raise the limit (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    held = [os.open(workshop.lower, os.O_RDONLY) for _ in range(1_200)]
    try:
        command = Invocation(argv=("ls", "/proc/self/fd"), limits=CommandLimits(descriptors_max=64))
        if in_a_room:
            room = await workshop.sandbox.open(workshop.view())
            process = await room.start(command)
        else:
            room, process = None, await workshop.sandbox.start(command, workshop.view())
        await process.wait()
        said = b"".join([piece.data async for piece in process.pieces()])
        await process.close()
        if room is not None:
            await room.close()
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert said == b"0\n1\n2\n3\n"  # the last is the listing itself


@pytest.mark.spec("EXEC-4")
async def test_what_the_kernel_tells_root_of_the_machine_it_does_not_tell_a_command(workshop):
    plain = Path("/proc/timer_list")
    if not plain.exists():
        pytest.skip("this kernel has no /proc/timer_list")
    said = await workshop.shell("cat /proc/timer_list /proc/keys /proc/vmallocinfo /proc/kcore")
    assert said.out == ""
    if os.getuid() == 0:
        assert "Timer List" in plain.read_text()


@pytest.mark.spec("EXEC-4")
async def test_a_command_without_a_tree_starts_at_home_and_finds_none(workshop):
    workshop.plant({"secret": "x"})
    said = await workshop.shell("pwd; ls -A; ls -A /work", view=View(trees=()))
    assert (said.out, said.err) == (
        "/home/sandbox\n",
        "ls: cannot access '/work': No such file or directory\n",
    )
    said = await workshop.shell("pwd", view=View(trees=()), cwd=".")
    assert said.code == 0


# --- a view that is still to be made ----------------------------------------------------------


@pytest.mark.spec("EXEC-5")
async def test_its_interpreter_starts_while_the_view_is_made(workshop):
    async def view():
        await until(lambda: launchers_at_work() == 1)
        return workshop.view()

    process = await workshop.sandbox.start(Invocation(argv=("true",)), view)
    assert (await process.wait()).exit_code == 0
    await process.close()
    assert launchers_at_work() == 0


@pytest.mark.spec("EXEC-5")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_nothing_is_left_where_the_view_cannot_be_made(workshop, cancelled):
    starts = asyncio.Event()

    async def view():
        await until(lambda: launchers_at_work() == 1)
        starts.set()
        if cancelled:
            await for_ever()
        raise PathNotFound("there is nothing to be seen")

    command = Invocation(argv=("true",))
    starting = asyncio.ensure_future(workshop.sandbox.start(command, view))
    await starts.wait()
    if cancelled:
        starting.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else PathNotFound):
        await starting
    assert launchers_at_work() == 0
