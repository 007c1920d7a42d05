"""`bailiwick completion`: what a shell needs to complete the commands and their options.

The words are taken from the parsers themselves when the script is printed, so that pressing Tab
starts no program: the script is only text.
"""

from __future__ import annotations

import contextlib
import io
import re

from bailiwick.fronts.cli import COMMANDS, EXIT_OK, GROUPS, command
from bailiwick.fronts.cli.arguments import Parser, ParserDescribed, describing, takes_json
from bailiwick.fronts.cli.output import line, print_json

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*").findall

_BEFORE = ("-p", "--place", "--token", "--as", "--help", "--version")


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick completion",
        "Print the completion of commands, actions and options for a shell.",
        examples=(
            "bailiwick completion bash > ~/.local/share/bash-completion/completions/bailiwick",
            "bailiwick completion zsh > ~/.zfunc/_bailiwick",
            "bailiwick completion fish > ~/.config/fish/completions/bailiwick.fish",
        ),
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    takes_json(parser)
    options = parser.parse_args(arguments)
    words = {name: words_of(name) for name in COMMANDS}
    if options.json:
        print_json({"kind": "completion", "commands": words})
    else:
        line({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](words).rstrip("\n"))
    return EXIT_OK


Words = dict[str, list[str]]
"""What can follow, by what was typed: ``""`` for a command itself, else by its action."""


def words_of(name: str) -> Words:
    """What can follow a command."""
    if name in GROUPS["serving"]:
        return {"": _options_by_help(name)}
    parser = _parser_of(name)
    words = {"": [*parser.subcommands, *_options(parser)]}
    return words | {action: _options(each) for action, each in parser.subcommands.items()}


def _parser_of(name: str) -> Parser:
    token = describing.set(True)
    try:
        command(name)([])
    except ParserDescribed as described:
        return described.parser
    finally:
        describing.reset(token)
    raise AssertionError(f"`bailiwick {name}` ran without parsing what it was given")


def _options_by_help(name: str) -> list[str]:
    """The options of another front, which parses by itself: those its help speaks of. None where it
    is not part of this installation."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit, ModuleNotFoundError):
        command(name)(["--help"])
    return sorted(set(_OPTION(said.getvalue())))


def _options(parser: Parser) -> list[str]:
    return sorted({word for action in parser._actions for word in action.option_strings})


def _following(words: dict[str, Words]) -> str:
    """A shell function that says what can follow a command and its action, for bash and zsh."""
    rows = []
    for name, by_action in words.items():
        for action, following in reversed(by_action.items()):  # a command itself comes last
            typed = f"'{name} {action}'" if action else f"'{name} '*"
            rows.append(f"        {typed}) echo '{' '.join(following)}' ;;")
    cases = "\n".join(rows)
    return f"""\
_bailiwick_following() {{
    case "$1 $2" in
{cases}
    esac
}}
"""


def _bash(words: dict[str, Words]) -> str:
    return f"""\
# bash completion for bailiwick
{_following(words)}
_bailiwick() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} command= action= skip= index word words
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${{COMP_WORDS[index]}}
        if [[ -n $skip ]]; then skip=; continue; fi
        case $word in
            -p|--place|--token|--as) skip=1 ;;
            -*) ;;
            *) if [[ -z $command ]]; then command=$word
               elif [[ -z $action ]]; then action=$word; fi ;;
        esac
    done
    if [[ -n $skip ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
        return
    elif [[ -z $command ]]; then
        words='{" ".join([*words, *_BEFORE])}'
    else
        words=$(_bailiwick_following "$command" "$action")
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ -n $command && $current != -* ]]; then
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _bailiwick bailiwick
"""


def _zsh(words: dict[str, Words]) -> str:
    described = "\n".join(
        f"        {_quoted(name + ':' + what)}" for name, (_, what) in COMMANDS.items()
    )
    return f"""\
#compdef bailiwick
{_following(words)}
_bailiwick() {{
    local -a commands following typed
    local word skip=
    commands=(
{described}
    )
    for word in ${{words[2,CURRENT-1]}}; do
        if [[ -n $skip ]]; then skip=; continue; fi
        case $word in
            -p|--place|--token|--as) skip=1 ;;
            -*) ;;
            *) typed+=($word) ;;
        esac
    done
    if (( ! ${{#typed}} )) && [[ -z $skip ]]; then
        _describe command commands
        return
    fi
    following=(${{=$(_bailiwick_following "${{typed[1]}}" "${{typed[2]}}")}})
    [[ -z $skip ]] && compadd -a following
    _files
}}
compdef _bailiwick bailiwick
"""


def _fish(words: dict[str, Words]) -> str:
    lines = ["# fish completion for bailiwick"]
    for name, (_, what) in COMMANDS.items():
        lines.append(f"complete -c bailiwick -n __fish_use_subcommand -a {name} -d {_quoted(what)}")
    for name, by_action in words.items():
        for action, following in by_action.items():
            seen = f"__fish_seen_subcommand_from {name}"
            if action:
                seen += f"; and __fish_seen_subcommand_from {action}"
            plain = [word for word in following if not word.startswith("-")]
            if plain:
                lines.append(f"complete -c bailiwick -n '{seen}' -a '{' '.join(plain)}'")
            for word in following:
                if word.startswith("--"):
                    lines.append(f"complete -c bailiwick -n '{seen}' -l {word[2:]}")
                elif word.startswith("-"):
                    lines.append(f"complete -c bailiwick -n '{seen}' -s {word[1:]}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
