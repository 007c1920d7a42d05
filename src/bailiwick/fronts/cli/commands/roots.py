"""`bailiwick root`: the trees that an authority knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bailiwick.errors import Unsupported
from bailiwick.fronts.cli import EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, takes_authority, takes_json
from bailiwick.fronts.cli.authority_session import Options, at_terminal, guarded, with_authority
from bailiwick.fronts.cli.output import line, print_fields, print_json, print_table
from bailiwick.fronts.cli.place import local_place
from bailiwick.grant import Root

if TYPE_CHECKING:
    from bailiwick.authority import CoreAuthority


def run(arguments: list[str]) -> int:
    parser = Parser("bailiwick root", "The trees that an authority knows, and trust in them.")
    actions = parser.actions()
    listing = actions.add("list", "List the roots.", "bailiwick root list")
    takes_authority(listing)
    for name, what in (
        ("show", "Show one root."),
        ("trust", "Trust a root: it may be changed from now on."),
        ("untrust", "Trust a root no longer: it can only be read from now on."),
    ):
        each = actions.add(name, what, f"bailiwick root {name} workspace:demo")
        each.add_argument("root", metavar="ROOT", help="its kind and id, such as workspace:demo")
        takes_authority(each)
    moving = actions.add(
        "moved",
        "Say that this directory is the one that stood elsewhere: its past goes on here. A move"
        " within a filesystem is noticed without.",
        "bailiwick root moved /old/disk/project",
    )
    moving.add_argument("path", metavar="PATH", help="where it stood")
    moving.add_argument(
        "-p", "--place", metavar="PLACE", help="this directory (default: the one you are in)"
    )
    takes_json(moving)
    options = parser.parse_args(arguments)
    if options.action == "moved":
        return guarded(lambda: _take_over(options), as_json=options.json)
    looking = options.action in ("list", "show")
    return with_authority(options, _ACTIONS[options.action], looking=looking)


def _take_over(options: Options) -> int:
    from bailiwick.build.homes import Homes
    from bailiwick.build.places import read_place

    directory = read_place(local_place(options)).directory
    if directory is None:
        raise Unsupported("a volume has its past with it, wherever it is moved")
    Homes().take_over(directory, options.path)
    if options.json:
        print_json({"path": directory, "was": options.path})
    else:
        line("its past goes on here: `bailiwick history .` shows it")
    return EXIT_OK


async def _list(authority: CoreAuthority, options: Options) -> int:
    roots = authority.roots()
    if options.json:
        print_json([_document(root) for root in roots])
    else:
        print_table(
            ("ROOT", "TRUSTED", "NAME", "LABELS"),
            [
                (
                    str(root), _yes_or_no(root.trusted), root.display_name or "",
                    " ".join(f"{name}={value}" for name, value in sorted(root.labels.items())),
                )
                for root in roots
            ],
        )  # fmt: skip
    return EXIT_OK


async def _show(authority: CoreAuthority, options: Options) -> int:
    root = authority.root(options.root)
    if options.json:
        print_json(_document(root))
        return EXIT_OK
    quota = root.quota
    print_fields((
        ("root", root),
        ("name", root.display_name),
        ("trusted", _yes_or_no(root.trusted)),
        ("mount point", root.mount_point),
        ("names", root.names),
        ("owner", root.owner),
        ("bytes at most", quota and quota.bytes),
        ("files at most", quota and quota.files),
        ("operations a minute at most", quota and quota.operations_per_minute),
        *((f"label {name}", value) for name, value in sorted(root.labels.items())),
    ))  # fmt: skip
    return EXIT_OK


async def _trust(authority: CoreAuthority, options: Options) -> int:
    trusted = options.action == "trust"
    root = authority.root(options.root)
    await authority.set_trust(str(root), trusted, by=at_terminal(), front="cli")
    if options.json:
        print_json({"root": str(root), "trusted": trusted})
    else:
        line(f"{root} is {'trusted' if trusted else 'not trusted any more'}")
    return EXIT_OK


def _document(root: Root) -> dict[str, object]:
    return {"root": str(root), **{name: getattr(root, name) for name in root.__struct_fields__}}


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


_ACTIONS = {"list": _list, "show": _show, "trust": _trust, "untrust": _trust}
