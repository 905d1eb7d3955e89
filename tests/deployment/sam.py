"""Reads SAM's templates and transforms them as CloudFormation would, without uploading code."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from documents import read
from samtranslator.translator.transform import transform
from template import PSEUDO_PARAMETERS, Resource, Template

APPLICATION = "AWS::Serverless::Application"
# A placeholder for the location of code, which is not compared.
UPLOADED = "s3://bucket/key"


# The transformer publishes metrics of its own, and each transform would log that this was not possible.
logging.getLogger("samtranslator.metrics").setLevel(logging.ERROR)


INFRA = Path(__file__).resolve().parents[2] / "infra"
SYSTEM = INFRA / "sam" / "template.yaml"
TARGET_ALARMS = INFRA / "sam" / "target-alarms.yaml"
EXAMPLE = INFRA / "sam" / "example" / "template.yaml"
TEMPLATES = (SYSTEM, TARGET_ALARMS, EXAMPLE)

HOME = "us-east-1:111111111111"
ORDERS, INVOICES = (f"arn:aws:lambda:{HOME}:function:{name}" for name in ("orders", "invoices"))
ROLES = ("arn:aws:iam::111111111111:role/orders", "arn:aws:iam::111111111111:role/app-*")
KEY = f"arn:aws:kms:{HOME}:key/11111111-2222-3333-4444-555555555555"
LOG_GROUP = f"arn:aws:logs:{HOME}:log-group:/aws/lambda/orders:*"
TOPIC = f"arn:aws:sns:{HOME}:alarms"
RETRY_QUEUE = f"arn:aws:sqs:{HOME}:{{RetryQueue}}"
DEAD_LETTER_QUEUE = f"arn:aws:sqs:{HOME}:{{DeadLetterQueue}}"
HANDLER_ROLE = "arn:aws:iam::111111111111:role/{HandlerRole}"

DAY = 24 * 60 * 60


def transformed(path: Path, parameters: Mapping[str, str] | None = None) -> Template:
    """Reads a template and its nested applications, after SAM's transform."""
    return transformed_document(read(path), path.parent, parameters)


def transformed_document(
    document: dict[str, Any], folder: Path, parameters: Mapping[str, str] | None = None
) -> Template:
    """Applies SAM's transform to a document that belongs into this folder."""
    nested = {}
    for name, resource in document["Resources"].items():
        properties = resource.get("Properties", {})
        if resource["Type"] == APPLICATION:
            nested[name] = transformed(folder / properties["Location"])
            properties["Location"] = "https://s3.amazonaws.com/bucket/key"
        elif "CodeUri" in properties:
            properties["CodeUri"] = UPLOADED
    os.environ["AWS_DEFAULT_REGION"] = PSEUDO_PARAMETERS["AWS::Region"]
    return Template(transform(document, {}, _NoManagedPolicies()), parameters or {}, nested)


class _NoManagedPolicies:
    """Replaces the list of AWS's managed policies, which no template here uses."""

    def load(self) -> dict[str, str]:
        """None."""
        return {}


def resources(template: Template) -> dict[str, Resource]:
    """The resources of a template by logical id. Those of nested stacks have a dot in their ids."""
    return {resource.token.strip("{}"): resource for resource in template.resources()}


def system_template(**parameters: str) -> Template:
    """The template of a system with two functions."""
    needed = {"TargetFunctions": f"{ORDERS},{INVOICES}", "TargetRoles": ",".join(ROLES)}
    return transformed(SYSTEM, needed | parameters)


def system(**parameters: str) -> dict[str, Resource]:
    """The system with two functions."""
    return resources(system_template(**parameters))


def of_type(made: Mapping[str, Resource], kind: str) -> dict[str, dict[str, Any]]:
    """The properties of all resources of a type."""
    return {name: resource.properties for name, resource in made.items() if resource.type == f"AWS::{kind}"}


def parameters_of(path: Path) -> dict[str, dict[str, Any]]:
    """The parameters of a template."""
    return read(path).get("Parameters", {})
