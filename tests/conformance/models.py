"""Checks requests and answers against AWS's own models of its services, which come with botocore.

An SDK ignores what it does not know and fills in what is missing, so a wrong answer can stay unnoticed. This looks at
the bytes: members that the model lacks, required ones that are missing, wrong types, and values outside their bounds.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import botocore.session

# How the types of a model look in JSON. A blob is base64.
TYPES = {
    "string": str, "blob": str, "character": str, "boolean": bool, "integer": int, "long": int,
    "float": (int, float), "double": (int, float), "timestamp": (int, float), "structure": dict,
    "map": dict, "list": list,
}  # fmt: skip

# Errors that no model lists for each operation. AWS has answered them all: see facts.yaml.
COMMON = {
    "AccessDeniedException", "InvalidAttributeName", "InvalidParameterValueException", "ThrottlingException",
    "MissingRequiredParameterException", "ValidationException",
}  # fmt: skip

# The members that name a resource, and how its ARN begins in the local cloud.
NAMING = (
    "QueueUrl", "QueueName", "TableName", "RequestItems", "logGroupIdentifier", "logGroupName", "FunctionName",
    "Resource",
)  # fmt: skip
KINDS = {
    "sqs": "arn:aws:sqs:us-east-1:000000000000:",
    "dynamodb": "arn:aws:dynamodb:us-east-1:000000000000:table/",
    "logs": "arn:aws:logs:us-east-1:000000000000:log-group:",
    "lambda": "arn:aws:lambda:us-east-1:000000000000:function:",
}

# An action and a resource.
Permission = tuple[str, str]

_SESSION = botocore.session.Session()
MODELS = {name: _SESSION.get_service_model(name) for name in ("sqs", "lambda", "dynamodb", "logs")}
TARGETS = {model.metadata["targetPrefix"]: model for model in MODELS.values() if "targetPrefix" in model.metadata}


def faults(shape: Any, value: Any, where: str = "") -> Iterator[str]:
    """What is wrong with a value of JSON."""
    kind = shape.type_name
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{where}: expected {kind}, got {value!r:.80}"
    elif getattr(shape, "is_document_type", False):
        return
    elif kind == "structure":
        members = {
            member.serialization.get("name", name): member
            for name, member in shape.members.items()
            if "location" not in member.serialization
        }
        given = {name for name in value if value[name] is not None}
        yield from (f"{where}.{name}: expected no such member" for name in sorted(given - members.keys() - {"__type"}))
        required = {shape.members[name].serialization.get("name", name) for name in shape.required_members}
        yield from (f"{where}.{name}: expected it, got nothing" for name in sorted((required & members.keys()) - given))
        for name in sorted(given & members.keys()):
            yield from faults(members[name], value[name], f"{where}.{name}")
    elif kind == "list":
        yield from bounded(shape, len(value), where)
        for at, member in enumerate(value):
            yield from faults(shape.member, member, f"{where}[{at}]")
    elif kind == "map":
        for name, member in value.items():
            yield from faults(shape.key, name, f"{where}.{name}")
            yield from faults(shape.value, member, f"{where}.{name}")
    elif kind == "string":
        if shape.enum and value not in shape.enum:
            yield f"{where}: expected one of {shape.enum}, got {value!r}"
        pattern = shape.metadata.get("pattern", "")
        # Python has no classes of Unicode.
        if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value):
            yield f"{where}: expected {pattern}, got {value!r:.80}"
        yield from bounded(shape, len(value), where)
    elif kind in ("integer", "long"):
        yield from bounded(shape, value, where)


def bounded(shape: Any, size: int, where: str) -> Iterator[str]:
    """What is wrong with a length or a number."""
    least, most = shape.metadata.get("min", size), shape.metadata.get("max", size)
    if not least <= size <= most:
        yield f"{where}: expected {least} to {most}, got {size}"


def faults_of_answer(operation: Any, status: int, headers: Mapping[str, str], body: bytes) -> Iterator[str]:
    """What is wrong with an answer. DynamoDB's answers are those of another project."""
    if operation.service_model.service_name == "dynamodb":
        return
    if status >= 300:
        told = json.loads(body or b"{}")
        code = headers.get("x-amzn-errortype") or told.get("__type", "")
        code = code.split(":")[0].rpartition("#")[2]
        shapes = {shape.name: shape for shape in operation.error_shapes}
        if code not in shapes and code not in COMMON:
            yield f"{operation.name}: expected one of {sorted(shapes)}, got {status} {code!r}"
        return
    shape = operation.output_shape
    if shape is None or "payload" in shape.serialization:
        return
    yield from (f"{operation.name}{fault}" for fault in faults(shape, json.loads(body or b"{}")))


def faults_of_request(
    operation: Any, located: Mapping[str, str], headers: Mapping[str, str], body: bytes
) -> Iterator[str]:
    """What is wrong with a request. `located` are the parameters in its path."""
    shape = operation.input_shape
    for name, member in shape.members.items():
        location, key = member.serialization.get("location"), member.serialization.get("name", name)
        value = headers.get(key.lower()) if location == "header" else located.get(key) if location == "uri" else None
        if value is not None and member.type_name == "string":
            yield from (f"{operation.name}{fault}" for fault in faults(member, value, f".{name}"))
    if "payload" not in shape.serialization:
        yield from (f"{operation.name}{fault}" for fault in faults(shape, json.loads(body or b"{}")))


def operation(method: str, path: str, headers: Mapping[str, str]) -> tuple[Any, dict[str, str]] | None:
    """The operation of a request, and the parameters in its path. None for another service."""
    target, _, name = headers.get("x-amz-target", "").rpartition(".")
    if target in TARGETS:
        return TARGETS[target].operation_model(name), {}
    lambdas = MODELS["lambda"]
    for operation in map(lambdas.operation_model, lambdas.operation_names):
        uri = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(operation.http["requestUri"].partition("?")[0]))
        found = re.fullmatch(uri + "/?", path.partition("?")[0])
        if found and operation.http["method"] == method:
            return operation, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


def permission(operation: Any, located: Mapping[str, str], body: bytes) -> Permission:
    """The action of a request and its resource, as policies name them."""
    service, name = operation.service_model.signing_name, operation.name
    name = name.removesuffix("Batch") if service == "sqs" else "InvokeFunction" if name == "Invoke" else name
    # The body of an invocation is its event, which names nothing.
    given = {} if "payload" in operation.input_shape.serialization else json.loads(body or b"{}")
    named = {**given, **located}
    own = next((named[member] for member in NAMING if member in named), None)
    if own is None:
        return f"{service}:{name}", "*"
    if isinstance(own, dict):
        # The tables of a batch. Ours are of one.
        (own,) = own
    if service == "sqs":
        own = own.rpartition("/")[2]
    resource = own if own.startswith("arn:") else KINDS[service] + own
    index = f"/index/{given['IndexName']}" if "IndexName" in given else ""
    return f"{service}:{name}", resource + index
