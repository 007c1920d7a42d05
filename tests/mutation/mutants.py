"""Programs that differ from a module in one place, each of them wrong in all likelihood.

A mutant is known by its number: the same source gives the same mutants in the same order.
"""

import ast
import copy
from typing import NamedTuple

COMPARISONS = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
CALCULATIONS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr}


NEVER_RUN = ("annotation", "returns", "decorator_list", "type_params")


class Mutant(NamedTuple):
    """One change: where, and what became of what."""

    number: int
    line: int
    was: str
    now: str


def _changes(node):
    """What could be put in the place of a node, one change each."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            changed = copy.deepcopy(node)
            changed.ops = [COMPARISONS[type(operator)]()]
            yield changed
        case ast.BinOp(op=operator) if type(operator) in CALCULATIONS:
            changed = copy.deepcopy(node)
            changed.op = CALCULATIONS[type(operator)]()
            yield changed
        case ast.BoolOp(op=operator):
            changed = copy.deepcopy(node)
            changed.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield changed
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Raise() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.Return(value=ast.expr() as value) if not _is_no(value):
            yield ast.Return(ast.Constant(None))


def _is_no(value):
    """None already, or False: who asks whether something is so takes None for the same."""
    return isinstance(value, ast.Constant) and value.value in (None, False)


def _places(tree):
    """Where a node stands that runs: neither in an annotation nor in a docstring nor at the top,
    where constants and definitions are."""
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    inner = {id(each) for node in functions for each in ast.walk(node) if each is not node}
    for function in functions:
        if id(function) not in inner:
            yield from _within(function, fields=("body",))


def _within(node, fields=None):
    for field, value in ast.iter_fields(node):
        if field in NEVER_RUN or (fields and field not in fields):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST):
                yield node, field, index if isinstance(value, list) else None, child
                yield from _within(child)


def _every(tree):
    """Each change with what does it and what undoes it."""
    number = 0
    for parent, field, index, child in list(_places(tree)):
        for changed in _changes(child):
            yield number, parent, field, index, child, ast.copy_location(changed, child)
            number += 1


def mutants(source):
    """All mutants of a source."""
    return [
        Mutant(number, child.lineno, ast.unparse(child), ast.unparse(changed))
        for number, _, _, _, child, changed in _every(ast.parse(source))
    ]


def mutated(source, wanted):
    """The tree of the mutant with a number."""
    tree = ast.parse(source)
    for number, parent, field, index, _, changed in _every(tree):
        if number == wanted:
            if index is None:
                setattr(parent, field, changed)
            else:
                getattr(parent, field)[index] = changed
            return ast.fix_missing_locations(tree)
    raise IndexError(wanted)
