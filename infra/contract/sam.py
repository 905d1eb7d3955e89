"""The parameters of SAM's template, the values that it gives the handler, its table and its prices."""

import json
import re
from typing import Any

from costs import PRICES, dollars
from model import ALL_OPTIONS, HANDLER, OPTIONS, ROOT, SETTINGS, meaning, pascal
from text import WIDTH, shown, table, wrapped


def folded(key: str, text: str, indent: int) -> str:
    """Returns a member of a mapping whose value is a long text."""
    pad = " " * indent
    line = f"{pad}{key}: {text}"
    if len(line) <= WIDTH and ": " not in text:
        return line
    return "\n".join([f"{pad}{key}: >-", *wrapped(text, f"{pad}  ")])


def parameter(name: str, said: str, default: str, bounds: list[str], constraint: str) -> str:
    lines = [
        f"  {name}:",
        "    Type: String",
        folded("Description", said, 4),
        f"    Default: {default}",
        *(f"    {each}" for each in bounds),
        f"    ConstraintDescription: must be {constraint}",
    ]
    return "\n".join(lines)


def parameters_of_settings(scope: str) -> str:
    return "\n".join(parameter_of_setting(pascal(name), it) for name, it in OPTIONS[scope].items())


def parameter_of_setting(name: str, it: dict[str, Any]) -> str:
    said, constraint = meaning(it, pascal, ""), it["expected"]
    rules = [f"AllowedPattern: '{it['pattern']}'"]
    match it["type"]:
        case "duration":
            return parameter(name, said, it["default"], rules, constraint)
        case "choice":
            return parameter(name, said, it["default"], [f"AllowedValues: [{', '.join(it['options'])}]"], constraint)
        case "flag":
            rules = ['AllowedValues: ["true", "false"]']
            return parameter(name, said, f'"{json.dumps(it["default"])}"', rules, constraint)
        case "list":
            said += " Separated by commas."
            rules, constraint = ["MaxLength: 1024", *rules], f"{constraint}, at most 1024 characters"
        case "whole":
            said += f" Empty for {it['default'] or 'no limit'}."
        case "durations":
            said += " Separated by commas. Empty for none."
        case "pointer":
            said += " Empty for none."
    # The value of a parameter that is not set. A list has a pattern that takes it.
    if it["type"] != "list":
        rules = [f"AllowedPattern: '^({it['pattern'].strip('^$')})?$'"]
    return parameter(name, said, '""', rules, f"{constraint}, or empty")


# What replaces other settings, and is refused beside them.
REPLACING = {name: it for name, it in OPTIONS["policy"].items() if "instead_of" in it}


def rule(name: str, condition: str, assertion: str, description: str) -> str:
    return f"""  {name}:
    RuleCondition: {condition}
    Assertions:
      - Assert: {assertion}
        AssertDescription: {description}"""


def rules_of_settings() -> str:
    """Returns the rules about settings that need the ledger, or replace others."""
    rules = [
        rule(
            f"{pascal(name)}NeedsLedger",
            f'!Equals [!Ref {pascal(name)}, "true"]',
            '!Equals [!Ref Ledger, "true"]',
            f"Ledger must be true if {pascal(name)} is",
        )
        for name in ALL_OPTIONS
        if "needs" in SETTINGS[name]
    ]
    for name, it in REPLACING.items():
        others = [pascal(other) for other in it["instead_of"]]
        defaults = (f"!Equals [!Ref {pascal(other)}, {SETTINGS[other]['default']}]" for other in it["instead_of"])
        rules.append(
            rule(
                f"{pascal(name)}Or{'And'.join(others)}",
                f'!Not [!Equals [!Ref {pascal(name)}, ""]]',
                f"!And [{', '.join(defaults)}]",
                f"{' and '.join(others)} must have their defaults if {pascal(name)} is given",
            )
        )
    return "\n".join(rules)


def conditions_of_settings() -> str:
    return "\n".join(f'  Has{pascal(name)}: !Not [!Equals [!Ref {pascal(name)}, ""]]' for name in REPLACING)


def variables_of_settings() -> str:
    replaced = {other: name for name, it in REPLACING.items() for other in it["instead_of"]}

    def value(name: str) -> str:
        ref = f"!Ref {pascal(name)}"
        return f'!If [Has{pascal(replaced[name])}, "", {ref}]' if name in replaced else ref

    return "\n".join(f"          {name}: {value(name)}" for name in ALL_OPTIONS)


def key_of_table() -> str:
    """Returns the key of the ledger's table and the index of its register, for SAM."""
    table = HANDLER["table"]
    return f"""      AttributeDefinitions:
        - AttributeName: {table["key"]}
          AttributeType: S
        - AttributeName: {table["sort_key"]}
          AttributeType: S
        - !If [HasRegister, {{AttributeName: {table["index_key"]}, AttributeType: S}}, !Ref AWS::NoValue]
        - !If [HasRegister, {{AttributeName: {table["index_sort_key"]}, AttributeType: N}}, !Ref AWS::NoValue]
      KeySchema:
        - AttributeName: {table["key"]}
          KeyType: HASH
        - AttributeName: {table["sort_key"]}
          KeyType: RANGE
      TimeToLiveSpecification:
        Enabled: true
        AttributeName: {table["expiry"]}
      # Lists waiting events by their function and due time. It is empty while nothing waits.
      GlobalSecondaryIndexes: !If
        - HasRegister
        - - IndexName: {table["index"]}
            KeySchema:
              - AttributeName: {table["index_key"]}
                KeyType: HASH
              - AttributeName: {table["index_sort_key"]}
                KeyType: RANGE
            Projection:
              ProjectionType: ALL
        - !Ref AWS::NoValue"""


def prices(names: tuple[str, ...], indent: int) -> str:
    """Returns the dollars for one unit of each price, as variables of the dashboard's text."""

    def price(name: str) -> str:
        return dollars(name) + (" / 1000000" if PRICES[name]["unit"] == "million" else "")

    return "\n".join(f'{" " * indent}{pascal(name)}: "{price(name)}"' for name in names)


def table_of_parameters() -> str:
    text = (ROOT / "infra/sam/template.yaml").read_text()
    text = re.search(r"\nParameters:\n(.*?)^[A-Z]\w+:$", text, re.MULTILINE | re.DOTALL)[1]
    rows = []
    for name, body in re.findall(r"^  (\w+):\n((?:    .*\n|\n)+)", text, re.MULTILINE):
        if not name.endswith("Trigger"):
            said = re.search(r"^    Description: (?:>-\n((?:      .*\n)+)|(.*)\n)", body, re.MULTILINE)
            default = re.search(r"^    Default: (.*)$", body, re.MULTILINE)
            description = " ".join((said[1] or said[2]).split()).strip('"') if said else ""
            rows.append((f"`{name}`", shown(default and default[1].strip('"')), description))
    return table("parameter | default | meaning", rows)
