"""Programs that know nothing of Bailiwick, at work in a mount."""

import os
import shutil
import sys
import zipfile

import pytest

from tests.fronts.fuse.mounts import KINDS, needs_fuse, run, tree

pytestmark = [needs_fuse, pytest.mark.spec("FUSE-1"), pytest.mark.slow]

kinds = pytest.mark.parametrize("kind", KINDS)

WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Somebody"), ("EMAIL", "somebody@example.com"))
} | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"install {' '.join(missing)}")


@kinds
@needs("git")
def test_git(kind, tmp_path):
    script = """
        git init -q one; cd one
        for number in $(seq 20); do echo $number > file-$number; done
        git add .; git commit -qm first
        test -z "$(git status --short)"
        echo changed > file-3; git mv file-4 moved; rm file-5
        git status --short
        git commit -qam second
        git clone -q . ../two; diff -r --exclude=.git . ../two
        git gc -q; git fsck --strict 2>&1; git log --oneline | wc -l
        git stash list; git checkout -qb other; git checkout -q -
    """
    with tree(kind, tmp_path) as (scope, top):
        printed = run(top, script, **WHO)
        assert " M file-3" in printed
        assert printed.split()[-1] == "2"
        assert scope.read_bytes("two/file-3").data == b"changed\n"


@kinds
@needs("make", "cc")
def test_make_and_cc(kind, tmp_path):
    script = r"""
        printf 'said: said.c\n\tcc -o said said.c\n' > Makefile
        printf '#include <stdio.h>\nint main(void) { puts("said"); return 0; }\n' > said.c
        make -s; ./said; make -q
        touch said.c; ! make -q
    """
    with tree(kind, tmp_path) as (_, top):
        assert run(top, script) == "said\n"


@kinds
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_sqlite(kind, journal, tmp_path):
    script = f"""
import sqlite3
one, other = (sqlite3.connect("base.db", timeout=30) for _ in range(2))
assert one.execute("pragma journal_mode={journal}").fetchone() == ("{journal}",)
one.execute("create table t (n)")
for number in range(20):
    base = (one, other)[number % 2]
    with base:
        base.execute("insert into t values (?)", (number,))
one.execute("begin")
one.execute("delete from t")
one.rollback()
assert other.execute("select count(*) from t").fetchone() == (20,)
assert other.execute("pragma integrity_check").fetchone() == ("ok",)
one.close()
other.close()
again = sqlite3.connect("base.db")
assert again.execute("select sum(n) from t").fetchone() == (190,)
again.close()
"""
    with tree(kind, tmp_path) as (scope, top):
        python(top, script)
        assert scope.read_bytes("base.db", 0, 15).data == b"SQLite format 3"


def python(top, script):
    # The program of the tests, since what is on the path may be older.
    return run(top, '"$PYTHON" -c "$SCRIPT"', PYTHON=sys.executable, SCRIPT=script)


@kinds
def test_memory_that_is_mapped_from_a_file(kind, tmp_path):
    script = """
import mmap
with open("a", "wb") as file:
    file.write(b"a" * 10_000)
with open("a", "r+b") as file:
    mapped = mmap.mmap(file.fileno(), 0)
mapped[5_000:5_003] = b"XYZ"
mapped.flush()
mapped[1:3] = b"BC"
with open("a", "rb") as file:
    assert file.read(4) == b"aBCa"
mapped.close()
"""
    with tree(kind, tmp_path) as (scope, top):
        python(top, script)
        run(top, "sync -f a")
        with open(top / "a", "rb") as file:
            data = file.read()
        assert data == b"aBCa" + b"a" * 4_996 + b"XYZ" + b"a" * 4_997
        assert len(scope.read_bytes("a").data) == 10_000


@kinds
def test_a_large_file(kind, tmp_path):
    script = """
head -c 1048576 /dev/urandom > piece
for number in $(seq 64); do cat piece; done > large
test $(stat -c %s large) = 67108864
for number in $(seq 64); do cat piece; done | cmp - large
cp large copy; cmp large copy; rm copy
printf changed | dd of=large bs=1 seek=40000000 conv=notrunc status=none
"""
    with tree(kind, tmp_path) as (scope, top):
        run(top, script)
        assert scope.stat("large").size == 64 * 1024 * 1024
        assert scope.read_bytes("large", 40_000_000, 7).data == b"changed"


@kinds
@needs("tar")
def test_trees_are_copied_as_they_are(kind, tmp_path):
    script = """
mkdir -p one/deep/er; echo content > one/deep/er/file; ln -s deep/er/file one/link
printf '#!/bin/sh\\necho ran\\n' > one/program; chmod 755 one/program
touch -d 2001-02-03T04:05:06Z one/deep/er/file
cp -a one two; diff -r one two
tar cf packed.tar one; mkdir three; tar xpf packed.tar -C three; diff -r one three/one
test "$(three/one/program)" = ran
test "$(readlink two/link)" = deep/er/file
test "$(stat -c %Y two/deep/er/file)" = "$(stat -c %Y three/one/deep/er/file)"
mv two four; rm -r one three four packed.tar; test -z "$(ls -A)"
"""
    with tree(kind, tmp_path) as (_, top):
        run(top, script)


@kinds
@needs("npm", "node")
def test_npm(kind, tmp_path):
    """A project with one dependency beside it, so that nothing is fetched."""
    script = r"""
mkdir dep app; cd dep
echo '{"name": "dep", "version": "1.0.0", "main": "said.js", "bin": {"say": "said.js"}}' \
  > package.json
printf '#!/usr/bin/env node\nmodule.exports = "said"; console.log(module.exports);\n' > said.js
npm pack --silent > /dev/null; cd ../app
echo '{"name": "app", "version": "1.0.0", "dependencies": {"dep": "file:../dep/dep-1.0.0.tgz"}}' \
  > package.json
npm install --package-lock-only
npm ci; node -e 'require("dep")'; npx --no say
rm -r node_modules; npm ci; node_modules/.bin/say
"""
    calm = {"offline": "true", "audit": "false", "fund": "false", "update_notifier": "false"}
    settings = {f"npm_config_{name}": value for name, value in calm.items()}
    with tree(kind, tmp_path) as (scope, top):
        printed = run(
            top, script, **settings, npm_config_cache=str(tmp_path / "npm"), HOME=str(tmp_path)
        )
        assert printed.splitlines().count("said") == 3
        assert scope.stat("app/node_modules/dep/said.js").mode & 0o100
        assert scope.readlink("app/node_modules/.bin/say") == "../dep/said.js"


@kinds
def test_pip(kind, tmp_path):
    """A wheel of our own into an environment: one of copies, since a link out of the tree is none
    that a scope makes."""
    wheel(tmp_path / "said-1.0-py3-none-any.whl")
    script = """
"$PYTHON" -m venv --copies --without-pip env
pip() { "$PIP" -m pip --python env/bin/python --quiet --disable-pip-version-check "$@"; }
pip install --no-index "$WHEEL"
env/bin/said; env/bin/python -c 'import said; print(said.__file__)'
pip uninstall --yes said; ! env/bin/python -c 'import said' 2>/dev/null
"""
    base = getattr(sys, "_base_executable", sys.executable)
    with tree(kind, tmp_path) as (scope, top):
        path = tmp_path / "said-1.0-py3-none-any.whl"
        given = {"PYTHON": base, "PIP": sys.executable, "WHEEL": str(path)}
        said, file = run(top, script, **given, HOME=str(tmp_path)).splitlines()
        assert said == "said"
        assert file.startswith(f"{top}/env/")
        assert scope.exists("env/pyvenv.cfg")
        assert not scope.exists("env/bin/said")


def wheel(path):
    about = "said-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("said.py", "def main():\n    print('said')\n")
        packed.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: said\nVersion: 1.0\n")
        kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        packed.writestr(f"{about}/WHEEL", kind)
        packed.writestr(f"{about}/entry_points.txt", "[console_scripts]\nsaid = said:main\n")
        packed.writestr(f"{about}/RECORD", "")
