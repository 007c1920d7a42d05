"""Rules as TOML that a person can read, and paste into a configuration."""

from __future__ import annotations

from collections.abc import Iterable

from bailiwick.policies.rule import Rule

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_toml(rules: Iterable[Rule]) -> str:
    """All rules, in order. The id of a rule that is not the operator's is a comment: pasted into a
    configuration, the rule is the operator's own."""
    return "\n\n".join(map(format_rule, rules)) + "\n"


def format_rule(rule: Rule) -> str:
    """One rule as a table of TOML."""
    own = rule.origin == "operator"
    lines = ["[[rule]]" if own else f"[[rule]]  # {_comment(f'{rule.id} ({rule.origin})')}"]
    if own:
        lines.append(f"id = {quote(rule.id)}")
    for key, values in (("subject", rule.subject), ("root", rule.root)):
        lines.extend(_list(key, values))
    if rule.labels:
        pairs = ", ".join(f"{quote(key)} = {quote(value)}" for key, value in rule.labels.items())
        lines.append(f"labels = {{{pairs}}}")
    for key, values in (
        ("operation", rule.operation),
        ("access", rule.access),
        ("path", rule.path),
        ("exempt", rule.exempt),
        ("exact_path", rule.exact_path),
        ("command", rule.command),
    ):
        lines.extend(_list(key, values))
    if rule.holds != "any":
        lines.append(f"holds = {quote(rule.holds)}")
    if rule.grant is not None:
        lines.append(f"grant = {quote(rule.grant)}")
    if rule.destination is not None:
        lines.append(f"destination = {quote(rule.destination)}")
    if rule.exact_command is not None:
        lines.append(f"exact_command = {quote(rule.exact_command)}")
    lines.append(f"effect = {quote(rule.effect)}")
    if rule.effect == "ask":
        lines.append(f"default = {quote(rule.default)}")
    if rule.reason:
        lines.append(f"reason = {quote(rule.reason)}")
    return "\n".join(lines)


def _list(key: str, values: tuple[str, ...]) -> list[str]:
    if not values:
        return []
    if len(values) == 1:
        return [f"{key} = {quote(values[0])}"]
    return [f"{key} = [{', '.join(map(quote, values))}]"]


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def quote(text: str) -> str:
    """A basic string of TOML. What would not be seen is written as its number."""
    return f'"{"".join(map(_quoted_character, text))}"'


def _quoted_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
