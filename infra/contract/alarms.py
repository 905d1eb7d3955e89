"""What an alarm may be about and may need, and the mistakes in alarms.json with which it would be missing or idle."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

# What an alarm is about, as documents call it. There is one alarm for each.
SUBJECTS = {
    "region": "region",
    "dead_letter_queue": "dead-letter queue",
    "handler": "handler",
    "queue": "retry queue",
    "target": "function or queue",
    "function": "function",
}
SEVERITIES = ("page", "ticket")
# CDK's gradual deployments have an alarm of their own.
OF_CDK = "DeploymentErrors"


def faults(alarms: Mapping[str, Mapping[str, Any]], switches: Iterable[str], runbook: str) -> list[str]:
    """Returns the words in alarms that nobody knows, and which alarms and sections of the runbook lack the other.

    An alarm may need one of the switches.
    """
    known = {"of": SUBJECTS, "severity": SEVERITIES, "only_with": switches}
    unknown = [
        f"alarms.json: {key} of {name} must be one of {', '.join(known[key])}, got {json.dumps(alarm.get(key))}"
        for name, alarm in alarms.items()
        for key in known
        if alarm.get(key) not in known[key] and (key in alarm or key != "only_with")
    ]
    sections = re.findall(r"^### (\w+)$", runbook, re.MULTILINE)
    missing = [f"docs/runbook.md must have a section '### {name}'" for name in alarms if name not in sections]
    idle = [
        f"docs/runbook.md has a section '### {name}', but there is no such alarm"
        for name in sections
        if name not in (*alarms, OF_CDK)
    ]
    return unknown + missing + idle
