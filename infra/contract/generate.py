#!/usr/bin/env python3
"""Writes the parts of templates and documents that repeat the contract.

    infra/contract/generate.py            writes them
    infra/contract/generate.py --check    fails if one of them is stale

`infra/cdk/contract` is the contract as data: alarms.json and prices.json are written by hand, settings.json has the
handler's own table of its settings, and table.json the names in the ledger's table. CDK and Terraform read them. What
can't read has its part between two lines that name the part. The tables of what a retry costs come from `infra/cost`.
"""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "infra/cost"))

import cost  # noqa: E402
import tables  # noqa: E402

COUNTED = cost.Counted(json.loads((ROOT / "infra/cost/counted.json").read_text()))
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
# The settings that a deployment has options for, under names of their own, by their scopes.
OPTIONS = {
    scope: {name: it for name, it in SETTINGS.items() if it["scope"] == scope and "alias_of" not in it}
    for scope in ("policy", "handler")
}
ALL_OPTIONS = [name for name in SETTINGS if any(name in of_scope for of_scope in OPTIONS.values())]
# The types of the options in CDK and in Terraform.
TYPES = {
    "duration": ("Duration", "string"),
    "whole": ("number", "number"),
    "choice": ("Jitter", "string"),
    "flag": ("boolean", "bool"),
    "list": ("string[]", "list(string)"),
    "pointer": ("string", "string"),
}

WIDTH = 120
PERIODS = (10, 30, 60, 300, 900, 1800, 3600, 21600, 86400)
NUMBER = "[0-9]{1,12}([.][0-9]{1,6})?"
PATTERN = (
    f"^(off|above {NUMBER} in [1-9][0-9]{{0,2}} of [1-9][0-9]{{0,2}} periods of ({'|'.join(map(str, PERIODS))}) s)$"
)
CONSTRAINT = (
    "off, or like 'above 0 in 1 of 3 periods of 300 s', with periods of "
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


def bounds(it: dict[str, Any]) -> str:
    """Returns the values that a duration accepts. Other settings have no such text."""
    least = f"`{it['at_least']}`" if "at_least" in it else it.get("min")
    return f"; from {least} to {it['max']}" if it["type"] == "duration" else ""


def numbers(low: int, high: int) -> str:
    """Returns a regular expression for the whole numbers in a range that begins below 10."""
    digits = len(str(high))
    if digits == 1:
        return f"[{low}-{high}]"
    parts = [f"[{low}-9]"] if low > 1 else []
    if digits > 1 + (low > 1):
        parts.append(f"[1-9][0-9]{{{int(low > 1)},{digits - 2}}}")
    return "|".join(parts + same_length("1" + "0" * (digits - 1), str(high)))


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
    return int(duration[:-1]) * SECONDS_PER_UNIT[duration[-1]]


def pattern(it: dict[str, Any]) -> str:
    if it["type"] == "whole":
        return f"^({numbers(1, it['max'])})?$"
    units = []
    for unit, per_unit in SECONDS_PER_UNIT.items():
        (low, high) = (-(-seconds(it["min"]) // per_unit), seconds(it["max"]) // per_unit)
        if high:
            units.append(f"({numbers(low, high)}){unit}{'?' if unit == 's' else ''}")
    return f"^({'|'.join(units)})$"


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
            case "whole":
                said += f" Empty for {it['default'] or 'no limit'}."
                rules = [f"AllowedPattern: '{pattern(it)}'"]
                constraint = f"a whole number from 1 to {it['max']}, or empty"
            case "choice" | "flag":
                options = it.get("options", ['"true"', '"false"'])
                default = it.get("default", '"false"')
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
    return "\n".join(f"          {name}: !Ref {pascal(name)}" for name in ALL_OPTIONS)


def wrapped(text: str, prefix: str) -> list[str]:
    """Returns the lines of a text. Only spaces between words become line breaks."""
    return textwrap.wrap(text, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)


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
                default = "false"
            case _:
                default = "- none"
        comment = [*wrapped(said, "   * "), "   *", f"   * @default {default}"]
        declared = f"  readonly {camel(name)}?: {TYPES[it['type']][0]};"
        blocks.append("\n".join(["  /**", *comment, "   */", declared]))
    return "\n\n".join(blocks)


def attributes() -> str:
    policy = {name.lower(): TYPES[it["type"]][1] for name, it in OPTIONS["policy"].items()}
    width = max(map(len, policy))
    return "\n".join(f"    {name:{width}} = optional({kind})" for name, kind in policy.items())


def variables(scope: str) -> str:
    blocks = []
    for name, it in OPTIONS[scope].items():
        said = meaning(it, str.lower)
        default = {"flag": "false", "list": "[]"}.get(it["type"]) or json.dumps(it.get("default"))
        lines = [
            f'variable "{name.lower()}" {{',
            f"  description = {json.dumps(said)}",
            f"  type        = {TYPES[it['type']][1]}",
            f"  default     = {default}",
            *(["  nullable    = false"] if default != "null" else []),
            "}",
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def values(names: Iterable[str], of: str, indent: int) -> str:
    width = max(map(len, names))
    return "\n".join(f"{' ' * indent}{name:{width}} = {of}.{name.lower()}" for name in names)


def table(head: str, rows: Iterable[tuple[str, ...]], last: str = "---") -> str:
    columns = "|".join(["---"] * head.count("|") + [last])
    return "\n".join([f"| {head} |", f"|{columns}|", *(f"| {' | '.join(row)} |" for row in rows)])


def table_of_settings() -> str:
    rows = []
    for name, it in SETTINGS.items():
        said, default = it["meaning"], "none"
        match it["type"]:
            case "duration":
                default, said = f"`{it['default']}`", said + bounds(it)
            case "flag":
                needs = f"; needs `{it['needs']}`" if "needs" in it else ""
                default, said = "`false`", f"`true` or `false`: {said}{needs}"
            case "choice" | "whole":
                default = f"`{it['default']}`" if it["default"] else default
            case "list":
                default, said = it["default"] or default, f"{said}; separated by commas"
            case "json":
                said = f"JSON: {said}, `{it['example']}`"
            case _:
                default = "required" if it.get("is_required") else it.get("default") or default
        page = f" ([more]({it['page']}))" if "page" in it else ""
        rows.append((f"`{name}`", default, f"{said}{page}"))
    return table("variable | default | meaning", rows)


def table_of_names(head: str, of: str) -> str:
    """Returns a table of what the handler names, whose first column has the names. Units are in lower case there."""
    return table(head, [(f"`{name}`", *(each.lower() for each in units), said) for name, *units, said in HANDLER[of]])


def table_of_reasons() -> str:
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
    return f"{cost.PRICES[name]['dollars']:.10f}".rstrip("0")


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
    """Returns what `comeback simulate` knows of the costs."""
    kinds = (
        ("The price of a million retries", "RETRIES", cost.retry),
        (
            "A million further hops of waits that one visibility timeout can't cover",
            "HOPS",
            lambda counted, way: cost.handled(counted, "waits", way),
        ),
        ("A million dead letters", "DEAD_LETTERS", cost.dead_letter),
    )
    lines = []
    for said, name, usage in kinds:
        busy, quiet = (tables.million(usage(COUNTED, cost.Way(size)))[1:] for size in (cost.BUSY, cost.QUIET))
        lines += [
            f"/// {said}, in batches of ten and in batches of one.",
            f"const {name}: [f64; 2] = [{busy}, {quiet}];",
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


def shown(default: str | None) -> str:
    """Returns a default as tables show it. A parameter without one is required."""
    return "required" if default is None else f"`{default}`" if default else "none"


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


def table_of_properties() -> str:
    rows = []
    for file in ("retry-policy", "props", "hardening"):
        text = (ROOT / f"infra/cdk/lib/{file}.ts").read_text().split("export interface AttachOptions")[0]
        for comment, name in re.findall(r"^  /\*\*((?:(?!\*/)[\s\S])+)\*/\n  readonly (\w+)\?:", text, re.MULTILINE):
            said, _, default = re.sub(r"\s*\n   \* ?", " ", comment).partition("@default")
            default = " ".join(default.split())
            value = default[2:] if default.startswith("- ") else shown(default)
            rows.append((f"`{name}`", value, " ".join(said.split())))
    return table("property | default | meaning", rows)


def alarms(of_functions: bool) -> dict[str, dict[str, Any]]:
    """Returns the alarms of functions and queues, which have a template of their own, or all others."""
    return {name: alarm for name, alarm in ALARMS.items() if (alarm["of"] in ("function", "target")) == of_functions}


def folded(key: str, text: str, indent: int) -> str:
    """Returns a member of a mapping whose value is a long text."""
    pad = " " * indent
    line = f"{pad}{key}: {text}"
    if len(line) <= WIDTH and ": " not in text:
        return line
    return "\n".join([f"{pad}{key}: >-", *wrapped(text, f"{pad}  ")])


def trigger(alarm: dict[str, Any]) -> str:
    """Returns when an alarm goes off, as the parameters of SAM's templates say it."""
    return "above {above} in {periods_above} of {periods} periods of {period} s".format(**alarm)


def parameters(of_functions: bool) -> str:
    return "\n".join(
        parameter(
            f"{name}Trigger",
            f"When this alarm goes off, or off. By default when {alarm['goes_off_when']}.",
            trigger(alarm),
            [f"AllowedPattern: '{PATTERN}'"],
            CONSTRAINT,
        )
        for name, alarm in alarms(of_functions).items()
    )


def conditions(of_functions: bool) -> str:
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


def yaml(value: dict[str, Any], indent: int) -> list[str]:
    pad, lines = " " * indent, []
    for key, each in value.items():
        match each:
            case dict():
                lines += [f"{pad}{key}:", *yaml(each, indent + 2)]
            case list():
                lines.append(f"{pad}{key}:")
                for item in each:
                    first, *others = yaml(item, indent + 4)
                    lines += [f"{pad}  - {first.strip()}", *others]
            case _:
                # CloudFormation's functions have no spaces that could be line breaks.
                lines.append(f"{pad}{key}: {each}" if each.startswith("!") else folded(key, each, indent))
    return lines


def metric(alarm: dict[str, Any], key: str) -> dict[str, Any]:
    namespace, name, dimension, _ = alarm["metrics"][key]
    name = f"!Sub {substituted(name)}" if "${" in name else name
    of = {"Name": dimension, "Value": DIMENSIONS.get((alarm["of"], dimension))}
    return {"Namespace": namespace, "MetricName": name, **({"Dimensions": [of]} if dimension else {})}


def watched(name: str, alarm: dict[str, Any]) -> dict[str, Any]:
    """Returns the metric of an alarm, or its expression."""
    period = {"Period": part_of(name, 8)}
    if "expression" not in alarm:
        statistic = alarm["metrics"]["m"][3]
        kind = "ExtendedStatistic" if statistic.startswith("p") else "Statistic"
        return {**metric(alarm, "m"), kind: statistic, **period}
    expression = substituted(alarm["expression"])
    if "InFlightMax" in expression:
        value = f"!If [HasInFlightMax, !Ref InFlightMax, {SETTINGS['IN_FLIGHT_MAX']['default']}]"
        expression = f"!Sub\n            - {expression}\n            - InFlightMaxOrDefault: {value}"
    elif "${" in expression:
        expression = f"!Sub {expression}"
    result = {"Id": "result", "Label": alarm["label"], "Expression": expression}
    parts = [
        {
            "Id": key,
            "ReturnData": "false",
            "MetricStat": {"Metric": metric(alarm, key), "Stat": statistic, **period},
        }
        for key, (*_, statistic) in alarm["metrics"].items()
    ]
    return {"Metrics": [result if parts else result | period, *parts]}


def resources(of_functions: bool) -> str:
    blocks = []
    for name, alarm in alarms(of_functions).items():
        is_page = alarm["severity"] == "page"
        topic = "!Ref AlarmTopicArn" if is_page else "!If [HasTickets, !Ref TicketTopicArn, !Ref AlarmTopicArn]"
        properties = {
            "AlarmDescription": f"{alarm['description']} Runbook: docs/runbook.md#{name.lower()}",
            **watched(name, alarm),
            "Threshold": part_of(name, 1),
            "DatapointsToAlarm": part_of(name, 3),
            "EvaluationPeriods": part_of(name, 5),
            "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": "notBreaching",
            "AlarmActions": f"[{topic}]",
            "OKActions": f"[{topic}]",
        }
        resource = {"Type": "AWS::CloudWatch::Alarm", "Condition": f"Has{name}Alarm", "Properties": properties}
        blocks.append("\n".join(yaml({f"{name}Alarm": resource}, 2)))
    return "\n\n".join(blocks)


def table_of_alarms() -> str:
    rows = ((f"`{name}`", it["severity"], it["goes_off_when"], str(it["above"])) for name, it in ALARMS.items())
    return table("alarm | severity | goes off when | threshold", rows, last="---:")


ABOUT = {"target": "function or queue", "dead_letter_queue": "dead-letter-queue"}


def table_of_triggers() -> str:
    rows = (
        (f"`{name}Trigger`", f"`{trigger(alarm)}`", ABOUT.get(alarm["of"], alarm["of"]))
        for name, alarm in ALARMS.items()
    )
    return table("parameter | default | about the", rows)


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


# The parts: the file, the comment that begins and ends each, and what is between them.
PARTS: list[tuple[str, str, Callable[[], str]]] = [
    ("docs/settings.md", "settings", table_of_settings),
    ("scripts/comeback/src/operate/simulate/rules.rs", "prices", prices_of_retries),
    ("infra/sam/template.yaml", "key of the ledger", key_of_table),
    ("docs/metrics.md", "metrics", lambda: table_of_names("metric | unit | meaning", "metrics")),
    ("docs/metrics.md", "fields", lambda: table_of_names("field | meaning", "log_fields")),
    ("docs/reasons.md", "reasons", table_of_reasons),
    ("infra/cdk/lib/retry-policy.ts", "properties", lambda: properties("policy")),
    ("infra/cdk/lib/props.ts", "properties", lambda: properties("handler")),
    ("infra/terraform/variables.tf", "attributes of a function", attributes),
    ("infra/terraform/variables.tf", "attributes of a queue", attributes),
    ("infra/terraform/variables.tf", "variables of policies", lambda: variables("policy")),
    ("infra/terraform/variables.tf", "variables of the handler", lambda: variables("handler")),
    ("infra/terraform/handler.tf", "values of a target", lambda: values(OPTIONS["policy"], "target", 8)),
    ("infra/terraform/handler.tf", "values of all functions", lambda: values(ALL_OPTIONS, "var", 6)),
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
    ("docs/deploy/terraform-inputs.md", "inputs", lambda: table_of_blocks("variable", "name | | description")),
    ("docs/deploy/terraform-inputs.md", "outputs", lambda: table_of_blocks("output", "name | description")),
    *(
        ("infra/COST.md", made.__name__, partial(made, COUNTED))
        for made in (tables.summary, tables.event, tables.month, tables.queue, tables.parts, tables.fixed)
    ),
    ("infra/COST.md", "deployment", tables.deployment),
    *(
        (page, "price of alarms", tables.price_of_alarms)
        for page in ("README.md", "docs/deploy.md", "infra/cdk/README.md")
    ),
    ("docs/cost-sources.md", "counts", lambda: tables.counts(COUNTED)),
    ("docs/cost-sources.md", "prices", tables.prices),
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
