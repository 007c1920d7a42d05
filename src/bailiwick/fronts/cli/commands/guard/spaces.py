"""What a name may stand for in a piece of Python, as far as its text tells.

A first pass collects what every name is bound to in every lexical space (module, class, function,
lambda, comprehension). Then an expression can be asked which full names it may stand for:
``o = os.open`` makes ``o`` stand for ``os.open``. Order and branches are not looked at: a name
stands for everything it is ever bound to in its space, so that a binding is never overlooked.

A full name that ends in ``()`` is an object of that class, one that begins with ``[]`` is a
collection of such objects, one that begins with ``->`` is a function that gives one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bailiwick.fronts.cli.commands.guard.calls import CATEGORY_OF

Functions = ast.FunctionDef | ast.AsyncFunctionDef
Comprehensions = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class NameSource(NamedTuple):
    """Where a binding gets its value from: a full name, or an expression and how it is used."""

    name: str | None = None
    expression: ast.expr | None = None
    space: Space | None = None
    """Where the expression stands."""
    way: str = "value"
    """``value``; ``element`` of a collection; ``annotation`` of a variable; ``returns`` of a
    function."""


class Space:
    """The names of one lexical space."""

    def __init__(self, parent: Space | None, *, is_class: bool = False) -> None:
        self.parent = parent
        self.is_class = is_class
        self.bound: dict[str, list[NameSource]] = {}
        self.elsewhere: dict[str, Space] = {}
        """Names declared ``global`` or ``nonlocal``, and the space they belong to."""
        self.attributes: dict[str, list[NameSource]] = {}
        """Of a class: what its methods assign to attributes of their first argument."""
        self.owner: Space | None = None
        """Of a method: the space of its class."""
        self.own_object: str | None = None
        """Of a method: what it calls its first argument."""

    def bind(self, name: str, source: NameSource) -> None:
        self.elsewhere.get(name, self).bound.setdefault(name, []).append(source)

    def find(self, name: str) -> Space | None:
        """The space in which a name is bound, seen from here."""
        space: Space | None = self
        while space is not None:
            if name in space.elsewhere:
                return space.elsewhere[name]
            if name in space.bound and (space is self or not space.is_class):
                return space
            space = space.parent
        return None

    @property
    def module(self) -> Space:
        space = self
        while space.parent is not None:
            space = space.parent
        return space


_UNKNOWN = NameSource()


class Collector(ast.NodeVisitor):
    """The first pass: every binding of a module."""

    def __init__(self) -> None:
        self.space = Space(None)
        self.spaces: dict[ast.AST, Space] = {}

    @classmethod
    def collect(cls, tree: ast.Module) -> dict[ast.AST, Space]:
        """The space of each node that has one of its own."""
        collector = cls()
        collector.spaces[tree] = collector.space
        collector.visit(tree)
        return collector.spaces

    def _source(self, expression: ast.expr | None, way: str = "value") -> NameSource:
        return NameSource(None, expression, self.space, way)

    # --- imports -----------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.space.bind(alias.asname or top, NameSource(alias.name if alias.asname else top))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            if node.level:
                self.space.bind(alias.asname or alias.name, _UNKNOWN)
            elif alias.name == "*":
                self._import_everything(module)
            else:
                self.space.bind(alias.asname or alias.name, NameSource(f"{module}.{alias.name}"))

    def _import_everything(self, module: str) -> None:
        for name in CATEGORY_OF:
            owner, _, last = name.rpartition(".")
            if owner == module:
                self.space.bind(last, NameSource(name))
        if module == "pathlib":
            self.space.bind("Path", NameSource("pathlib.Path"))
        elif module == "os":
            self.space.bind("path", NameSource("os.path"))

    # --- assignments -------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, self._source(node.value))
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._assign(node.target, self._source(node.annotation, "annotation"))
        if node.value is not None:
            self._assign(node.target, self._source(node.value))
            self.visit(node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._assign(node.target, self._source(node.value))
        self.visit(node.value)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._assign(node.target, self._source(node.iter, "element"))
        self.generic_visit(node)

    visit_AsyncFor = visit_For  # noqa: N815 (the parser names nodes so)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._assign(item.optional_vars, self._source(item.context_expr))
        self.generic_visit(node)

    visit_AsyncWith = visit_With  # noqa: N815 (the parser names nodes so)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.space.bind(node.name, _UNKNOWN)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.space.bind(node.name, _UNKNOWN)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs  # noqa: N815 (the parser names nodes so)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.space.bind(node.rest, _UNKNOWN)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self.space.elsewhere[name] = self.space.module

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            outer = self.space.parent.find(name) if self.space.parent else None
            if outer is not None:
                self.space.elsewhere[name] = outer

    def _assign(self, target: ast.expr, source: NameSource) -> None:
        match target:
            case ast.Name(id=name):
                self.space.bind(name, source)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                if name == self.space.own_object and self.space.owner is not None:
                    self.space.owner.attributes.setdefault(attribute, []).append(source)
            case ast.Starred(value=value):
                self._assign(value, source)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for target, part in zip(targets, _parts(source, len(targets)), strict=True):
                    self._assign(target, part)
            case _:
                pass

    # --- spaces ------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: Functions) -> None:
        returned = self._source(node.returns, "returns") if node.returns else _UNKNOWN
        if any(_is_property(decorator) for decorator in node.decorator_list):
            returned = self._source(node.returns, "annotation")
        self.space.bind(node.name, returned)
        for decorator in node.decorator_list:
            self.visit(decorator)
        inner = self._enter(node)
        if self.space.is_class:
            inner.owner = self.space
            first = (node.args.posonlyargs + node.args.args)[:1]
            inner.own_object = first[0].arg if first else None
        self._visit_function(node.args, node.body, inner)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 (the parser names nodes so)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        inner = self._enter(node)
        # A lambda in a method sees the object of the method.
        inner.owner, inner.own_object = self.space.owner, self.space.own_object
        self._visit_function(node.args, [node.body], inner)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            self.space.bind(node.name, self._source(base))
        self.space.bind(node.name, _UNKNOWN)
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        inner = Space(self.space, is_class=True)
        self.spaces[node] = inner
        self._visit_in(inner, node.body)

    def visit_ListComp(self, node: Comprehensions) -> None:
        inner = self._enter(node)
        inner.owner, inner.own_object = self.space.owner, self.space.own_object
        outer, self.space = self.space, inner
        for generator in node.generators:
            self._assign(generator.target, self._source(generator.iter, "element"))
        self.generic_visit(node)
        self.space = outer

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # noqa: N815 (the parser names nodes so)

    def _enter(self, node: ast.AST) -> Space:
        self.spaces[node] = inner = Space(self.space)
        return inner

    def _visit_function(
        self, arguments: ast.arguments, body: Iterable[ast.AST], inner: Space
    ) -> None:
        for argument, default in _arguments(arguments):
            inner.bind(argument.arg, self._source(argument.annotation, "annotation"))
            if default is not None:
                self.visit(default)
                inner.bind(argument.arg, self._source(default))
        self._visit_in(inner, body)

    def _visit_in(self, inner: Space, body: Iterable[ast.AST]) -> None:
        outer, self.space = self.space, inner
        for statement in body:
            self.visit(statement)
        self.space = outer


def _parts(source: NameSource, count: int) -> list[NameSource]:
    """What each target of ``a, b = …`` gets."""
    value = source.expression
    if source.way == "value" and isinstance(value, (ast.Tuple, ast.List)):
        starred = any(isinstance(part, ast.Starred) for part in value.elts)
        if len(value.elts) == count and not starred:
            return [source._replace(expression=part) for part in value.elts]
    if source.way == "value":
        return [source._replace(way="element")] * count
    return [_UNKNOWN] * count


def _is_property(decorator: ast.expr) -> bool:
    last = decorator.attr if isinstance(decorator, ast.Attribute) else decorator
    name = last if isinstance(last, str) else getattr(last, "id", "")
    return name in ("property", "cached_property")


def _arguments(node: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Every parameter, with its default."""
    positional = [*node.posonlyargs, *node.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(node.defaults))
    yield from zip(positional, [*missing, *node.defaults], strict=True)
    yield from zip(node.kwonlyargs, node.kw_defaults, strict=True)
    for rest in (node.vararg, node.kwarg):
        if rest is not None:
            yield ast.arg(rest.arg, None), None
