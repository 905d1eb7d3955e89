"""Helpers for tests of the templates of infra/sam and their resources."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sam
from template import Resource, Template

INFRA = Path(__file__).resolve().parents[2] / "infra"
SYSTEM = INFRA / "sam" / "template.yaml"
TARGET_ALARMS = INFRA / "sam" / "target-alarms.yaml"
EXAMPLE = sam.EXAMPLE
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


def resources(template: Template) -> dict[str, Resource]:
    """The resources of a template by logical id. Those of nested stacks have a dot in their ids."""
    return {resource.token.strip("{}"): resource for resource in template.resources()}


def system_template(**parameters: str) -> Template:
    """The template of a system with two functions."""
    needed = {"TargetFunctions": f"{ORDERS},{INVOICES}", "TargetRoles": ",".join(ROLES)}
    return sam.transformed(SYSTEM, needed | parameters)


def system(**parameters: str) -> dict[str, Resource]:
    """The system with two functions."""
    return resources(system_template(**parameters))


def of_type(made: Mapping[str, Resource], kind: str) -> dict[str, dict[str, Any]]:
    """The properties of all resources of a type."""
    return {name: resource.properties for name, resource in made.items() if resource.type == f"AWS::{kind}"}


def parameters_of(path: Path) -> dict[str, dict[str, Any]]:
    """The parameters of a template."""
    return sam.read(path).get("Parameters", {})
