"""Plans a Terraform configuration without Terraform: the resources that it makes, and the values of their arguments.

Resources have tokens as names, like those of templates. The attributes of a resource that exist only after its
creation, such as its ARN, are derived from the token. So a plan can be compared with a template.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hcl
from hcl import Block, Refused

ACCOUNT, REGION = "111111111111", "us-east-1"

# Attributes that exist only after a resource's creation. `*` is the token.
_QUEUE_URL = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/*"
COMPUTED = {
    "aws_sqs_queue": {"arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:*", "id": _QUEUE_URL, "url": _QUEUE_URL, "name": "*"},
    "aws_sns_topic": {"arn": f"arn:aws:sns:{REGION}:{ACCOUNT}:*"},
    "aws_lambda_function": {"arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:*", "function_name": "*"},
    "aws_iam_role": {"arn": f"arn:aws:iam::{ACCOUNT}:role/*", "name": "*"},
    "aws_iam_policy": {"arn": f"arn:aws:iam::{ACCOUNT}:policy/*"},
    "aws_dynamodb_table": {"arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/*", "name": "*"},
    "aws_kms_key": {"arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/*"},
    "aws_cloudwatch_log_group": {"arn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:*", "name": "*"},
    "aws_cloudwatch_metric_alarm": {"arn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:*"},
}
DATA = {
    "aws_caller_identity": {"account_id": ACCOUNT},
    "aws_partition": {"dns_suffix": "amazonaws.com"},
    "aws_region": {"region": REGION},
    "archive_file": {"output_path": "orders.zip", "output_base64sha256": "*"},
}

# Arguments that control Terraform itself and don't belong to a resource.
META = {"for_each", "count", "depends_on", "provider"}
META_BLOCKS = {"lifecycle"}


@dataclass(frozen=True)
class Planned:
    """A resource that Terraform would make."""

    token: str
    kind: str
    address: str
    # Without arguments that are null. Blocks are lists, because a block may be repeated.
    arguments: dict[str, Any]


class _Lazy(Mapping[str, Any]):
    """Names whose values are computed at their first use."""

    def __init__(self, names: Any, work_out: Any) -> None:
        self._names, self._work_out, self._known = list(names), work_out, dict[str, Any]()

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = self._work_out(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass
class Module:
    """A module with its inputs and the modules that it calls."""

    folder: Path
    inputs: dict[str, Any] = field(default_factory=dict)
    path: str = ""

    def __post_init__(self) -> None:
        self.blocks = [block for path in sorted(self.folder.glob("*.tf")) for block in hcl.read(path).blocks]
        self.variables, self.outputs, modules = map(self._named, ("variable", "output", "module"))
        self.resources = {each.labels: each for each in self.blocks if each.kind == "resource"}
        if unknown := self.inputs.keys() - self.variables.keys():
            raise Refused(f"unexpected arguments of the module: {sorted(unknown)}")

        expressions: dict[str, Any] = {}
        for each in self.blocks:
            if each.kind == "locals":
                expressions |= each.attributes
        self.locals = _Lazy(expressions, lambda name: hcl.evaluate(expressions[name], self.lookup))
        self.children = _Lazy(modules, lambda name: self._child(modules[name]))
        self.results = _Lazy(
            self.outputs, lambda name: hcl.evaluate(self.outputs[name].attributes["value"], self.lookup)
        )
        self._names: dict[str, Mapping[str, Any]] = {
            "var": _Lazy(self.variables, self._input),
            "local": self.locals,
            "module": _Lazy(modules, lambda name: self.children[name].results),
            "data": {kind: dict.fromkeys(self._data(kind), values) for kind, values in DATA.items()},
        }
        for kind in {kind for kind, _ in self.resources}:
            self._names[kind] = self._resources_of(kind)
        self._instances: dict[tuple[str, ...], dict[Any, hcl.Lookup]] = {}

    def lookup(self, name: str) -> Any:
        """Looks up the first part of a reference."""
        if name not in self._names:
            raise Refused(f"{self.folder.name} has no {name}")
        return self._names[name]

    def plan(self) -> Iterator[Planned]:
        """All resources, including those of called modules.

        Raises:
            Refused: if Terraform would not plan it.
        """
        if refusals := self.refusals():
            raise Refused("; ".join(refusals))
        for block in self.resources.values():
            kind, name = block.labels
            for key, lookup in self._each(block).items():
                address = f"{self.path}{kind}.{name}" + ("" if key is None else f"[{key}]")
                yield Planned(self._token(block, key), kind, address, _arguments(block, lookup, META_BLOCKS))
        for name in self.children:
            yield from self.children[name].plan()

    def refusals(self) -> list[str]:
        """The messages of the variables' validations that fail or, if none fails, of preconditions."""
        validations = [check for each in self.variables.values() for check in each.inner("validation")]
        return list(_broken(validations, self.lookup)) or [
            message
            for block in self.resources.values()
            for each in block.inner("lifecycle")
            for lookup in self._each(block).values()
            for message in _broken(each.inner("precondition"), lookup)
        ]

    def _named(self, kind: str) -> dict[str, Block]:
        return {each.labels[0]: each for each in self.blocks if each.kind == kind}

    def _resources_of(self, kind: str) -> Mapping[str, Any]:
        names = [name for each, name in self.resources if each == kind]
        return _Lazy(names, lambda name: self._reference(self.resources[kind, name]))

    def _data(self, kind: str) -> list[str]:
        return [name for each in self.blocks if each.kind == "data" for of, name in [each.labels] if of == kind]

    def _input(self, name: str) -> Any:
        declared = self.variables[name].attributes
        given = self.inputs.get(name)
        is_nullable = "nullable" not in declared
        if (name not in self.inputs or (given is None and not is_nullable)) and "default" not in declared:
            raise Refused(f"the module needs {name}")
        if name not in self.inputs or (given is None and not is_nullable):
            given = hcl.evaluate(declared["default"], self.lookup)
        return _converted(given, declared["type"], name)

    def _child(self, block: Block) -> "Module":
        inputs = {name: hcl.evaluate(tree, self.lookup) for name, tree in block.attributes.items() if name != "source"}
        source = hcl.evaluate(block.attributes["source"], self.lookup)
        return Module((self.folder / source).resolve(), inputs, f"{self.path}module.{block.labels[0]}.")

    def _token(self, block: Block, key: Any) -> str:
        kind, name = block.labels
        # System tells topics apart by this.
        return f"{{{self.path}{kind}.{name.title()}{'' if key is None else f'[{key}]'}}}"

    def _each(self, block: Block) -> dict[Any, hcl.Lookup]:
        """The instances of a resource by their keys, with the values of `each` and `count` in them."""
        if block.labels not in self._instances:
            self._instances[block.labels] = dict(self._work_out_each(block))
        return self._instances[block.labels]

    def _work_out_each(self, block: Block) -> Iterator[tuple[Any, hcl.Lookup]]:
        if "for_each" in block.attributes:
            for key, value in hcl.items(hcl.evaluate(block.attributes["for_each"], self.lookup)):
                yield key, hcl.scoped({"each": {"key": key, "value": value}}, self.lookup)
        elif "count" in block.attributes:
            for index in range(hcl.evaluate(block.attributes["count"], self.lookup)):
                yield index, hcl.scoped({"count": {"index": index}}, self.lookup)
        else:
            yield None, self.lookup

    def _reference(self, block: Block) -> Any:
        instances = {key: self._attributes(block, key, lookup) for key, lookup in self._each(block).items()}
        if "for_each" in block.attributes:
            return instances
        return list(instances.values()) if "count" in block.attributes else instances[None]

    def _attributes(self, block: Block, key: Any, lookup: hcl.Lookup) -> Mapping[str, Any]:
        computed = COMPUTED.get(block.labels[0], {})
        made = {name: form.replace("*", self._token(block, key)) for name, form in computed.items()}
        return _Lazy(
            [*block.attributes, *made],
            lambda name: made[name] if name in made else hcl.evaluate(block.attributes[name], lookup),
        )


def _broken(checks: Iterable[Block], lookup: hcl.Lookup) -> Iterator[str]:
    for check in checks:
        if not hcl.evaluate(check.attributes["condition"], lookup):
            yield hcl.evaluate(check.attributes["error_message"], lookup)


def _arguments(block: Block, lookup: hcl.Lookup, left_out: set[str] = frozenset()) -> dict[str, Any]:
    made = {name: hcl.evaluate(tree, lookup) for name, tree in block.attributes.items() if name not in META}
    made = {name: value for name, value in made.items() if value is not None}
    for inner in block.blocks:
        if inner.kind in left_out:
            continue
        if inner.kind != "dynamic":
            made.setdefault(inner.kind, []).append(_arguments(inner, lookup))
            continue
        (kind,) = inner.labels
        (content,) = inner.inner("content")
        for key, value in hcl.items(hcl.evaluate(inner.attributes["for_each"], lookup)):
            scope = hcl.scoped({kind: {"key": key, "value": value}}, lookup)
            made.setdefault(kind, []).append(_arguments(content, scope))
    return made


def _converted(value: Any, kind: Any, path: str) -> Any:
    """Converts a value to the type of its variable, and adds the defaults of optional attributes."""
    call = hcl.call_of(kind)
    if call is None:
        expected = {"string": str, "number": int | float, "bool": bool}[hcl.text(kind)]
        if value is not None and not isinstance(value, expected):
            raise Refused(f"{path} must be a {hcl.text(kind)}, got {value!r}")
        return value
    name, arguments = call
    match name, value:
        case _, None:
            return None
        case "list", list():
            return [_converted(each, arguments[0], f"{path}[{index}]") for index, each in enumerate(value)]
        case "map", dict():
            return {key: _converted(each, arguments[0], f"{path}.{key}") for key, each in value.items()}
        case "object", dict():
            declared = dict(hcl.elements(arguments[0]))
            if unknown := value.keys() - declared.keys():
                raise Refused(f"{path} has no {sorted(unknown)}")
            return {key: _attribute(value, key, of, f"{path}.{key}") for key, of in declared.items()}
    raise Refused(f"{path} must be a {name}, got {value!r}")


def _attribute(value: dict[str, Any], key: str, kind: Any, path: str) -> Any:
    call = hcl.call_of(kind)
    if call is None or call[0] != "optional":
        if value.get(key) is None:
            raise Refused(f"{path} is required")
        return _converted(value[key], kind, path)
    inner, *default = call[1]
    given = value.get(key)
    if given is None and default:
        given = hcl.evaluate(default[0], hcl.no_names)
    return _converted(given, inner, path)


def required(variable: Block) -> bool:
    """Whether a variable must be set."""
    return "default" not in variable.attributes


def described(block: Block) -> str:
    """The description of a variable or an output, in one line."""
    return re.sub(r"\s+", " ", hcl.evaluate(block.attributes["description"], hcl.no_names)).strip()
