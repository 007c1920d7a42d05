"""What a manifest asks for."""

import pytest

from bailiwick.errors import ParseError
from bailiwick.grant import ROOT_KINDS
from bailiwick.policies.manifest import PERMISSIONS, parse_permissions


@pytest.mark.spec("AUTH-6")
def test_a_permission_gives_the_access_of_the_table():
    given = parse_permissions(
        ["filesystem:workspace:read", "filesystem:extension-storage:readwrite",
         "filesystem:downloads:write", "filesystem:downloads:archive"]
    )  # fmt: skip
    assert given == {
        "workspace": {"read", "list", "metadata", "watch"},
        "extension-storage": {
            "read", "list", "metadata", "watch", "write", "delete", "move",
        },
        "downloads": {"write", "delete", "move", "metadata", "archive"},
    }  # fmt: skip


@pytest.mark.spec("AUTH-6")
def test_there_is_a_permission_for_every_kind_and_mode():
    assert len(PERMISSIONS) == len(ROOT_KINDS) * 4


@pytest.mark.spec("AUTH-6")
@pytest.mark.parametrize(
    "permission",
    ["filesystem:workspace", "filesystem:workspace:all", "filesystem:*:read", "network:x:read", "",
     "filesystem:workspace:read ", "Filesystem:workspace:read", "filesystem:workspaces:read"],
)  # fmt: skip
def test_an_unknown_permission_is_an_error(permission):
    with pytest.raises(ParseError, match="is no permission") as caught:
        parse_permissions(["filesystem:workspace:read", permission])
    assert caught.value.hint
