"""The parameters of SAM's template, the values that it gives the handler, its table and its prices."""

import json
import re
import sys

from costs import dollars
from model import ALL_OPTIONS, HANDLER, OPTIONS, ROOT, meaning, pascal
from patterns import pattern
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
    made = []
    for name, it in OPTIONS[scope].items():
        said, default = meaning(it, pascal, ""), '""'
        match it["type"]:
            case "duration":
                default = it["default"]
                rules = [f"AllowedPattern: '{pattern(it)}'"]
                constraint = f"a duration such as 15m, from {it['min']} to {it['max']}"
            case "durations":
                said += " Separated by commas. Empty for none."
                rules = [f"AllowedPattern: '{pattern(it)}'"]
                constraint = f"durations such as {it['example']}, from {it['min']} to {it['max']}, or empty"
            case "whole":
                said += f" Empty for {it['default'] or 'no limit'}."
                rules = [f"AllowedPattern: '{pattern(it)}'"]
                constraint = f"a whole number from 1 to {it['max']}, or empty"
            case "choice" | "flag":
                options = it.get("options", ['"true"', '"false"'])
                default = it["default"] if it["type"] == "choice" else f'"{json.dumps(it["default"])}"'
                rules = [f"AllowedValues: [{', '.join(options)}]"]
                constraint = f"{', '.join(options[:-1])} or {options[-1]}".replace('"', "")
            case "pointer":
                said += " Empty for none."
                rules = [f"AllowedPattern: '^({it['pattern'].strip('^$')})?$'"]
                constraint = "a JSON pointer such as /tenant/id, or empty"
            case "list":
                said += " Separated by commas."
                rules = ["MaxLength: 1024", "AllowedPattern: '^([^,\\s]+(, ?[^,\\s]+)*)?$'"]
                constraint = "texts separated by commas, at most 1024 characters, or empty"
        made.append(parameter(pascal(name), said, default, rules, constraint))
    return "\n".join(made)


def variables_of_settings() -> str:
    replaced = {other: name for name in ALL_OPTIONS for other in OPTIONS["policy"].get(name, {}).get("instead_of", [])}

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


# Where SAM's dashboard has prices. It is JSON in YAML, which has no comments.
PRICED = (
    (r"(?<=i \* )[\d.]+(?= / 1000000)", "lambda_request"),
    (r"(?<=1024 \* )[\d.]+", "gb_second"),
    (r"(?<=b / 1000000000 \* )[\d.]+", "gb_of_log"),
    (r"(?<=e\) \* )[\d.]+(?= / 1000000)", "sqs_request"),
    (r"(?<=w \* )[\d.]+(?= / 1000000)", "write_of_dynamodb"),
)


def priced(template: str) -> str:
    """Returns SAM's template with the prices on its dashboard."""
    for place, name in PRICED:
        template, found = re.subn(place, dollars(name), template)
        if found != 1:
            sys.exit(f"infra/sam/template.yaml: expected one place for the price {name}, found {found}")
    return template


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
