"""Parses Terraform's language and evaluates its expressions, as far as infra/terraform uses them.

The grammar is python-hcl2's. The caller looks up references to resources, variables and modules.
"""

import ast
import base64
import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hcl2.parser import parser
from lark import Token, Tree

# Looks up a name: a variable of a `for`, or the first part of a reference, such as `var`.
Lookup = Callable[[str], Any]


class Refused(Exception):
    """An expression has an error, as Terraform would report it."""


@dataclass(frozen=True)
class Block:
    """A block, such as `resource "aws_sqs_queue" "retry"`."""

    kind: str
    labels: tuple[str, ...]
    attributes: dict[str, Tree] = field(default_factory=dict)
    blocks: list["Block"] = field(default_factory=list)

    def inner(self, kind: str) -> Iterator["Block"]:
        """The nested blocks of one kind."""
        return (each for each in self.blocks if each.kind == kind)


@functools.cache
def read(path: Path) -> Block:
    """Parses a file. Returns its blocks in one block without labels."""
    return _block(path.name, (), parser().parse(path.read_text() + "\n").children[0])


def _block(kind: str, labels: tuple[str, ...], body: Tree) -> Block:
    made = Block(kind, labels)
    for each in _parts(body):
        match each.data:
            case "attribute":
                name, _, expression = _parts(each)
                made.attributes[text(name)] = expression
            case "block":
                *head, inner = (part for part in _parts(each) if isinstance(part, Tree))
                first, *rest = map(text, head)
                made.blocks.append(_block(first, tuple(rest), inner))
    return made


def _parts(tree: Tree) -> list[Any]:
    """The children other than punctuation."""
    return [each for each in tree.children if not (isinstance(each, Tree) and each.data == "new_line_or_comment")]


def _trees(tree: Tree) -> list[Tree]:
    return [each for each in _parts(tree) if isinstance(each, Tree)]


def text(tree: Tree) -> str:
    """A name or the text of a string without interpolations."""
    return "".join(str(token) for token in tree.scan_values(lambda each: isinstance(each, Token))).strip('"')


def evaluate(tree: Tree, lookup: Lookup) -> Any:
    """The value of an expression.

    Raises:
        Refused: if Terraform would report an error.
    """
    match tree.data:
        case "expr_term" | "interpolation":
            (inner,) = _trees(tree)
            return evaluate(inner, lookup)
        case "int_lit":
            return int(text(tree))
        case "float_lit":
            return float(text(tree))
        case "literal_value":
            return {"true": True, "false": False, "null": None}[text(tree)]
        case "identifier":
            return lookup(text(tree))
        case "string":
            return _string(tree, lookup)
        case "heredoc_template_trim":
            lines = str(tree.children[0]).rstrip("\n").split("\n")[1:-1]
            return "\n".join(line.strip() for line in lines) + "\n"
        case "tuple":
            return [evaluate(each, lookup) for each in _trees(tree)]
        case "object":
            return dict(_element(each, lookup) for each in _trees(tree))
        case "conditional":
            condition, then, otherwise = _trees(tree)
            return evaluate(then if _truth(evaluate(condition, lookup)) else otherwise, lookup)
        case "binary_op":
            left, term = _trees(tree)
            operator, right = _trees(term)
            return _binary(text(operator), evaluate(left, lookup), lambda: evaluate(right, lookup))
        case "unary_op":
            operator, operand = _parts(tree)
            value = evaluate(operand, lookup)
            return not _truth(value) if operator == "!" else -value
        case "function_call":
            return _call(tree, lookup)
        case "get_attr_expr_term" | "index_expr_term":
            of, part = _trees(tree)
            return _pick(evaluate(of, lookup), part, lookup)
        case "full_splat_expr_term":
            return _splat(tree, lookup)
        case "for_tuple_expr":
            intro, value, *condition = _trees(tree)
            scopes = _iterations(intro, condition, lookup)
            return [evaluate(value, scope) for scope in scopes]
        case "for_object_expr":
            intro, key, value, *condition = _trees(tree)
            made: dict[Any, Any] = {}
            for scope in _iterations(intro, condition, lookup):
                name = evaluate(key, scope)
                if name in made:
                    raise Refused(f"two elements have the key {name}")
                made[name] = evaluate(value, scope)
            return made
    raise NotImplementedError(tree.data)


def _string(tree: Tree, lookup: Lookup) -> Any:
    pieces = []
    for part in _trees(tree):
        (inner,) = part.children
        if isinstance(inner, Tree):
            value = evaluate(inner, lookup)
            pieces.append(value if len(_trees(tree)) == 1 else written(value))
        elif inner.type == "ESCAPED_INTERPOLATION":
            pieces.append(inner[1:])
        else:
            pieces.append(ast.literal_eval(f'"{inner}"'))
    # A string that consists of a single interpolation keeps the value's type.
    return pieces[0] if len(pieces) == 1 else "".join(pieces)


def written(value: Any) -> str:
    """A value as it appears in a string."""
    match value:
        case None | dict() | list():
            raise Refused(f"{value} can't be in a string")
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _element(tree: Tree, lookup: Lookup) -> tuple[Any, Any]:
    key, value = _trees(tree)
    (inner,) = _trees(key)
    # A bare word is a key by itself.
    is_word = inner.data == "keyword" or (inner.data == "expr_term" and inner.children[0].data == "identifier")
    return (text(inner) if is_word else evaluate(inner, lookup)), evaluate(value, lookup)


def _pick(value: Any, part: Tree, lookup: Lookup) -> Any:
    match part.data:
        case "get_attr":
            key: Any = text(part).removeprefix(".")
        case "short_index":
            key = int(text(part).removeprefix("."))
        case _:
            (inner,) = _trees(part)
            key = evaluate(inner, lookup)
    try:
        return value[key]
    except (KeyError, IndexError, TypeError) as error:
        raise Refused(f"{value!r} has no {key}") from error


def _splat(tree: Tree, lookup: Lookup) -> list[Any]:
    of, splat = _trees(tree)
    value = evaluate(of, lookup)
    elements = value if isinstance(value, list) else [] if value is None else [value]
    for part in _trees(splat):
        elements = [_pick(each, part, lookup) for each in elements]
    return elements


def _iterations(intro: Tree, condition: list[Tree], lookup: Lookup) -> Iterator[Lookup]:
    *names, collection = _trees(intro)
    for key, value in items(evaluate(collection, lookup)):
        values = dict(zip(map(text, names), (key, value) if len(names) == 2 else (value,), strict=True))
        scope = scoped(values, lookup)
        if all(_truth(evaluate(_trees(each)[0], scope)) for each in condition):
            yield scope


def scoped(values: Mapping[str, Any], lookup: Lookup) -> Lookup:
    """A lookup that tries these names first."""
    return lambda name: values[name] if name in values else lookup(name)


def no_names(name: str) -> Any:
    """The lookup for expressions that may not refer to anything."""
    raise Refused(f"{name} is not known here")


def items(collection: Any) -> list[tuple[Any, Any]]:
    """The elements of a collection with their keys. Terraform sorts maps by key."""
    match collection:
        case Mapping():
            return sorted(collection.items())
        case list():
            return list(enumerate(collection))
        case _:
            raise Refused(f"{collection!r} is no collection")


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Refused(f"expected true or false, got {value!r}")
    return value


def _number(value: float) -> float:
    return int(value) if value == int(value) else value


def call_of(tree: Tree) -> tuple[str, list[Tree]] | None:
    """The name and the arguments of a call, or of a type with arguments."""
    while tree.data == "expr_term" and len(_trees(tree)) == 1:
        (tree,) = _trees(tree)
    if tree.data != "function_call":
        return None
    name, *rest = _trees(tree)
    return text(name), _trees(rest[0]) if rest else []


def elements(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """The keys of an object, with their expressions."""
    while tree.data == "expr_term":
        (tree,) = _trees(tree)
    for each in _trees(tree):
        key, value = _trees(each)
        yield text(key), value


def _binary(operator: str, left: Any, right: Callable[[], Any]) -> Any:
    match operator:
        case "&&":
            return _truth(left) and _truth(right())
        case "||":
            return _truth(left) or _truth(right())
        case "==":
            return left == right()
        case "!=":
            return left != right()
    other = right()
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in (left, other)):
        raise Refused(f"{left!r} {operator} {other!r} needs numbers")
    match operator:
        case "<":
            return left < other
        case "<=":
            return left <= other
        case ">":
            return left > other
        case ">=":
            return left >= other
        case "+":
            return left + other
        case "-":
            return left - other
        case "*":
            return left * other
        case "/":
            return _number(left / other)
        case _:
            return left % other


def _call(tree: Tree, lookup: Lookup) -> Any:
    name, *rest = _trees(tree)
    arguments = _trees(rest[0]) if rest else []
    match text(name):
        case "try":
            for each in arguments:
                try:
                    return evaluate(each, lookup)
                except Refused:
                    continue
            raise Refused("no expression of try is valid")
        case "can":
            try:
                evaluate(arguments[0], lookup)
            except Refused:
                return False
            return True
    values = [evaluate(each, lookup) for each in arguments]
    if rest and any(isinstance(each, Token) and each.type == "ELLIPSIS" for each in rest[0].children):
        values = [*values[:-1], *values[-1]]
    return FUNCTIONS[text(name)](*values)


def _regex(pattern: str, text: Any) -> Any:
    if not isinstance(text, str) or (found := re.search(pattern, text)) is None:
        raise Refused(f"{text!r} does not match {pattern}")
    return list(found.groups()) or found.group()


def _coalesce(*values: Any) -> Any:
    for each in values:
        if each is not None and each != "":
            return each
    raise Refused("all values are null")


def _one(values: list[Any]) -> Any:
    if len(values) > 1:
        raise Refused("one() of several")
    return values[0] if values else None


def _flatten(value: Any) -> list[Any]:
    return [inner for each in value for inner in (_flatten(each) if isinstance(each, list) else [each])]


def _distinct(values: list[Any]) -> list[Any]:
    return [each for index, each in enumerate(values) if each not in values[:index]]


def _tonumber(text: Any) -> Any:
    return _number(float(text))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "alltrue": lambda values: all(values),
    "basename": lambda path: path.rsplit("/", 1)[-1],
    "coalesce": _coalesce,
    "concat": lambda *lists: [each for one in lists for each in one],
    "contains": lambda values, value: value in values,
    "distinct": _distinct,
    # The content of the file is not compared, so its path is enough.
    "filebase64sha256": lambda path: base64.b64encode(path.encode()).decode(),
    "flatten": _flatten,
    "floor": math.floor,
    "format": lambda text, *values: text % values,
    "join": lambda separator, values: separator.join(values),
    "jsonencode": lambda value: json.dumps(value),
    "keys": lambda value: sorted(value),
    "length": len,
    "lookup": lambda value, key, default: value.get(key, default),
    "lower": str.lower,
    "merge": lambda *maps: {key: value for one in maps for key, value in one.items()},
    "min": min,
    "one": _one,
    "regex": _regex,
    "split": lambda separator, text: text.split(separator),
    "startswith": str.startswith,
    "sum": sum,
    "tonumber": _tonumber,
    "tostring": written,
    "values": lambda value: [each for _, each in sorted(value.items())],
}
