"""The fault that the fallback tests inject is really there."""

import errno
import subprocess
import sys

import pytest

from tests import seccomp
from tests.laws.repository import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is part of Linux")


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_openat2_is_denied_in_the_child_and_there_here(code):
    script = (
        "from tests import seccomp\n"
        f"seccomp.deny(seccomp.OPENAT2, {code})\n"
        "print(seccomp.openat2_of_here())\n"
    )
    command = [sys.executable, "-c", script]
    child = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert child.stdout.strip() == errno.errorcode[code]
    assert seccomp.openat2_of_here() == "ok"
