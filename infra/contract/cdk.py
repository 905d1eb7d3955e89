"""The properties of CDK's construct, and their table."""

import json
import re

from model import OF_ERRORS, OPTIONS, ROOT, camel, meaning
from text import shown, table, wrapped

# The types of the properties, by the types of the settings.
TYPES = {
    "duration": "Duration",
    "durations": "Duration[]",
    "whole": "number",
    "choice": "Jitter",
    "flag": "boolean",
    "list": "string[]",
    "pointer": "string",
}


def properties_of_errors() -> str:
    blocks = []
    for name, it in OF_ERRORS.items():
        comment = [*wrapped(meaning(it, camel), "   * "), "   *", "   * @default - that of the function"]
        declared = f"  readonly {camel(name)}?: {TYPES[it['type']]};"
        blocks.append("\n".join(["  /**", *comment, "   */", declared]))
    return "\n\n".join(blocks)


def properties(scope: str) -> str:
    blocks = []
    for name, it in OPTIONS[scope].items():
        said, default = meaning(it, camel), it.get("default")
        match it["type"]:
            case "duration":
                unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[default[-1]]
                default = f"Duration.{unit}({default[:-1]})"
            case "whole":
                default = default or "- no limit"
            case "choice":
                default = f"Jitter.{default.upper()}"
            case "flag":
                default = json.dumps(default)
            case _:
                default = "- none"
        comment = [*wrapped(said, "   * "), "   *", f"   * @default {default}"]
        declared = f"  readonly {camel(name)}?: {TYPES[it['type']]};"
        blocks.append("\n".join(["  /**", *comment, "   */", declared]))
    return "\n\n".join(blocks)


def table_of_properties() -> str:
    rows = []
    for file in ("retry-policy", "props", "hardening"):
        text = (ROOT / f"infra/cdk/lib/{file}.ts").read_text()
        text = re.split(r"export interface (?:AttachOptions|ErrorPolicy) ", text)[0]
        for comment, name in re.findall(r"^  /\*\*((?:(?!\*/)[\s\S])+)\*/\n  readonly (\w+)\?:", text, re.MULTILINE):
            said, _, default = re.sub(r"\s*\n   \* ?", " ", comment).partition("@default")
            default = " ".join(default.split())
            value = default[2:] if default.startswith("- ") else shown(default)
            rows.append((f"`{name}`", value, " ".join(said.split())))
    return table("property | default | meaning", rows)
