"""SAM's templates, transformed as CloudFormation would, without uploading code. The example also with everything on."""

import copy
import functools
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samtranslator.translator.transform import transform
from template import PSEUDO_PARAMETERS, Resource, Template, read

# The transformer publishes metrics of its own, and each transform would log that this was not possible.
logging.getLogger("samtranslator.metrics").setLevel(logging.ERROR)

INFRA = Path(__file__).resolve().parents[2] / "infra"
SYSTEM = INFRA / "sam" / "template.yaml"
TARGET_ALARMS = INFRA / "sam" / "target-alarms.yaml"
EXAMPLE = INFRA / "sam" / "example" / "template.yaml"
WITH_RECORDS = EXAMPLE.with_name("records.yaml")
TEMPLATES = (SYSTEM, TARGET_ALARMS, EXAMPLE)

HOME = "us-east-1:111111111111"
ORDERS, INVOICES = (f"arn:aws:lambda:{HOME}:function:{name}" for name in ("orders", "invoices"))
ROLES = ("arn:aws:iam::111111111111:role/orders", "arn:aws:iam::111111111111:role/app-*")
KEY = f"arn:aws:kms:{HOME}:key/11111111-2222-3333-4444-555555555555"
LOG_GROUP = f"arn:aws:logs:{HOME}:log-group:/aws/lambda/orders:*"
TOPIC = f"arn:aws:sns:{HOME}:alarms"

# The units of durations. Without one, they are in seconds.
UNITS = {"": 1, "s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60}


def seconds(duration: str) -> int:
    return int(duration.rstrip("smhd")) * UNITS[duration.lstrip("0123456789")]


def transformed(path: Path, parameters: Mapping[str, str] | None = None) -> Template:
    """Reads a template and its nested applications, after SAM's transform, which takes seconds."""
    made = transformed_once(path.resolve())
    return Template(made.document, parameters or {}, made.nested)


@functools.cache
def transformed_once(path: Path) -> Template:
    return transformed_document(read(path), path.parent)


def transformed_document(document: dict[str, Any], folder: Path) -> Template:
    """Applies SAM's transform to a document that belongs into this folder."""
    nested = {}
    for name, resource in document["Resources"].items():
        properties = resource.get("Properties", {})
        # The locations of code and of nested templates are not compared.
        if resource["Type"] == "AWS::Serverless::Application":
            nested[name] = transformed(folder / properties["Location"])
            properties["Location"] = "https://s3.amazonaws.com/bucket/key"
        elif "CodeUri" in properties:
            properties["CodeUri"] = "s3://bucket/key"
    os.environ["AWS_DEFAULT_REGION"] = PSEUDO_PARAMETERS["AWS::Region"]
    # No template here uses AWS's managed policies.
    return Template(transform(document, {}, SimpleNamespace(load=dict)), {}, nested)


def resources(template: Template) -> dict[str, Resource]:
    """The resources of a template by logical id. Those of nested stacks have a dot in their ids."""
    return {resource.token.strip("{}"): resource for resource in template.resources()}


def system_template(**parameters: str) -> Template:
    """The template of a system with two functions."""
    needed = {"TargetFunctions": f"{ORDERS},{INVOICES}", "TargetRoles": ",".join(ROLES)}
    return transformed(SYSTEM, needed | parameters)


def system(**parameters: str) -> dict[str, Resource]:
    return resources(system_template(**parameters))


def of_type(made: Mapping[str, Resource], kind: str) -> dict[str, dict[str, Any]]:
    return {name: resource.properties for name, resource in made.items() if resource.type == kind}


@functools.cache
def parameters_of(path: Path) -> dict[str, dict[str, Any]]:
    return read(path).get("Parameters", {})


# The maximum number of re-invocations, from the target's own policy, with every option of both packages switched on.
# examples.js does the same for CDK's example.
ATTEMPTS_MAX = 2

EVERYTHING = {
    "BaseBackoff": "2s",
    "MaxBackoff": "3h",
    "MaxAge": "7d",
    "MaxAttempts": "50",
    "Jitter": "equal",
    "NonRetryableErrors": "ValidationError,*NotFound",
    "Policies": {"Fn::Sub": f'{{"${{Orders}}":{{"MAX_AGE":"14d","MAX_ATTEMPTS":{ATTEMPTS_MAX}}}}}'},
    "Ledger": "true",
    "Register": "true",
    "Probe": "true",
    "KeyArn": {"Fn::GetAtt": ["Key", "Arn"]},
    "LogKeyArn": {"Fn::GetAtt": ["Key", "Arn"]},
    "EnvironmentKeyArn": {"Fn::GetAtt": ["Key", "Arn"]},
    "ReservedConcurrency": "25",
    "PermissionsBoundaryArn": {"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/PowerUserAccess"},
    "MaxConcurrency": "20",
    # The limit is so low that waits are kept as delays.
    "InFlightMax": "1",
    "LogRetentionDays": "7",
    "Tracing": "Active",
    "TicketTopicArn": {"Ref": "Tickets"},
    "HandlerThrottlesTrigger": "off",
}

ALARMS = json.loads((INFRA / "cdk/contract/alarms.json").read_text())


def parameter(only_with: str) -> str:
    """The parameter of what an alarm needs."""
    return only_with.title().replace("_", "")


# What alarms of functions and queues need.
NEEDED = {
    parameter(alarm["only_with"]): "true"
    for alarm in ALARMS.values()
    if "only_with" in alarm and alarm["of"] in ("target", "function")
}

ALARMS_OF_TARGET = {
    **NEEDED,
    "MaxAgeSeconds": "1209600",
    "TicketTopicArn": {"Ref": "Tickets"},
    "LatenessTrigger": "above 60000 in 2 of 3 periods of 900 s",
}

# IAM decides who may use the key, as with the construct's key. CloudWatch Logs may use it too.
KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}},
            "Action": "kms:*",
            "Resource": "*",
        },
        {
            "Effect": "Allow",
            "Principal": {"Service": {"Fn::Sub": "logs.${AWS::Region}.amazonaws.com"}},
            "Action": ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
            "Resource": "*",
        },
    ],
}
# S3 sends the notices of records to an encrypted queue.
KEY_FOR_NOTICES = {
    "Effect": "Allow",
    "Principal": {"Service": "s3.amazonaws.com"},
    "Action": ["kms:Decrypt", "kms:GenerateDataKey*"],
    "Resource": "*",
}


def with_records(document: dict[str, Any]) -> dict[str, Any]:
    """Lets the failures of this document's function go to a bucket, as in the example with records."""
    resources, example = document["Resources"], read(WITH_RECORDS)["Resources"]
    parameters = resources["Retry"]["Properties"]["Parameters"]
    # The function's own maximum age is 14 days.
    parameters |= {"Records": example["Retry"]["Properties"]["Parameters"]["Records"], "RecordsDays": "29"}
    resources["Key"]["Properties"]["KeyPolicy"]["Statement"].append(KEY_FOR_NOTICES)
    failures, of_records = (each["OrdersFailures"]["Properties"]["PolicyDocument"] for each in (resources, example))
    failures["Statement"] += of_records["Statement"]
    resources["OrdersEventInvokeConfig"] = example["OrdersEventInvokeConfig"]
    return document


def with_everything() -> dict[str, Any]:
    """The example's document with every option of both packages switched on, but records."""
    example = read(EXAMPLE)
    resources = example["Resources"]
    resources["Tickets"] = {"Type": "AWS::SNS::Topic"}
    resources["Key"] = {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": copy.deepcopy(KEY_POLICY)}}
    resources["Retry"]["Properties"]["Parameters"] |= EVERYTHING
    resources["OrdersAlarms"]["Properties"]["Parameters"] |= ALARMS_OF_TARGET
    # Senders to an encrypted queue, and receivers from it, need its key.
    for policy in ("OrdersFailures", "OperatorRedrive"):
        resources[policy]["Properties"]["PolicyDocument"]["Statement"].append(
            {
                "Effect": "Allow",
                "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
                "Resource": {"Fn::GetAtt": ["Key", "Arn"]},
            }
        )
    return example
