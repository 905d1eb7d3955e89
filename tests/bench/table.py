"""A table of DynamoDB, as much of it as the handler uses, and the units that DynamoDB bills for each call.

Conditions are evaluated: a write that a handler has to repeat is billed twice, also here. What the table doesn't
understand is an error, so that nothing is counted wrongly in silence.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

CONTRACT = json.loads((Path(__file__).resolve().parents[2] / "infra/cdk/contract/table.json").read_text())

# The partition key, and the sort key if the table has one.
KEY = tuple(CONTRACT[name] for name in ("key", "sort_key") if name in CONTRACT)
# An item with both of these is in the index, too.
INDEXED = (CONTRACT["index_key"], CONTRACT["index_sort_key"])

# A write is billed by each of these, and a read by each of the larger ones.
WRITE_BYTES, READ_BYTES = 1024, 4096

Value = dict[str, Any]
Item = dict[str, Value]

TOKEN = re.compile(r"\s*(<>|<=|>=|[=<>(),+-]|[#:]?\w+)")
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda one, other: one == other,
    "<>": lambda one, other: one != other,
    "<": lambda one, other: one is not None and other is not None and one < other,
    "<=": lambda one, other: one is not None and other is not None and one <= other,
    ">": lambda one, other: one is not None and other is not None and one > other,
    ">=": lambda one, other: one is not None and other is not None and one >= other,
}


def item_bytes(item: Item) -> int:
    """The size of an item: all names and values. DynamoDB counts two digits of a number as one byte, this as two."""

    def size(value: Any) -> int:
        if isinstance(value, dict):
            return sum(len(name.encode()) + size(member) for name, member in value.items())
        return sum(map(size, value)) if isinstance(value, list) else len(str(value).encode())

    return sum(len(name.encode()) + size(list(value.values())) for name, value in item.items())


def units(size: int, each: int) -> int:
    return max(1, math.ceil(size / each))


class ConditionFailed(Exception):
    """The condition of a write doesn't hold for this item, or for none."""

    def __init__(self, item: Item) -> None:
        super().__init__(f"the condition fails for {item}")
        self.item = item

    @property
    def units(self) -> int:
        """A refused write is billed by the item that refuses it."""
        return units(item_bytes(self.item), WRITE_BYTES)


def _plain(value: Value | None) -> Any:
    """The value without its type, so that numbers compare as numbers."""
    if value is None:
        return None
    ((kind, plain),) = value.items()
    return float(plain) if kind == "N" else plain


def _number(plain: float) -> Value:
    return {"N": str(int(plain) if plain.is_integer() else plain)}


class Expression:
    """An expression of a request, whose names and values are in the request."""

    def __init__(self, text: str, request: Mapping[str, Any], item: Item) -> None:
        self.tokens = TOKEN.findall(text)
        if re.sub(r"\s", "", text) != "".join(self.tokens):
            raise ValueError(f"expected an expression, got {text!r}")
        self.names = request.get("ExpressionAttributeNames", {})
        self.values = request.get("ExpressionAttributeValues", {})
        self.item = item

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, *expected: str) -> str:
        if expected and self.peek().upper() not in expected:
            raise ValueError(f"expected {expected}, got {self.tokens}")
        return str(self.tokens.pop(0))

    def name(self) -> str:
        token = self.take()
        return str(self.names[token]) if token.startswith("#") else token

    def operand(self) -> Value | None:
        """A value, or that of an attribute."""
        if self.peek() == "if_not_exists":
            self.take(), self.take("(")
            name, _, other, _ = self.name(), self.take(","), self.operand(), self.take(")")
            return self.item.get(name, other)
        if self.peek().startswith(":"):
            return dict(self.values[self.take()])
        return self.item.get(self.name())

    def is_true(self) -> bool:
        """Evaluates a whole condition."""
        result = self._any()
        if self.tokens:
            raise ValueError(f"expected the end of a condition, got {self.tokens}")
        return result

    def _any(self) -> bool:
        result = self._all()
        while self.peek().upper() == "OR":
            self.take()
            result = self._all() or result
        return result

    def _all(self) -> bool:
        result = self._one()
        while self.peek().upper() == "AND":
            self.take()
            result = self._one() and result
        return result

    def _one(self) -> bool:
        token = self.peek()
        if token.upper() == "NOT":
            self.take()
            return not self._one()
        if token == "(":
            self.take()
            result = self._any()
            self.take(")")
            return result
        if token in ("attribute_exists", "attribute_not_exists"):
            self.take(), self.take("(")
            is_there = self.name() in self.item
            self.take(")")
            return is_there == (token == "attribute_exists")
        if token in ("begins_with", "contains"):
            self.take(), self.take("(")
            whole, _, part, _ = _plain(self.operand()), self.take(","), _plain(self.operand()), self.take(")")
            return whole is not None and (whole.startswith(part) if token == "begins_with" else part in whole)
        one, how, other = self.operand(), self.take(*COMPARED), self.operand()
        return COMPARED[how](_plain(one), _plain(other))

    def updated(self) -> Item:
        """The item after an update."""
        after = dict(self.item)
        while self.tokens:
            clause = self.take("SET", "REMOVE", "ADD").upper()
            while True:
                name = self.name()
                if clause == "SET":
                    self.take("=")
                    value = self.operand()
                    while self.peek() in ("+", "-"):
                        sign = 1 if self.take() == "+" else -1
                        value = _number(_plain(value) + sign * _plain(self.operand()))
                    after[name] = value
                elif clause == "ADD":
                    after[name] = _number((_plain(self.item.get(name)) or 0) + _plain(self.operand()))
                else:
                    after.pop(name, None)
                if self.peek() != ",":
                    break
                self.take()
        return after


class Table:
    def __init__(
        self, about: Iterable[str] = (), items: Mapping[str, dict[tuple[str, ...], Item]] | None = None
    ) -> None:
        # If there are any, only items whose keys have one of these texts are kept.
        self.about = frozenset(about)
        # By their partition, and then by their whole key.
        self.partitions = {partition: dict(items) for partition, items in (items or {}).items()}

    def copy(self) -> "Table":
        return Table(self.about, self.partitions)

    def items(self) -> list[Item]:
        return [item for items in self.partitions.values() for item in items.values()]

    def put(self, item: Item) -> None:
        key = self._key(item)
        self.partitions.setdefault(key[0], {})[key] = item

    def stored_bytes(self) -> int:
        """The size of all items, in the table and in the index."""
        return sum(item_bytes(item) * (2 if self._is_indexed(item) else 1) for item in self.items())

    def answer(self, operation: str, request: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """The answer to a call, and the units that it is billed as, of writes or of reads.

        Raises:
            ConditionFailed: if a write was refused. It is billed, too.
        """
        match operation:
            case "PutItem":
                return {}, self._write(request, lambda _: dict(request["Item"]), request["Item"])
            case "UpdateItem":
                return {}, self._write(request, lambda old: self._updated(request, old), request["Key"])
            case "DeleteItem":
                return {}, self._write(request, lambda _: None, request["Key"])
            case "TransactWriteItems":
                return {}, self._transact(request["TransactItems"])
            case "BatchGetItem":
                return self._read(request)
            case "Query":
                return self._query(request)
        raise ValueError(f"expected an operation of a handler, got {operation}")

    @staticmethod
    def _is_indexed(item: Item | None) -> bool:
        return item is not None and all(name in item for name in INDEXED)

    @staticmethod
    def _key(item: Item) -> tuple[str, ...]:
        return tuple(str(_plain(item[name])) for name in KEY)

    def _found(self, named: Item) -> Item | None:
        key = self._key(named)
        return self.partitions.get(key[0], {}).get(key)

    @staticmethod
    def _updated(request: Mapping[str, Any], old: Item) -> Item:
        return Expression(request["UpdateExpression"], request, old or dict(request["Key"])).updated()

    def _check(self, request: Mapping[str, Any], named: Item) -> None:
        old = self._found(named) or {}
        condition = request.get("ConditionExpression")
        if condition and not Expression(condition, request, old).is_true():
            raise ConditionFailed(old)

    def _write(self, request: Mapping[str, Any], made: Callable[[Item], Item | None], named: Item) -> int:
        self._check(request, named)
        key, old = self._key(named), self._found(named)
        new = made(old or {})
        partition = self.partitions.setdefault(key[0], {})
        partition.pop(key, None)
        if new is not None and (not self.about or any(text in part for text in self.about for part in key)):
            partition[key] = new
        return self._written(old, new)

    def _written(self, old: Item | None, new: Item | None) -> int:
        """The units of a write: of the table, by the larger of both items, and of the index."""
        of_table = units(max(item_bytes(old or {}), item_bytes(new or {})), WRITE_BYTES)
        in_index = [each if self._is_indexed(each) else None for each in (old, new)]
        before, after = in_index
        if before == after:
            return of_table
        # An item with another key in the index is removed there and put again.
        has_moved = before and after and any(before[name] != after[name] for name in INDEXED)
        parts = ((before, None), (None, after)) if has_moved else ((before, after),)
        return of_table + sum(
            units(max(item_bytes(one or {}), item_bytes(other or {})), WRITE_BYTES) for one, other in parts
        )

    def _transact(self, writes: list[dict[str, Any]]) -> int:
        pairs = [(kind, write) for each in writes for kind, write in each.items()]
        for _, write in pairs:
            self._check(write, write.get("Item") or write["Key"])
        # Each write is prepared and committed.
        return sum(
            2 * int(self.answer({"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}[kind], write)[1])
            for kind, write in pairs
        )

    def _read(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        found: dict[str, list[Item]] = {}
        billed = 0.0
        for table, wanted in request["RequestItems"].items():
            items = [self._found(key) or {} for key in wanted["Keys"]]
            found[table] = [item for item in items if item]
            each = 1 if wanted.get("ConsistentRead") else 0.5
            # A missing item is billed as the smallest one.
            billed += sum(each * units(item_bytes(item), READ_BYTES) for item in items)
        return {"Responses": found, "UnprocessedKeys": {}}, billed

    def _query(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        if "IndexName" in request or "FilterExpression" in request:
            raise ValueError(f"expected a query of the table without a filter, got {request}")
        condition = Expression(request["KeyConditionExpression"], request, {})
        names = [condition.names.get(token, token) for token in condition.tokens]
        partition = str(_plain(condition.values[condition.tokens[names.index(KEY[0]) + 2]]))
        found = [
            item
            for item in self.partitions.get(partition, {}).values()
            if Expression(request["KeyConditionExpression"], request, item).is_true()
        ]
        found.sort(key=self._key, reverse=request.get("ScanIndexForward") is False)
        page = found[: request.get("Limit", len(found))]
        billed = units(sum(map(item_bytes, page)), READ_BYTES) * (1 if request.get("ConsistentRead") else 0.5)
        answer = {"Items": page, "Count": len(page), "ScannedCount": len(page)}
        if len(page) < len(found):
            answer["LastEvaluatedKey"] = {name: page[-1][name] for name in KEY}
        return answer, billed
