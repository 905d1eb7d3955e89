"""The alarms of SAM's templates: their parameters, conditions and resources."""

from typing import Any

from alarms import SUBJECTS
from model import ALARMS, SETTINGS, pascal
from sam import folded, parameter
from text import table

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


def alarms(of_functions: bool) -> dict[str, dict[str, Any]]:
    """Returns the alarms of functions and queues, which have a template of their own, or all others."""
    return {name: alarm for name, alarm in ALARMS.items() if (alarm["of"] in ("function", "target")) == of_functions}


def trigger(alarm: dict[str, Any]) -> str:
    """Returns when an alarm goes off, as the parameters of SAM's templates say it."""
    return "above {above} in {periods_above} of {periods} periods of {period} s".format(**alarm)


def parameters_of_switches() -> str:
    """Returns the parameters for what is switched on in the application, and alarms of functions or queues need."""
    needing: dict[str, list[str]] = {}
    for name, alarm in alarms(True).items():
        if "only_with" in alarm:
            needing.setdefault(pascal(alarm["only_with"]), []).append(name)
    return "\n".join(
        parameter(
            switch,
            f"The same as {switch} of the retry application. Only then is there {' and '.join(names)}.",
            '"false"',
            ['AllowedValues: ["true", "false"]'],
            "true or false",
        )
        for switch, names in needing.items()
    )


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
        needs = [f'!Equals [!Ref {pascal(alarm["only_with"])}, "true"]'] if "only_with" in alarm else []
        needs += ["!Condition IsFunction"] if alarm["of"] == "function" else []
        needs += [] if of_functions else ["!Condition HasAlarms"]
        lines.append(f"  Has{name}Alarm: " + (f"!And [{', '.join([*needs, is_on])}]" if needs else is_on))
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


def table_of_triggers() -> str:
    rows = ((f"`{name}Trigger`", f"`{trigger(alarm)}`", SUBJECTS[alarm["of"]]) for name, alarm in ALARMS.items())
    return table("parameter | default | about the", rows)
