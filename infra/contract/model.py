"""The contract as data, and how deployments and documents name and describe its settings.

`infra/cdk/contract/alarms.json` is written by hand. The rest is what the handler knows of itself: it prints its own
tables.
"""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from patterns import form

ROOT = Path(__file__).resolve().parents[2]

ALARMS: dict[str, dict[str, Any]] = json.loads((ROOT / "infra/cdk/contract/alarms.json").read_text())
HANDLER = json.loads(
    subprocess.run(
        ["cargo", "run", "--quiet", "--locked", "--package", "comeback-core", "--example", "contract"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
)


def is_option(setting: dict[str, Any]) -> bool:
    """Whether a deployment has an option for a setting, under a name of its own."""
    return setting["scope"] in ("policy", "handler") and "alias_of" not in setting


SETTINGS: dict[str, dict[str, Any]] = {
    setting.pop("name"): dict(sorted((setting | (form(setting) if is_option(setting) else {})).items()))
    for setting in HANDLER["settings"]
}
# The options, by the scopes of their settings.
OPTIONS = {
    scope: {name: it for name, it in SETTINGS.items() if it["scope"] == scope and is_option(it)}
    for scope in ("policy", "handler")
}
# The settings that an error can have of its own.
OF_ERRORS = {name: it for name, it in OPTIONS["policy"].items() if "for_errors" in it}
ALL_OPTIONS = [name for name in SETTINGS if any(name in of_scope for of_scope in OPTIONS.values())]
# What may be switched on in a system, by Terraform's names: the ledger, which is a table, and the handler's flags. An
# alarm may need one of them.
SWITCHES = [
    "ledger",
    # Deployments take a switch that isn't set for one that is off.
    *(name.lower() for name, it in OPTIONS["handler"].items() if it["type"] == "flag" and not it["default"]),
]


def pascal(name: str) -> str:
    """Returns the name of a setting as SAM's parameter."""
    return name.title().replace("_", "")


def camel(name: str) -> str:
    """Returns the name of a setting as CDK's property."""
    return name[0].lower() + pascal(name)[1:]


def meaning(it: dict[str, Any], spelt: Callable[[str], str], quote: str = "`") -> str:
    """Returns what a setting means as a sentence, with settings by the names that a deployment gives them."""

    def named(found: re.Match[str]) -> str:
        name = "LEDGER" if found[1] == "LEDGER_TABLE" else found[1]
        return quote + (spelt(name) if name in SETTINGS or name == "LEDGER" else name) + quote

    text = it["meaning"] + (f". Needs `{it['needs']}`" if "needs" in it else "") + bounds(it)
    text = re.sub(r"`([^`]+)`", named, text)
    return f"{text[0].upper()}{text[1:]}."


# The largest whole number that the handler reads: no bound of a setting's own.
WHOLE_MAX = 2**32 - 1


def bounds(it: dict[str, Any]) -> str:
    """Returns the values that a duration or a number accepts, if it has bounds of its own."""
    match it["type"]:
        case "duration":
            least = f"`{it['at_least']}`" if "at_least" in it else it["min"]
        case "durations":
            return f"; each from {it['min']} to {it['max']}"
        case "whole" if it["max"] < WHOLE_MAX:
            least = 1
        case _:
            return ""
    return f"; from {least} to {it['max']}"
