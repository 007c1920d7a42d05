"""Which full names an expression may stand for; see `spaces` for how they are written."""

from __future__ import annotations

import ast
from functools import reduce

from bailiwick.fronts.cli.commands.guard.calls import CLASSES, GIVES, HOLDS, PATH, canonical
from bailiwick.fronts.cli.commands.guard.spaces import NameSource, Space

Names = frozenset[str]
_Key = tuple[Space, str]

_ROUNDS_MAX = 16
_NAMES_MAX = 64
_PARTS_MAX = 8
"""Bounds on what circles can grow to: no honest name stands for more, or is longer."""

_NONE: Names = frozenset()
_MANY, _FUNCTION = "[]", "->"

# Builtins that lead to others, and modules that do.
_BUILTINS = {
    name: f"builtins.{name}"
    for name in ("open", "__import__", "getattr", "vars", "isinstance", "issubclass", "object")
} | {"__builtins__": "builtins"}  # fmt: skip

_IMPORTERS = frozenset(("builtins.__import__", "importlib.__import__", "importlib.import_module"))
_SAME_ELEMENTS = frozenset(("sorted", "list", "tuple", "set", "frozenset", "reversed", "iter"))
_WRAPPING_ANNOTATIONS = frozenset(
    ("Optional", "Union", "Annotated", "Final", "ClassVar", "Required", "NotRequired", "ReadOnly")
)


class Meaning:
    """Answers for one module.

    Names may be bound in circles (``path = path.parent``), so what they stand for is worked out in
    rounds, each of which takes the answers of the last for what is still open, until nothing new
    comes. In a round every name is looked at once, however often it is used.
    """

    def __init__(self) -> None:
        self._known: dict[_Key, Names] = {}
        self._round: dict[_Key, Names] = {}
        self._last_round: dict[_Key, Names] = {}
        self._open: set[_Key] = set()
        self._met_open = False

    def of(self, node: ast.expr | None, space: Space) -> Names:
        """The full names an expression may stand for."""
        match node:
            case ast.Name(id=name):
                return self._of_name(name, space)
            case ast.Attribute():
                return self._of_attribute(node, space)
            case ast.Call():
                return self._of_call(node, space)
            case ast.Subscript(value=value, slice=index):
                return self._of_subscript(value, index, space)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                both = self.of(left, space) | self.of(right, space)
                return both & {PATH}
            case ast.IfExp(body=one, orelse=other):
                return self.of(one, space) | self.of(other, space)
            case ast.BoolOp(values=values):
                return self._union(values, space)
            case ast.NamedExpr(value=value) | ast.Await(value=value) | ast.Starred(value=value):
                return self.of(value, space)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return frozenset(_MANY + name for name in self._union(parts, space))
            case _:
                return _NONE

    def _union(self, nodes: list[ast.expr], space: Space) -> Names:
        return reduce(frozenset.union, (self.of(node, space) for node in nodes), _NONE)

    def _of_name(self, name: str, space: Space) -> Names:
        home = space.find(name)
        if home is None:
            return frozenset((_BUILTINS[name],)) if name in _BUILTINS else _NONE
        return self._of_sources(home, name, home.bound.get(name, []))

    def _of_sources(self, home: Space, name: str, sources: list[NameSource]) -> Names:
        key = (home, name)
        known = self._known.get(key, self._round.get(key))
        if known is not None:
            return known
        if key in self._open:
            self._met_open = True
            return self._last_round.get(key, _NONE)
        if self._open:
            return self._look_at(key, sources)
        for _ in range(_ROUNDS_MAX):
            self._round, self._met_open = {}, False
            self._look_at(key, sources)
            if not self._met_open or self._round == self._last_round:
                break
            self._last_round = self._round
        self._known |= self._round
        self._round, self._last_round = {}, {}
        return self._known[key]

    def _look_at(self, key: _Key, sources: list[NameSource]) -> Names:
        self._open.add(key)
        try:
            every = [self._of_source(source, key[0]) for source in sources]
        finally:
            self._open.discard(key)
        found = reduce(frozenset.union, every, _NONE)
        if len(found) > _NAMES_MAX:
            found = frozenset(sorted(found)[:_NAMES_MAX])
        self._round[key] = found
        return found

    def _of_source(self, source: NameSource, home: Space) -> Names:
        if source.name is not None:
            return frozenset((canonical(source.name),))
        if source.expression is None:
            return _NONE
        space = source.space or home
        if source.way == "annotation":
            return self._of_annotation(source.expression, space)
        if source.way == "returns":
            returned = self._of_annotation(source.expression, space)
            return frozenset(_FUNCTION + name for name in returned)
        found = self.of(source.expression, space)
        return _elements(found) if source.way == "element" else found

    def _of_attribute(self, node: ast.Attribute, space: Space) -> Names:
        found: set[str] = set()
        if isinstance(node.value, ast.Name) and node.value.id == space.own_object and space.owner:
            found |= self._of_own_attribute(space.owner, node.attr)
        for owner in self.of(node.value, space):
            name = canonical(f"{owner.removesuffix('()')}.{node.attr}")
            if name.count(".") >= _PARTS_MAX:
                continue
            found.add(HOLDS.get(name, name) if owner.endswith("()") else name)
        return frozenset(found)

    def _of_own_attribute(self, owner: Space, attribute: str) -> Names:
        assigned = owner.attributes.get(attribute, [])
        found = self._of_sources(owner, f".{attribute}", assigned)
        if attribute in owner.bound:
            found |= self._of_sources(owner, attribute, owner.bound[attribute])
        return found

    def _of_call(self, node: ast.Call, space: Space) -> Names:
        if isinstance(node.func, ast.Name) and node.func.id in _SAME_ELEMENTS and node.args:
            return frozenset(n for n in self.of(node.args[0], space) if n.startswith(_MANY))
        found: set[str] = set()
        for name in self.of(node.func, space):
            if name in CLASSES:
                found.add(f"{name}()")
            elif name in GIVES:
                found.add(GIVES[name])
            elif name.startswith(_FUNCTION):
                found.add(name.removeprefix(_FUNCTION))
            elif name in _IMPORTERS:
                found |= _imported(node, whole=name.endswith("import_module"))
            elif name == "builtins.getattr" and len(node.args) >= 2:
                found |= self._of_key(node.args[0], node.args[1], space)
            elif name == "builtins.vars" and node.args:
                found |= {f"{module}.__dict__" for module in self.of(node.args[0], space)}
        return frozenset(found)

    def _of_subscript(self, value: ast.expr, index: ast.expr, space: Space) -> Names:
        found: set[str] = set()
        for name in self.of(value, space):
            if name.startswith(_MANY):
                found.add(name if isinstance(index, ast.Slice) else name.removeprefix(_MANY))
            elif isinstance(index, ast.Constant) and isinstance(index.value, str):
                if name == "sys.modules":
                    found.add(canonical(index.value))
                elif name.endswith(".__dict__") or name == "builtins":
                    found.add(canonical(f"{name.removesuffix('.__dict__')}.{index.value}"))
        return frozenset(found)

    def _of_key(self, value: ast.expr, key: ast.expr, space: Space) -> Names:
        """What ``getattr(value, "key")`` stands for."""
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            return _NONE
        attribute = ast.Attribute(value, key.value, ast.Load())
        return self._of_attribute(attribute, space)

    def _of_annotation(self, node: ast.expr, space: Space) -> Names:
        """What a variable annotated so may hold."""
        match node:
            case ast.Constant(value=str() as text):
                try:
                    return self._of_annotation(ast.parse(text, mode="eval").body, space)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return _NONE
            case ast.Name() | ast.Attribute():
                return frozenset(f"{n}()" for n in self.of(node, space) if n in CLASSES)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._of_annotation(left, space) | self._of_annotation(right, space)
            case ast.Subscript(value=value, slice=index):
                last = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                inner = reduce(
                    frozenset.union, (self._of_annotation(part, space) for part in parts), _NONE
                )
                if last in _WRAPPING_ANNOTATIONS:
                    return inner
                return frozenset(_MANY + name for name in inner)
            case _:
                return _NONE


def _elements(names: Names) -> Names:
    return frozenset(n.removeprefix(_MANY) for n in names if n.startswith(_MANY))


def _imported(node: ast.Call, *, whole: bool) -> Names:
    """The module that ``__import__("os.path")`` gives: the top one; `import_module`: the last."""
    first = node.args[0] if node.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        name = first.value
        return frozenset((canonical(name if whole else name.partition(".")[0]),))
    return _NONE
