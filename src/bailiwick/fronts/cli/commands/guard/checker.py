"""Finding direct use of the filesystem in one module, from its text alone: nothing is executed."""

from __future__ import annotations

import ast
import warnings
from typing import NamedTuple

from bailiwick.fronts.cli.commands.guard import calls
from bailiwick.fronts.cli.commands.guard.qualified_names import Meaning, Names
from bailiwick.fronts.cli.commands.guard.spaces import Collector, Comprehensions, Functions, Space


class Finding(NamedTuple):
    """One use. Lines and columns count from 1, columns in characters; the end is past the last."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    category: str
    name: str
    """What is used, such as ``os.remove``."""
    function: str
    """The qualified name of the function it stands in; empty at the top of a module."""
    message: str


class Unparsable(Exception):
    """The text is no Python that this interpreter can read."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.line = line


def uses_in(content: bytes, path: str) -> list[Finding]:
    """Every direct use of the filesystem in a module. Raises `Unparsable`."""
    try:
        with warnings.catch_warnings():
            # A dubious escape in someone's string is not our business.
            warnings.simplefilter("ignore")
            tree = ast.parse(content)
        checker = _Checker(path, content, tree)
        checker.visit(tree)
        checker.check_handed_on(tree)
    except SyntaxError as error:
        raise Unparsable(str(error.msg), error.lineno or 1) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unparsable(str(error) or "it is nested too deeply") from None
    return sorted(checker.findings, key=lambda finding: (finding.line, finding.column))


class _Checker(ast.NodeVisitor):
    """The second pass: looks at every expression that stands for something in the table."""

    def __init__(self, path: str, content: bytes, tree: ast.Module) -> None:
        self.findings: list[Finding] = []
        self._path = path
        self._lines = content.removeprefix(b"\xef\xbb\xbf").splitlines()
        self._spaces = Collector.collect(tree)
        self._space = self._spaces[tree]
        self._meaning = Meaning()
        self._stack: list[str] = []
        self._used: set[str] = set()

    # --- what may be a use -------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        self._used.add(node.id)
        if isinstance(node.ctx, ast.Load):
            self._report_any(node, self._meaning.of(node, self._space))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        reported = False
        if isinstance(node.ctx, ast.Load):
            names = self._meaning.of(node, self._space)
            reported = self._report_any(node, names)
            if not reported and not names and node.attr in calls.TELLING_METHODS:
                self._report(node, calls.TELLING_METHODS[node.attr], f"….{node.attr}")
        if reported:
            self._note_names(node)
        else:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        names = self._meaning.of(node.func, self._space)
        if names & {"builtins.isinstance", "builtins.issubclass"}:
            self._note_names(node)
            for checked in node.args[:1]:
                self.visit(checked)
            return
        if self._is_in_memory(node, names):
            self._note_names(node.func)
        else:
            self.visit(node.func)
        for part in (*node.args, *node.keywords):
            self.visit(part)
        # ``getattr(os, "remove")`` is a use by itself; what `Path(…)` gives is not.
        if names & {"builtins.getattr", "builtins.vars"}:
            found = self._meaning.of(node, self._space)
            if not self._report_any(node, found) and not found:
                self._report_dynamic(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        names = self._meaning.of(node, self._space)
        if not self._report_any(node, names):
            self.visit(node.value)
        self.visit(node.slice)

    def _is_in_memory(self, node: ast.Call, names: Names) -> bool:
        """Whether something that can open a path was handed an object in memory instead."""
        if not names or not names <= calls.TAKES_FILE_OBJECTS:
            return False
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        file = given.get("fileobj") or given.get("file") or (node.args[0] if node.args else None)
        return self._meaning.of(file, self._space) == {"io.BytesIO()"}

    def _report_dynamic(self, node: ast.Call) -> None:
        """``getattr(os, name)``: which function that is cannot be seen."""
        if len(node.args) < 2 or isinstance(node.args[1], ast.Constant):
            return
        for owner in self._meaning.of(node.args[0], self._space):
            if owner in calls.OWNERS:
                self._report(node, "dynamic", f"getattr({owner}, …)")

    def check_handed_on(self, tree: ast.Module) -> None:
        """What a module imports and does not use itself, it hands on to others."""
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or node.level:
                continue
            for alias in node.names:
                name = calls.canonical(f"{node.module}.{alias.name}")
                category = calls.CATEGORY_OF.get(name)
                if category is not None and (alias.asname or alias.name) not in self._used:
                    self._report(alias, category, name)

    # --- reports -----------------------------------------------------------------------------

    def _report_any(self, node: ast.expr, names: Names) -> bool:
        for name in sorted(names):
            category = calls.category_of(name)
            if category is not None:
                self._report(node, category, name)
                return True
        return False

    def _report(self, node: ast.expr | ast.alias, category: str, name: str) -> None:
        kind = calls.CATEGORIES[category]
        name = name.removeprefix("builtins.")
        end_line = node.end_lineno or node.lineno
        self.findings.append(
            Finding(
                path=self._path,
                line=node.lineno,
                column=self._column(node.lineno, node.col_offset),
                end_line=end_line,
                end_column=self._column(end_line, node.end_col_offset or node.col_offset),
                category=category,
                name=name,
                function=".".join(self._stack),
                message=f"{name} {kind.what}; through a scope: {kind.instead}",
            )
        )

    def _column(self, line: int, offset: int) -> int:
        """The parser counts UTF-8 bytes from 0; people and SARIF count characters from 1."""
        text = self._lines[line - 1] if line <= len(self._lines) else b""
        return len(text[:offset].decode("utf-8", "replace")) + 1

    def _note_names(self, node: ast.AST) -> None:
        self._used |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}

    # --- spaces ------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: Functions) -> None:
        # Annotations are left out: they name things, they do not use them.
        outside = [*node.decorator_list, *node.args.defaults]
        outside += [default for default in node.args.kw_defaults if default is not None]
        for part in outside:
            self.visit(part)
        self._note_annotations(node)
        self._visit_inside(node, node.name, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 (the parser names nodes so)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        self._visit_inside(node, None, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._visit_inside(node, node.name, node.body)

    def visit_ListComp(self, node: Comprehensions) -> None:
        outer, self._space = self._space, self._spaces[node]
        self.generic_visit(node)
        self._space = outer

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # noqa: N815 (the parser names nodes so)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._note_names(node.annotation)
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def _note_annotations(self, node: Functions) -> None:
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation is not None:
                self._note_names(argument.annotation)
        if node.returns is not None:
            self._note_names(node.returns)

    def _visit_inside(
        self, node: ast.AST, name: str | None, body: list[ast.stmt] | list[ast.expr]
    ) -> None:
        outer: Space = self._space
        self._space = self._spaces[node]
        if name is not None:
            self._stack.append(name)
        for part in body:
            self.visit(part)
        if name is not None:
            self._stack.pop()
        self._space = outer
