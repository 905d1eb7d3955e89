#!/usr/bin/env python3
"""Writes the parts of templates and documents that repeat the contract.

    infra/contract/generate.py            writes them
    infra/contract/generate.py --check    fails if one of them is stale

`infra/cdk/contract` is the contract as data. CDK imports it and Terraform reads it. What can read neither, which is
SAM's templates and the documents, has its part between two lines that name the part.
"""

import json
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ALARMS: dict[str, dict[str, Any]] = json.loads((ROOT / "infra/cdk/contract/alarms.json").read_text())

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
    ("function", "Target"): "!Ref TargetFunction",
}
VARIABLES = {
    "${handler}": "${Handler}",
    "${max_age_seconds}": "${MaxAgeSeconds}",
    "${in_flight_max}": "${InFlightMaxOrDefault}",
}
IN_FLIGHT_MAX = "- InFlightMaxOrDefault: !If [HasInFlightMax, !Ref InFlightMax, 100000]"


def alarms(of_functions: bool) -> dict[str, dict[str, Any]]:
    """Returns the alarms of functions, which have a template of their own, or all others."""
    return {name: alarm for name, alarm in ALARMS.items() if (alarm["of"] == "function") == of_functions}


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
        needs = (
            f"Has{alarm['only_with'].capitalize()}" if "only_with" in alarm else ("" if of_functions else "HasAlarms")
        )
        lines.append(f"  Has{name}Alarm: " + (f"!And [!Condition {needs}, {is_on}]" if needs else is_on))
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


def table_of_triggers() -> str:
    """Returns the table of the parameters that say when alarms go off."""
    rows = [
        f"| `{name}Trigger` | `{trigger(alarm)}` | {alarm['of'].replace('_', '-')} |" for name, alarm in ALARMS.items()
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
    ("infra/sam/template.yaml", "parameters of alarms", lambda: parameters(False)),
    ("infra/sam/template.yaml", "conditions of alarms", lambda: conditions(False)),
    ("infra/sam/template.yaml", "alarms", lambda: resources(False)),
    ("infra/sam/target-alarms.yaml", "parameters of alarms", lambda: parameters(True)),
    ("infra/sam/target-alarms.yaml", "conditions of alarms", lambda: conditions(True)),
    ("infra/sam/target-alarms.yaml", "alarms", lambda: resources(True)),
    ("docs/deploy/cdk-operations.md", "alarms", table_of_alarms),
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
    texts: dict[str, str] = {}
    for file, part, content in PARTS:
        texts[file] = written(texts.get(file) or (ROOT / file).read_text(), part, content())
    stale = [file for file, text in texts.items() if (ROOT / file).read_text() != text]
    if is_check and stale:
        sys.exit(f"run infra/contract/generate.py: stale are {', '.join(stale)}")
    for file in stale:
        (ROOT / file).write_text(texts[file])
    sections = re.findall(r"^### (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    # CDK's gradual deployments have an alarm of their own.
    if differing := set(sections) ^ {*ALARMS, "DeploymentErrors"}:
        sys.exit(f"docs/runbook.md: expected a section for each alarm, differing are {differing}")


if __name__ == "__main__":
    main()
