"""Parses a template, and evaluates it as CloudFormation would: intrinsic functions are resolved, and tokens name the
resources.

Account, region and partition are the same in all templates. So an ARN is the same string whether a template gets it
from a resource or joins it from parts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PSEUDO_PARAMETERS = {
    "AWS::AccountId": "111111111111",
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::StackId": "arn:aws:cloudformation:us-east-1:111111111111:stack/stack/11111111-2222-3333-4444-555555555555",
    "AWS::StackName": "stack",
    "AWS::URLSuffix": "amazonaws.com",
}

NESTED = "AWS::CloudFormation::Stack"

# The results of Ref and of the attribute Arn for each type of resource. `*` is the resource's name.
_REFERENCES = {
    "AWS::SQS::Queue": "https://sqs.us-east-1.amazonaws.com/111111111111/*",
    "AWS::SNS::Topic": "arn:aws:sns:us-east-1:111111111111:*",
}
_ARNS = {
    "AWS::SQS::Queue": "arn:aws:sqs:us-east-1:111111111111:*",
    "AWS::SNS::Topic": "arn:aws:sns:us-east-1:111111111111:*",
    "AWS::Lambda::Function": "arn:aws:lambda:us-east-1:111111111111:function:*",
    "AWS::IAM::Role": "arn:aws:iam::111111111111:role/*",
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:us-east-1:111111111111:table/*",
    "AWS::KMS::Key": "arn:aws:kms:us-east-1:111111111111:key/*",
    "AWS::S3::Bucket": "arn:aws:s3:::*",
    "AWS::Logs::LogGroup": "arn:aws:logs:us-east-1:111111111111:log-group:*:*",
}
# The attributes that give a resource's name.
_NAMES = ("QueueName", "TopicName", "RoleName")


class _NoValue:
    """`AWS::NoValue`: the property is absent."""


@dataclass(frozen=True)
class Resource:
    # The logical id in braces, with the ids of the stacks that contain the resource before it. It serves as the name.
    token: str
    # Without `AWS::`.
    type: str
    properties: dict[str, Any]
    # The policies for deletion and replacement.
    at_deletion: str
    at_replacement: str


@dataclass
class Template:
    """A template after its transforms, with values for its parameters, and its nested templates."""

    document: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    nested: Mapping[str, "Template"] = field(default_factory=dict)
    path: str = ""

    def __post_init__(self) -> None:
        declared = self.document.get("Parameters", {})
        if unknown := self.parameters.keys() - declared.keys():
            raise ValueError(f"expected parameters that the template has, got {sorted(unknown)}")
        self._values = {
            name: _parameter(declaration, self.parameters.get(name, declaration.get("Default")))
            for name, declaration in declared.items()
        }
        self._children: dict[str, Template] = {}

    def resources(self) -> Iterator[Resource]:
        """All resources, including those of nested stacks."""
        for name, resource in self.document["Resources"].items():
            if not self._holds(resource.get("Condition")):
                continue
            if resource["Type"] == NESTED:
                yield from self._child(name).resources()
            else:
                yield Resource(
                    self._token(name),
                    resource["Type"].removeprefix("AWS::"),
                    self._work_out(resource.get("Properties", {})),
                    resource.get("DeletionPolicy", "Delete"),
                    resource.get("UpdateReplacePolicy", "Delete"),
                )

    def refusals(self) -> list[str]:
        """Why CloudFormation would refuse the parameters: what these must be, and the assertions that fail."""
        wrong = [
            f"{name} {declaration['ConstraintDescription']}"
            for name, declaration in self.document.get("Parameters", {}).items()
            if not _takes(declaration, self.parameters.get(name, declaration.get("Default", "")))
        ]
        applying = (each for each in self.document.get("Rules", {}).values() if self._work_out(each["RuleCondition"]))
        assertions = (assertion for rule in applying for assertion in rule["Assertions"])
        return wrong + [each["AssertDescription"] for each in assertions if not self._work_out(each["Assert"])]

    def output(self, name: str) -> Any:
        return self._work_out(self.document["Outputs"][name]["Value"])

    def _child(self, name: str) -> "Template":
        if name not in self._children:
            child = self.nested[name]
            properties = self._work_out(self.document["Resources"][name]["Properties"])
            parameters = properties.get("Parameters", {})
            self._children[name] = Template(child.document, parameters, child.nested, f"{self.path}{name}.")
        return self._children[name]

    def _token(self, name: str) -> str:
        return f"{{{self.path}{name}}}"

    def _holds(self, condition: str | None) -> bool:
        return condition is None or self._work_out(self.document["Conditions"][condition])

    def _work_out(self, value: Any) -> Any:
        match value:
            case dict() if len(value) == 1 and _is_function(name := next(iter(value)), value):
                return self._call(name, value[name])
            case dict():
                worked_out = {key: self._work_out(each) for key, each in value.items()}
                return {key: each for key, each in worked_out.items() if each is not _NoValue}
            case list():
                return [each for each in map(self._work_out, value) if each is not _NoValue]
            case _:
                return value

    def _call(self, name: str, argument: Any) -> Any:
        match name, argument:
            case "Ref", _:
                return self._reference(argument)
            case "Fn::GetAtt", str():
                return self._attribute(*argument.split(".", 1))
            case "Fn::GetAtt", [resource, attribute]:
                return self._attribute(resource, attribute)
            case "Fn::If", [condition, then, otherwise]:
                return self._work_out(then if self._holds(condition) else otherwise)
            case "Fn::Equals", [left, right]:
                return self._work_out(left) == self._work_out(right)
            case "Condition", str():
                return self._holds(argument)
            case "Fn::And", _:
                return all(map(self._work_out, argument))
            case "Fn::Or", _:
                return any(map(self._work_out, argument))
            case "Fn::Not", [condition]:
                return not self._work_out(condition)
            case "Fn::Join", [delimiter, parts]:
                return delimiter.join(map(str, self._work_out(parts)))
            case "Fn::Split", [delimiter, text]:
                return self._work_out(text).split(delimiter)
            case "Fn::Select", [index, values]:
                return self._work_out(values)[int(index)]
            case "Fn::Sub", str():
                return self._substitute(argument, {})
            case "Fn::Sub", [text, values]:
                return self._substitute(text, self._work_out(values))
        raise NotImplementedError(f"{name} of {argument}")

    def _reference(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NoValue
        if name in PSEUDO_PARAMETERS:
            return PSEUDO_PARAMETERS[name]
        if name in self._values:
            return self._values[name]
        form = _REFERENCES.get(self.document["Resources"][name]["Type"], "*")
        return form.replace("*", self._token(name), 1)

    def _attribute(self, name: str, attribute: str) -> Any:
        resource = self.document["Resources"][name]
        if resource["Type"] == NESTED:
            return self._child(name).output(attribute.removeprefix("Outputs."))
        if attribute in _NAMES:
            return self._token(name)
        if attribute == "Arn" and resource["Type"] in _ARNS:
            return _ARNS[resource["Type"]].replace("*", self._token(name), 1)
        raise NotImplementedError(f"{attribute} of {name}, which is an {resource['Type']}")

    def _substitute(self, text: str, values: Mapping[str, Any]) -> str:
        before, *rest = text.split("${")
        parts = [before]
        for part in rest:
            name, _, after = part.partition("}")
            if name in values:
                value = values[name]
            elif name.startswith("!"):
                value = f"${{{name[1:]}}}"
            elif "." in name:
                value = self._attribute(*name.split(".", 1))
            else:
                value = self._reference(name)
            parts += [str(value), after]
        return "".join(parts)


def listed(value: Any) -> list[Any]:
    """Wraps a single value in a list."""
    return value if isinstance(value, list) else [value]


def _is_function(name: str, value: Mapping[str, Any]) -> bool:
    is_condition = name == "Condition" and isinstance(value[name], str)
    return name == "Ref" or name.startswith("Fn::") or is_condition


def _parameter(declaration: Mapping[str, Any], value: Any) -> str | Sequence[str]:
    if declaration["Type"] in ("CommaDelimitedList", "List<String>"):
        return [part.strip() for part in str(value).split(",")]
    return str(value)


def _takes(declaration: Mapping[str, Any], value: Any) -> bool:
    """Whether a parameter takes a value. Each item of a list must match a pattern."""
    values = _parameter(declaration, value)
    matches = (re.fullmatch(declaration.get("AllowedPattern", ".*"), each, re.DOTALL) for each in listed(values))
    is_in = str(value) in map(str, declaration.get("AllowedValues", [value]))
    least, most = declaration.get("MinValue", "-inf"), declaration.get("MaxValue", "inf")
    is_number = declaration["Type"] == "Number"
    return all(matches) and is_in and (not is_number or float(least) <= float(value) <= float(most))


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of CloudFormation's intrinsic functions."""


def _function(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    match node:
        case yaml.ScalarNode():
            argument: Any = loader.construct_scalar(node)
        case yaml.SequenceNode():
            argument = loader.construct_sequence(node, deep=True)
        case _:
            argument = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(argument, str):
        argument = argument.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": argument}


_Loader.add_multi_constructor("!", _function)


def read(path: Path) -> dict[str, Any]:
    """Parses a template, without any transform."""
    return yaml.load(path.read_text(), Loader=_Loader)
