"""The variables of Terraform's module, the values that it gives the handler, and its tables."""

import json
import re
from collections.abc import Iterable
from typing import Any

from model import ALARMS, OF_ERRORS, OPTIONS, ROOT, SWITCHES, meaning
from text import table

# The types of the variables, by the types of the settings.
TYPES = {
    "duration": "string",
    "durations": "list(string)",
    "whole": "number",
    "choice": "string",
    "flag": "bool",
    "list": "list(string)",
    "pointer": "string",
}


def attributes(settings: dict[str, dict[str, Any]], indent: int = 4) -> str:
    policy = {name.lower(): TYPES[it["type"]] for name, it in settings.items()}
    width = max(map(len, policy))
    return "\n".join(f"{' ' * indent}{name:{width}} = optional({kind})" for name, kind in policy.items())


def attributes_of_function() -> str:
    """Returns what a function has of its own. A list keeps the order of its errors, which an object doesn't."""
    width = max(map(len, OF_ERRORS))
    of_errors = f"      {'type':{width}} = string\n{attributes(OF_ERRORS, 6)}"
    return f"{attributes(OPTIONS['policy'])}\n    errors = optional(list(object({{\n{of_errors}\n    }})), [])"


def variables(scope: str) -> str:
    blocks = []
    for name, it in OPTIONS[scope].items():
        said = meaning(it, str.lower)
        default = "[]" if it["type"] in ("list", "durations") else json.dumps(it.get("default"))
        lines = [
            f'variable "{name.lower()}" {{',
            f"  description = {json.dumps(said)}",
            f"  type        = {TYPES[it['type']]}",
            f"  default     = {default}",
            *(["  nullable    = false"] if default != "null" else []),
            "}",
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def functions_only() -> str:
    """Returns the validation that a queue has none of the settings that are about functions only."""
    names = [name.lower() for name, it in OPTIONS["policy"].items() if "functions_only" in it]
    condition = " && ".join(f"it.{name} == null" for name in names)
    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    return f"""  validation {{
    condition     = alltrue([for it in values(var.queues) : {condition}])
    error_message = "A queue must have no {listed}: SQS doesn't say why a consumer failed, and invokes nothing."
  }}"""


def values(names: Iterable[str], of: str, indent: int) -> str:
    width = max(map(len, names))
    return "\n".join(f"{' ' * indent}{name:{width}} = {of}.{name.lower()}" for name in names)


def switches() -> str:
    """Returns what is switched on in a system, by name."""
    width = max(map(len, SWITCHES))
    return "\n".join(f"    {name:{width}} = var.{name}" for name in SWITCHES)


def names_of_alarms() -> str:
    return "\n".join(f'          "{name}",' for name in ALARMS)


def table_of_blocks(kind: str, head: str) -> str:
    text = "".join((ROOT / f"infra/terraform/{file}.tf").read_text() for file in ("variables", "outputs"))
    rows = []
    for name, body in re.findall(rf'^{kind} "(\w+)" {{\n(.*?)^}}', text, re.MULTILINE | re.DOTALL):
        description = r'^  description += "([^\n]*)"$|^  description += <<-EOT\n(.*?)^ *EOT$'
        said = re.search(description, body, re.MULTILINE | re.DOTALL)
        is_required = not re.search(r"^  default +=", body, re.MULTILINE)
        required = ["required" if is_required else ""] if kind == "variable" else []
        rows.append((f"`{name}`", *required, " ".join((said[1] or said[2]).split()) if said else ""))
    return table(head, rows)
