#!/usr/bin/env python3
"""Writes the parts of templates and documents that repeat the contract.

    infra/contract/generate.py            writes them
    infra/contract/generate.py --check    fails if one of them is stale

`infra/cdk/contract` is the contract as data: alarms.json and prices.json are written by hand, settings.json has the
handler's own table of its settings, and table.json the names in the ledger's table. CDK and Terraform read them. What
can't read has its part between two lines that name the part.
"""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PRICES: dict[str, dict[str, Any]] = json.loads((ROOT / "infra/cdk/contract/prices.json").read_text())
ALARMS: dict[str, dict[str, Any]] = json.loads((ROOT / "infra/cdk/contract/alarms.json").read_text())

HANDLER = json.loads(
    subprocess.run(
        ["cargo", "run", "--quiet", "--locked", "--package", "comeback-core", "--example", "contract"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
)
SETTINGS: dict[str, dict[str, Any]] = {
    setting["name"]: {key: value for key, value in setting.items() if key != "name"} for setting in HANDLER["settings"]
}
# The settings that a deployment has options for, under names of their own.
OPTIONS = {name: it for name, it in SETTINGS.items() if it["scope"] in ("policy", "handler") and "alias_of" not in it}

WIDTH = 120
PERIODS = (10, 30, 60, 300, 900, 1800, 3600, 21600, 86400)
NUMBER = "[0-9]{1,12}([.][0-9]{1,6})?"
PATTERN = (
    f"^(off|above {NUMBER} in [1-9][0-9]{{0,2}} of [1-9][0-9]{{0,2}} periods of ({'|'.join(map(str, PERIODS))}) s)$"
)
CONSTRAINT = (
    "must be off, or like 'above 0 in 1 of 3 periods of 300 s', with periods of "
    f"{', '.join(map(str, PERIODS[:-1]))} or {PERIODS[-1]} s"
)

# The values of dimensions, and the variables in names and expressions, in SAM's templates.
DIMENSIONS = {
    ("dead_letter_queue", "QueueName"): "!GetAtt DeadLetterQueue.QueueName",
    ("queue", "QueueName"): "!GetAtt RetryQueue.QueueName",
    ("handler", "FunctionName"): "!Ref Handler",
    ("handler", "LogGroupName"): "!Ref HandlerLog",
    ("function", "FunctionName"): "!Ref TargetFunction",
    ("target", "Target"): "!Ref TargetFunction",
    ("function", "Target"): "!Ref TargetFunction",
}
VARIABLES = {
    "${handler}": "${Handler}",
    "${max_age_seconds}": "${MaxAgeSeconds}",
    "${in_flight_max}": "${InFlightMaxOrDefault}",
}
IN_FLIGHT_MAX = (
    f"- InFlightMaxOrDefault: !If [HasInFlightMax, !Ref InFlightMax, {SETTINGS['IN_FLIGHT_MAX']['default']}]"
)


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

    text = it["meaning"] + (f". Needs `{it['needs']}`" if "needs" in it else "")
    text = re.sub(r"`([^`]+)`", named, text)
    return f"{text[0].upper()}{text[1:]}."


def bounds(it: dict[str, Any], spelt: Callable[[str], str], quote: str = "`") -> str:
    """Returns the values that a duration accepts."""
    least = f"{quote}{spelt(it['at_least'])}{quote}" if "at_least" in it else it["min"]
    return f"from {least} to {it['max']}"


def numbers(low: int, high: int) -> str:
    """Returns a regular expression for the whole numbers in a range that begins below 10."""
    digits = len(str(high))
    parts = [
        f"[{low}-9]" if low > 1 else "",
        f"[1-9][0-9]{{{int(low > 1)},{digits - 2}}}" if digits > 1 + (low > 1) else "",
    ]
    if digits == 1:
        return f"[{low}-{high}]"
    return "|".join([part for part in parts if part] + same_length("1" + "0" * (digits - 1), str(high)))


def same_length(low: str, high: str) -> list[str]:
    """Returns regular expressions for the numbers in a range of numbers that have the same length."""
    if len(low) == 1:
        return [low if low == high else f"[{low}-{high}]"]
    rest = len(low) - 1
    any_rest = "[0-9]" + (f"{{{rest}}}" if rest > 1 else "")
    if low[1:] == "0" * rest and high[1:] == "9" * rest:
        return [(low[0] if low[0] == high[0] else f"[{low[0]}-{high[0]}]") + any_rest]
    if low[0] == high[0]:
        return [low[0] + part for part in same_length(low[1:], high[1:])]
    below = str(int(high[0]) - 1)
    full = (low[0] if low[0] == below else f"[{low[0]}-{below}]") + any_rest
    return [full, *same_length(high[0] + "0" * rest, high)]


SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration: str) -> int:
    """Returns the seconds of a duration such as 15m."""
    return int(duration[:-1]) * SECONDS_PER_UNIT[duration[-1]]


def pattern(it: dict[str, Any]) -> str:
    """Returns the regular expression for the values of a setting."""
    if it["type"] == "whole":
        return f"^({numbers(1, it['max'])})?$"
    units = []
    for unit, per_unit in SECONDS_PER_UNIT.items():
        (low, high) = (-(-seconds(it["min"]) // per_unit), seconds(it["max"]) // per_unit)
        if high:
            units.append(f"({numbers(low, high)}){unit}{'?' if unit == 's' else ''}")
    return f"^({'|'.join(units)})$"


def parameters_of_settings(scope: str) -> str:
    """Returns SAM's parameters of settings."""
    lines = []
    for name, it in OPTIONS.items():
        if it["scope"] != scope:
            continue
        said = meaning(it, pascal, "")
        lines += [f"  {pascal(name)}:", "    Type: String"]
        match it["type"]:
            case "duration":
                lines += [
                    folded("Description", f"{said[:-1]}; {bounds(it, pascal, '')}.", 4),
                    f"    Default: {it['default']}",
                    f"    AllowedPattern: '{pattern(it)}'",
                    f"    ConstraintDescription: must be a duration such as 15m, from {it['min']} to {it['max']}",
                ]
            case "whole":
                empty = f" Empty for {it['default']}." if it["default"] else " Empty for no limit."
                lines += [
                    folded("Description", said + empty, 4),
                    '    Default: ""',
                    f"    AllowedPattern: '{pattern(it)}'",
                    f"    ConstraintDescription: must be a whole number from 1 to {it['max']}, or empty",
                ]
            case "choice" | "flag":
                options = it.get("options", ['"true"', '"false"'])
                lines += [
                    folded("Description", said, 4),
                    "    Default: " + it.get("default", '"false"'),
                    f"    AllowedValues: [{', '.join(options)}]",
                    f"    ConstraintDescription: must be {', '.join(options[:-1])} or {options[-1]}".replace('"', ""),
                ]
            case "pointer":
                lines += [
                    folded("Description", f"{said[:-1]}. Empty for none.", 4),
                    '    Default: ""',
                    f"    AllowedPattern: '^({it['pattern'].strip('^$')})?$'",
                    "    ConstraintDescription: must be a JSON pointer such as /tenant/id, or empty",
                ]
            case "list":
                lines += [
                    folded("Description", f"{said[:-1]}. Separated by commas.", 4),
                    '    Default: ""',
                    "    MaxLength: 1024",
                    "    AllowedPattern: '^([^,\\s]+(, ?[^,\\s]+)*)?$'",
                    "    ConstraintDescription: must be texts separated by commas, at most 1024 characters, or empty",
                ]
    return "\n".join(lines)


def variables_of_settings() -> str:
    """Returns the handler's variables in SAM's template."""
    return "\n".join(f"          {name}: !Ref {pascal(name)}" for name in OPTIONS)


def wrapped(text: str, prefix: str) -> list[str]:
    """Returns the lines of a comment."""
    return textwrap.wrap(text, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)


def properties(scope: str) -> str:
    """Returns CDK's properties of settings."""
    blocks = []
    for name, it in OPTIONS.items():
        if it["scope"] != scope:
            continue
        said = meaning(it, camel)
        (kind, default) = {
            "duration": ("Duration", it.get("default")),
            "whole": ("number", str(it.get("default") or "- no limit")),
            "choice": ("Jitter", f"Jitter.{str(it.get('default')).upper()}"),
            "flag": ("boolean", "false"),
            "list": ("string[]", "- none"),
            "pointer": ("string", "- none"),
        }[it["type"]]
        if it["type"] == "duration":
            said = f"{said[:-1]}; {bounds(it, camel)}."
            (unit, count) = ({"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[default[-1]], default[:-1])
            default = f"Duration.{unit}({count})"
        blocks.append(
            "\n".join(
                [
                    "  /**",
                    *wrapped(said, "   * "),
                    "   *",
                    f"   * @default {default}",
                    "   */",
                    f"  readonly {camel(name)}?: {kind};",
                ]
            )
        )
    return "\n\n".join(blocks)


# The type of a setting in Terraform.
HCL_TYPES = {
    "duration": "string",
    "whole": "number",
    "choice": "string",
    "flag": "bool",
    "list": "list(string)",
    "pointer": "string",
}


def attributes() -> str:
    """Returns the attributes of a target's own policy in Terraform."""
    policy = {name.lower(): HCL_TYPES[it["type"]] for name, it in OPTIONS.items() if it["scope"] == "policy"}
    width = max(map(len, policy))
    return "\n".join(f"    {name:{width}} = optional({kind})" for name, kind in policy.items())


def variables(scope: str) -> str:
    """Returns Terraform's variables of settings."""
    blocks = []
    for name, it in OPTIONS.items():
        if it["scope"] != scope:
            continue
        said = meaning(it, str.lower)
        default = {"flag": "false", "list": "[]"}.get(it["type"]) or json.dumps(it.get("default"))
        if it["type"] == "duration":
            said = f"{said[:-1]}; {bounds(it, str.lower)}."
        lines = [
            f'variable "{name.lower()}" {{',
            f"  description = {json.dumps(said)}",
            f"  type        = {HCL_TYPES[it['type']]}",
            f"  default     = {default}",
            *(["  nullable    = false"] if default != "null" else []),
            "}",
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def values(own: bool) -> str:
    """Returns the values of settings in Terraform: those of all targets, or of one."""
    names = [name for name, it in OPTIONS.items() if not own or it["scope"] == "policy"]
    width = max(map(len, names))
    pad = " " * (8 if own else 6)
    of = "target" if own else "var"
    return "\n".join(f"{pad}{name:{width}} = {of}.{name.lower()}" for name in names)


def table_of_settings() -> str:
    """Returns the table of all settings."""
    rows = []
    for name, it in SETTINGS.items():
        said = it["meaning"]
        match it["type"]:
            case "duration":
                (default, said) = (f"`{it['default']}`", f"{said}; {bounds(it, str)}")
            case "flag":
                (default, said) = (
                    "`false`",
                    f"`true` or `false`: {said}" + (f"; needs `{it['needs']}`" if "needs" in it else ""),
                )
            case "choice" | "whole":
                default = f"`{it['default']}`" if it["default"] else "none"
            case "list":
                (default, said) = (it["default"] or "none", f"{said}; separated by commas")
            case "pointer":
                default = "none"
            case "json":
                (default, said) = ("none", f"JSON: {said}, `{it['example']}`")
            case _:
                default = "required" if it["is_required"] else it["default"] or "none"
        page = f" ([more]({it['page']}))" if "page" in it else ""
        rows.append(f"| `{name}` | {default} | {said}{page} |")
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


def table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Returns a table."""
    columns = "|".join("---" for _ in head.split(" | "))
    return "\n".join([f"| {head} |", f"|{columns}|", *(f"| {' | '.join(row)} |" for row in rows)])


def table_of_metrics() -> str:
    """Returns the handler's metrics."""
    rows = [(f"`{name}`", unit.lower(), meaning) for name, unit, meaning in HANDLER["metrics"]]
    return table("metric | unit | meaning", rows)


def table_of_fields() -> str:
    """Returns the fields of the handler's log."""
    return table("field | meaning", [(f"`{name}`", meaning) for name, meaning in HANDLER["log_fields"]])


def table_of_reasons() -> str:
    """Returns the reasons of dead letters, each with a link to its section."""
    rows = [(f"[`{name}`](#{name})", later, cause) for name, later, cause in HANDLER["reasons"]]
    rows.append(("[none](#no-reason)", "yes", "the handler failed for days"))
    return table("reason | may succeed later | usual cause", rows)


def key_of_table() -> str:
    """Returns the key of the ledger's table and the index of its register, for SAM."""
    table = HANDLER["table"]
    return f"""      AttributeDefinitions:
        - AttributeName: {table["key"]}
          AttributeType: S
        - !If [HasRegister, {{AttributeName: {table["index_key"]}, AttributeType: S}}, !Ref AWS::NoValue]
        - !If [HasRegister, {{AttributeName: {table["index_sort_key"]}, AttributeType: N}}, !Ref AWS::NoValue]
      KeySchema:
        - AttributeName: {table["key"]}
          KeyType: HASH
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


def dollars(name: str) -> str:
    """Returns a price in digits."""
    return f"{PRICES[name]['dollars']:.10f}".rstrip("0")


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


def prices_of_retries() -> str:
    """Returns what `comeback simulate` knows of infra/COST.md: the last column of some rows."""
    page = (ROOT / "infra/COST.md").read_text()

    def row(name: str) -> str:
        found = re.search(rf"^\| {name} \|.*\$([\d.]+) \|$", page, re.MULTILINE)
        return found[1] if found else sys.exit(f"infra/COST.md: expected a row {name!r}")

    rows = (
        ("The price of a million retries", "RETRIES", "retries"),
        ("A million further hops of waits that one visibility timeout can't cover", "HOPS", "waits more"),
        ("A million dead letters", "DEAD_LETTERS", "dead letters"),
    )
    lines = []
    for said, name, kind in rows:
        lines += [
            f"/// {said}, in batches of ten and in batches of one.",
            f"const {name}: [f64; 2] = [{row(f'{kind}, busy')}, {row(f'{kind}, quiet')}];",
        ]
    return "\n".join(
        [
            *lines,
            "/// A million requests of Lambda.",
            f"const REQUESTS: f64 = {dollars('lambda_request')};",
            "/// A second of Lambda with a GB of memory, on arm64.",
            f"const GB_SECOND: f64 = {rust_digits(dollars('gb_second'))};",
        ]
    )


def rust_digits(number: str) -> str:
    """Returns a number with its digits after the point in groups of three."""
    whole, fraction = number.split(".")
    return f"{whole}.{'_'.join(fraction[at : at + 3] for at in range(0, len(fraction), 3))}"


def table_of_parameters() -> str:
    """Returns the table of the parameters of SAM's application, without those of alarms."""
    rows = []
    text = (ROOT / "infra/sam/template.yaml").read_text()
    text = text[text.index("\nParameters:\n") :]
    text = text[: re.search(r"^(?!Parameters)[A-Z]\w+:$", text, re.MULTILINE).start()]
    for name, body in re.findall(r"^  (\w+):\n((?:    .*\n|\n)+)", text, re.MULTILINE):
        if name.endswith("Trigger"):
            continue
        said = re.search(r"^    Description: (?:>-\n((?:      .*\n)+)|(.*)\n)", body, re.MULTILINE)
        description = " ".join((said[1] or said[2]).split()).strip('"') if said else ""
        default = re.search(r"^    Default: (.*)$", body, re.MULTILINE)
        value = default[1].strip('"') if default else None
        shown = "required" if value is None else (f"`{value}`" if value else "none")
        rows.append(f"| `{name}` | {shown} | {description} |")
    return "\n".join(["| parameter | default | meaning |", "|---|---|---|", *rows])


def table_of_properties() -> str:
    """Returns the table of the properties of CDK's construct."""
    rows = []
    for file in ("retry-policy", "props", "hardening"):
        text = (ROOT / f"infra/cdk/lib/{file}.ts").read_text()
        text = text.split("export interface AttachOptions")[0]
        for comment, name in re.findall(r"^  /\*\*((?:(?!\*/)[\s\S])+)\*/\n  readonly (\w+)\?:", text, re.MULTILINE):
            (said, _, default) = re.sub(r"\s*\n   \* ?", " ", comment).partition("@default")
            default = " ".join(default.split())
            shown = default[2:] if default.startswith("- ") else f"`{default}`" if default else "none"
            rows.append(f"| `{name}` | {shown} | {' '.join(said.split())} |")
    return "\n".join(["| property | default | meaning |", "|---|---|---|", *rows])


def alarms(of_functions: bool) -> dict[str, dict[str, Any]]:
    """Returns the alarms of functions and queues, which have a template of their own, or all others."""
    return {name: alarm for name, alarm in ALARMS.items() if (alarm["of"] in ("function", "target")) == of_functions}


def folded(key: str, text: str, indent: int) -> str:
    """Returns a member of a mapping whose value is a long text."""
    pad = " " * indent
    line = f"{pad}{key}: {text}"
    if len(line) <= WIDTH and ": " not in text:
        return line
    inner = " " * (indent + 2)
    # Only spaces between words may become line breaks.
    lines = textwrap.wrap(text, WIDTH, initial_indent=inner, subsequent_indent=inner, break_on_hyphens=False)
    return "\n".join([f"{pad}{key}: >-", *lines])


def trigger(alarm: dict[str, Any]) -> str:
    """Returns when an alarm goes off, as the parameters of SAM's templates say it."""
    return "above {above} in {periods_above} of {periods} periods of {period} s".format(**alarm)


def parameters(of_functions: bool) -> str:
    """Returns the parameters that say when alarms go off."""
    lines = []
    for name, alarm in alarms(of_functions).items():
        lines += [
            f"  {name}Trigger:",
            "    Type: String",
            folded("Description", f"When this alarm goes off, or off. By default when {alarm['goes_off_when']}.", 4),
            f"    Default: {trigger(alarm)}",
            f"    AllowedPattern: '{PATTERN}'",
            f"    ConstraintDescription: {CONSTRAINT}",
        ]
    return "\n".join(lines)


def conditions(of_functions: bool) -> str:
    """Returns the conditions under which there are alarms."""
    lines = []
    for name, alarm in alarms(of_functions).items():
        is_on = f'!Not [!Equals [!Ref {name}Trigger, "off"]]'
        needs = [f"Has{alarm['only_with'].capitalize()}"] if "only_with" in alarm else []
        needs += ["IsFunction"] if alarm["of"] == "function" else []
        needs += [] if of_functions else ["HasAlarms"]
        both = ", ".join([f"!Condition {each}" for each in needs] + [is_on])
        lines.append(f"  Has{name}Alarm: " + (f"!And [{both}]" if needs else is_on))
    return "\n".join(lines)


def part_of(name: str, index: int) -> str:
    """Returns a number from the parameter of an alarm."""
    return f'!Select [{index}, !Split [" ", !Ref {name}Trigger]]'


def substituted(text: str) -> str:
    """Returns a text with SAM's names of the variables."""
    for variable, name in VARIABLES.items():
        text = text.replace(variable, name)
    return text


def dimensions(alarm: dict[str, Any], dimension: str | None, indent: int) -> list[str]:
    """Returns the dimensions of a metric."""
    pad = " " * indent
    if dimension is None:
        return []
    return [f"{pad}Dimensions:", f"{pad}  - Name: {dimension}", f"{pad}    Value: {DIMENSIONS[alarm['of'], dimension]}"]


def metrics(name: str, alarm: dict[str, Any]) -> list[str]:
    """Returns the metric of an alarm, or its expression."""
    if "expression" not in alarm:
        (namespace, metric, dimension, statistic) = alarm["metrics"]["m"]
        return [
            f"      Namespace: {namespace}",
            f"      MetricName: {metric}",
            *dimensions(alarm, dimension, 6),
            f"      {'ExtendedStatistic' if statistic.startswith('p') else 'Statistic'}: {statistic}",
            f"      Period: {part_of(name, 8)}",
        ]
    expression = substituted(alarm["expression"])
    lines = ["      Metrics:", "        - Id: result", f"          Label: {alarm['label']}"]
    if "InFlightMax" in expression:
        lines += ["          Expression: !Sub", f"            - {expression}", f"            {IN_FLIGHT_MAX}"]
    elif "${" in expression:
        lines.append(f"          Expression: !Sub {expression}")
    else:
        lines.append(folded("Expression", expression, 10))
    if not alarm["metrics"]:
        lines.append(f"          Period: {part_of(name, 8)}")
    for key, (namespace, metric, dimension, statistic) in alarm["metrics"].items():
        metric_name = f"!Sub {substituted(metric)}" if "${" in metric else metric
        lines += [
            f"        - Id: {key}",
            "          ReturnData: false",
            "          MetricStat:",
            "            Metric:",
            f"              Namespace: {namespace}",
            f"              MetricName: {metric_name}",
            *dimensions(alarm, dimension, 14),
            f"            Stat: {statistic}",
            f"            Period: {part_of(name, 8)}",
        ]
    return lines


def resources(of_functions: bool) -> str:
    """Returns the alarms."""
    blocks = []
    for name, alarm in alarms(of_functions).items():
        is_page = alarm["severity"] == "page"
        topic = "!Ref AlarmTopicArn" if is_page else "!If [HasTickets, !Ref TicketTopicArn, !Ref AlarmTopicArn]"
        lines = [
            f"  {name}Alarm:",
            "    Type: AWS::CloudWatch::Alarm",
            f"    Condition: Has{name}Alarm",
            "    Properties:",
            folded("AlarmDescription", f"{alarm['description']} Runbook: docs/runbook.md#{name.lower()}", 6),
            *metrics(name, alarm),
            f"      Threshold: {part_of(name, 1)}",
            f"      DatapointsToAlarm: {part_of(name, 3)}",
            f"      EvaluationPeriods: {part_of(name, 5)}",
            "      ComparisonOperator: GreaterThanThreshold",
            "      TreatMissingData: notBreaching",
            f"      AlarmActions: [{topic}]",
            f"      OKActions: [{topic}]",
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def table_of_alarms() -> str:
    """Returns the table of all alarms."""
    rows = [f"| `{name}` | {it['severity']} | {it['goes_off_when']} | {it['above']} |" for name, it in ALARMS.items()]
    return "\n".join(["| alarm | severity | goes off when | threshold |", "|---|---|---|---:|", *rows])


ABOUT = {"target": "function or queue", "dead_letter_queue": "dead-letter-queue"}


def table_of_triggers() -> str:
    """Returns the table of the parameters that say when alarms go off."""
    rows = [
        f"| `{name}Trigger` | `{trigger(alarm)}` | {ABOUT.get(alarm['of'], alarm['of'])} |"
        for name, alarm in ALARMS.items()
    ]
    return "\n".join(["| parameter | default | about the |", "|---|---|---|", *rows])


def table_of_blocks(kind: str) -> str:
    """Returns the table of the Terraform module's variables or outputs."""
    rows = []
    for file in ("variables", "outputs"):
        text = (ROOT / f"infra/terraform/{file}.tf").read_text()
        for name, body in re.findall(rf'^{kind} "(\w+)" {{\n(.*?)^}}', text, re.MULTILINE | re.DOTALL):
            said = re.search(
                r'^  description += "([^\n]*)"$|^  description += <<-EOT\n(.*?)^ *EOT$', body, re.MULTILINE | re.DOTALL
            )
            description = " ".join((said[1] or said[2]).split()) if said else ""
            is_required = kind == "variable" and not re.search(r"^  default +=", body, re.MULTILINE)
            cells = [f"`{name}`", *(["required" if is_required else ""] if kind == "variable" else [])]
            rows.append(f"| {' | '.join([*cells, description])} |")
    header = "| name | | description |\n|---|---|---|" if kind == "variable" else "| name | description |\n|---|---|"
    return "\n".join([header, *rows])


# The parts: the file, the comment that begins and ends each, and what is between them.
PARTS: list[tuple[str, str, Callable[[], str]]] = [
    ("docs/settings.md", "settings", table_of_settings),
    ("scripts/comeback/src/operate/simulate/rules/dollars.rs", "prices", prices_of_retries),
    ("infra/sam/template.yaml", "key of the ledger", key_of_table),
    ("docs/metrics.md", "metrics", table_of_metrics),
    ("docs/metrics.md", "fields", table_of_fields),
    ("docs/reasons.md", "reasons", table_of_reasons),
    ("infra/cdk/lib/retry-policy.ts", "properties", lambda: properties("policy")),
    ("infra/cdk/lib/props.ts", "properties", lambda: properties("handler")),
    ("infra/terraform/variables.tf", "attributes of a function", attributes),
    ("infra/terraform/variables.tf", "attributes of a queue", attributes),
    ("infra/terraform/variables.tf", "variables of policies", lambda: variables("policy")),
    ("infra/terraform/variables.tf", "variables of the handler", lambda: variables("handler")),
    ("infra/terraform/handler.tf", "values of a target", lambda: values(True)),
    ("infra/terraform/handler.tf", "values of all functions", lambda: values(False)),
    ("infra/sam/template.yaml", "parameters of policies", lambda: parameters_of_settings("policy")),
    ("infra/sam/template.yaml", "parameters of the handler", lambda: parameters_of_settings("handler")),
    ("infra/sam/template.yaml", "variables of the handler", variables_of_settings),
    ("infra/sam/template.yaml", "parameters of alarms", lambda: parameters(False)),
    ("infra/sam/template.yaml", "conditions of alarms", lambda: conditions(False)),
    ("infra/sam/template.yaml", "alarms", lambda: resources(False)),
    ("infra/sam/target-alarms.yaml", "parameters of alarms", lambda: parameters(True)),
    ("infra/sam/target-alarms.yaml", "conditions of alarms", lambda: conditions(True)),
    ("infra/sam/target-alarms.yaml", "alarms", lambda: resources(True)),
    ("infra/cdk/README.md", "properties", table_of_properties),
    ("docs/deploy/cdk-operations.md", "alarms", table_of_alarms),
    ("docs/deploy/sam-parameters.md", "parameters", table_of_parameters),
    ("docs/deploy/sam-parameters.md", "triggers", table_of_triggers),
    ("docs/deploy/terraform-inputs.md", "inputs", lambda: table_of_blocks("variable")),
    ("docs/deploy/terraform-inputs.md", "outputs", lambda: table_of_blocks("output")),
]


def written(text: str, part: str, content: str) -> str:
    """Returns a text with the part between its two lines."""
    marked = re.compile(rf"^(?P<begin>.*generated: {part}\b.*\n)(?:.*\n)*?(?P<end>.*end: {part}\b.*\n)", re.MULTILINE)
    found = marked.search(text)
    if not found:
        sys.exit(f"there is no part {part!r}: expected two lines with 'generated: {part}' and 'end: {part}'")
    blank = "\n" if "<!--" in found["begin"] else ""
    return text[: found.start()] + f"{found['begin']}{blank}{content}\n{blank}{found['end']}" + text[found.end() :]


def main() -> None:
    """Writes or checks all parts, and checks that the runbook has a section for each alarm."""
    is_check = sys.argv[1:] == ["--check"]
    stale = []

    def write(file: str, text: str) -> None:
        path = ROOT / file
        if path.exists() and path.read_text() == text:
            return
        stale.append(file)
        if not is_check:
            path.write_text(text)

    write("infra/cdk/contract/settings.json", json.dumps(SETTINGS, indent=2, ensure_ascii=False) + "\n")
    write("infra/cdk/contract/table.json", json.dumps(HANDLER["table"], indent=2) + "\n")
    # A part may be made from a file that has an earlier part, such as a table of Terraform's variables.
    for file, part, content in PARTS:
        write(file, written((ROOT / file).read_text(), part, content()))
    template = "infra/sam/template.yaml"
    write(template, priced((ROOT / template).read_text()))
    if is_check and stale:
        sys.exit(f"run infra/contract/generate.py: stale are {', '.join(sorted(set(stale)))}")
    sections = re.findall(r"^### (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    # CDK's gradual deployments have an alarm of their own.
    if differing := set(sections) ^ {*ALARMS, "DeploymentErrors"}:
        sys.exit(f"docs/runbook.md: expected a section for each alarm, differing are {differing}")


if __name__ == "__main__":
    main()
