"""Renders the policies of SAM's template into docs/review.md, for people who must read them before they deploy.

tests/deployment/run-templates --review writes them, and test_sam_review.py compares them.
"""

import json
from pathlib import Path
from typing import Any

from sam import ORDERS, ROLES, system

PAGE = Path(__file__).resolve().parents[2] / "docs/review.md"
BEGIN, END = "<!-- generated: policies, by tests/deployment/review.py -->\n", "<!-- end: policies -->\n"
OPERATOR = "arn:aws:iam::111111111111:role/on-call"
PARAMETERS = {
    "TargetFunctions": ORDERS,
    "TargetRoles": ROLES[0],
    "Ledger": "true",
    "Register": "true",
    "Probe": "true",
    "Records": "true",
    "OperatorPrincipals": OPERATOR,
}
# The policies, in the order in which a reviewer asks for them: the logical id and what it is.
SHOWN = {
    "HandlerRole": "The role of the handler",
    "RetryQueuePolicy": "The retry queue",
    "DeadLetterQueuePolicy": "The dead-letter queue",
    "RecordsBucketPolicy": "The bucket of records",
    "ReadPolicy": "People who read",
    "OperatePolicy": "People who operate",
}


def documents(properties: dict[str, Any]) -> list[dict[str, Any]]:
    """The policies of a resource: its own, or those of a role."""
    inline = [each["PolicyDocument"] for each in properties.get("Policies", [])]
    own = [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
    trust = [properties["AssumeRolePolicyDocument"]] if "AssumeRolePolicyDocument" in properties else []
    return trust + inline + own


def policies() -> str:
    made = system(**PARAMETERS)
    having = {name for name, resource in made.items() if documents(resource.properties)}
    if unknown := having - SHOWN.keys():
        raise ValueError(f"docs/review.md shows no policy of {sorted(unknown)}: add them to review.py")
    parts = []
    for name, said in SHOWN.items():
        parts.append(f"### {said}\n")
        parts += [f"```json\n{json.dumps(each, indent=2)}\n```\n" for each in documents(made[name].properties)]
    return "\n".join(parts)


def page() -> str:
    """The page as it should be."""
    before, rest = PAGE.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n{policies()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page())
