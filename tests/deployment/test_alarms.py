"""Rehearses the incidents of incidents.toml: each sets off its alarms and no others, and a day without an incident sets
off none.

The alarms are those of the synthesized templates, CDK's and SAM's. The handler's metrics come from the real handler,
which runs against endpoints that refuse what the incident refuses, or from its code in a day of the simulation. AWS's
own metrics are written here. Needs the debug builds of the handler and the simulation, and the output of
tests/deployment/run-cdk.
"""

import functools
import json
import subprocess
import tempfile
import tomllib
import unittest
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cloudwatch import CloudWatch, Point, of_filter, of_log
from handler import FORBIDDEN, FUNCTION, TARGET, THROTTLED, Fate, handler_log
from system import EXAMPLES, HARDENED

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

METRIC_FILTER = EXAMPLES["CDK"].metric_filter()
BY_DEFAULT = {who: system.alarms() for who, system in EXAMPLES.items()}
EVERYTHING = {who: system.alarms() for who, system in HARDENED.items()}


def says(log: Iterable[dict[str, Any]], *times: int) -> Iterator[Point]:
    """The handler's metrics if it writes this log at these times."""
    lines = list(log)
    for at in times:
        for line in lines:
            yield from of_log(line, at, {"orders": "<target>"})
            yield from of_filter(METRIC_FILTER, line, at)


OF = {
    "AWS/SQS": ("QueueName", "<retry queue>"),
    "AWS/Lambda": ("FunctionName", "<handler>"),
    "AWS/Logs": ("LogGroupName", "<handler's log>"),
}


def aws(namespace: str, name: str, value: float, times: Iterable[int], of: str = "") -> Iterator[Point]:
    """A metric of AWS. By default it is one of the retry queue, the handler, or its log."""
    dimension, default = OF[namespace]
    return (Point(at, namespace, name, {dimension: of or default}, (value,)) for at in times)


NAMES = {
    "target-0": "<target>",
    "retry-0": "<retry queue>",
    "retry-handler-0": "<handler>",
}


@functools.cache
def simulated(*options: str) -> list[Point]:
    """The metrics of a day of the simulation in which only functions fail: the real handler's, and AWS's own."""
    with tempfile.TemporaryDirectory(prefix="alarms-") as folder:
        metrics = Path(folder) / "metrics"
        command = [TARGET / "debug/simulation", "day", "--flawless", "--metrics", metrics, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    times = [line["_aws"]["Timestamp"] // 1000 for line in lines]
    return [point for line, at in zip(lines, times, strict=True) for point in published(line, at - times[0])]


def published(line: dict[str, Any], at: int) -> Iterator[Point]:
    """The points of a line of the simulation. Those that are not about SQS stand for lines of the log."""
    yield from of_log(line, at, NAMES)
    if "QueueName" not in line:
        yield from aws("AWS/Logs", "IncomingLogEvents", 1, [at])
        yield from of_filter(METRIC_FILTER, line, at)


def flawless(seed: int = 0) -> list[Point]:
    """A twentieth of 10,000 events fails, is retried in time, and succeeds."""
    return simulated("--events", "10000", "--seed", str(seed))


# The circuit of a function that is down, as flow::metrics writes it.
PROBED = {
    "_aws": {
        "CloudWatchMetrics": [
            {
                "Namespace": "Comeback",
                "Dimensions": [["Target"]],
                "Metrics": [{"Name": name, "Unit": "Count"} for name in ("CircuitOpen", "Probes", "BroughtForward")],
            }
        ]
    },
    "Target": "orders",
    "CircuitOpen": 1,
    "Probes": 1,
    "BroughtForward": 3,
}

# When an incident's metrics are there: every five minutes or every minute of the second hour.
TIMES = {
    "often": range(HOUR, 2 * HOUR, 5 * MINUTE),
    "minutes": range(HOUR, 2 * HOUR, MINUTE),
    "minutes before": range(0, HOUR, MINUTE),
}

INCIDENTS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("incidents.toml").read_text())["incident"]


def points_of(incident: Mapping[str, Any]) -> list[Point]:
    return [point for source in incident["metrics"] for point in points(source)]


def points(source: Mapping[str, Any]) -> Iterable[Point]:
    at = source.get("at", "often")
    times = [minute * MINUTE for minute in at] if isinstance(at, list) else TIMES[at]
    match source:
        case {"aws": metric, "value": value}:
            namespace, name = metric.split()
            return aws(namespace, name, value, times, source.get("of", ""))
        case {"runs": runs, "failing": failing}:
            invoked = aws("AWS/Lambda", "Invocations", runs, times), aws("AWS/Lambda", "Errors", failing, times)
            return [*invoked[0], *invoked[1], *(arriving(times) if source.get("quietly") else [])]
        case {"circuit": "open"}:
            return says([PROBED], *times)
        case {"log": fate}:
            return says([line for line in log_of(Fate(fate), source) if source.get("without", "") not in line], *times)
    raise ValueError(f"expected metrics of an incident, got {source}")


def log_of(fate: Fate, source: Mapping[str, Any]) -> list[dict[str, Any]]:
    items = ""
    if source.get("paused"):
        key = {"id": {"S": f"target/{FUNCTION}"}, "run": {"S": "target"}}
        items = json.dumps([{**key, "paused_at": {"N": "1700000000000"}}])
    log = handler_log(
        fate,
        source.get("refused", ""),
        tuple(source.get("error", FORBIDDEN)),
        source.get("older", 0) * HOUR,
        json.dumps(source.get("variables", {})),
        items,
    )
    assert not (items and any("Invoked" in line for line in log))
    return log


def arriving(times: Iterable[int]) -> Iterator[Point]:
    """Lambda's own lines around each invocation arrive in CloudWatch."""
    yield from aws("AWS/Logs", "IncomingLogEvents", 9, times)
    for at in times:
        yield from of_filter(METRIC_FILTER, {}, at)


def begun(watch: CloudWatch, alarms: dict[str, dict[str, Any]]) -> dict[str, list[int]]:
    return {name: times for name, alarm in alarms.items() if (times := watch.begins(alarm))}


class RehearsalTest(unittest.TestCase):
    @staticmethod
    def before() -> list[Point]:
        return [point for point in flawless() if point.at < HOUR]

    def test_each_incident_sets_off_its_alarms_and_no_others(self) -> None:
        for incident in INCIDENTS:
            watch = CloudWatch([*self.before(), *points_of(incident)])
            for who, alarms in BY_DEFAULT.items():
                with self.subTest(f"{incident['name']}, with {who}'s alarms"):
                    if "optional" in incident:
                        alarm = EVERYTHING[who][incident["optional"].lower()]
                        self.assertEqual(CloudWatch(self.before()).begins(alarm), [])
                        self.assertTrue(watch.begins(alarm), f"expected {incident['optional']}")
                        continue
                    found, expected = begun(watch, alarms), sorted(map(str.lower, incident["alarms"]))
                    self.assertEqual(sorted(found), expected, f"expected {expected}, got {sorted(found)}")
                    begins = {name.lower(): minutes for name, minutes in incident.get("begins", {}).items()}
                    # An alarm announces an outage when it begins, not before, and once for each wave.
                    self.assertEqual({name: [at // MINUTE for at in found[name]] for name in begins}, begins)

    def test_every_alarm_has_an_incident(self) -> None:
        rehearsed = {name.lower() for each in INCIDENTS for name in each.get("alarms", [each.get("optional")])}
        self.assertEqual(rehearsed, EVERYTHING["SAM"].keys() | BY_DEFAULT["SAM"].keys())

    def begun_in(self, day: list[Point]) -> dict[str, list[int]]:
        """The alarms that go off in a day of the simulation, and when."""
        cdk, sam = (begun(CloudWatch(day), alarms) for alarms in BY_DEFAULT.values())
        self.assertEqual(cdk, sam)
        return cdk

    def test_a_flawless_day(self) -> None:
        for seed in range(2):
            self.assertEqual(self.begun_in(flawless(seed)), {}, f"seed {seed}")

    def test_a_function_is_down_in_the_simulation(self) -> None:
        # The function is down from hour 2 on. The alarm goes off once, at half of the maximum age of 24 hours. Events
        # expire from hour 26 on.
        for hours, expected in (
            ("16", {"eventsexpire": 14}),
            ("30", {"eventsexpire": 14, "eventsgivenup": 26}),
        ):
            found = self.begun_in(simulated("--events", "100", "--down", hours))
            self.assertEqual({name: times[0] // HOUR for name, times in found.items()}, expected)
            self.assertEqual(len(found["eventsexpire"]), 1)


class DashboardTest(unittest.TestCase):
    def test_they_answer_the_same_questions_in_this_order(self) -> None:
        for who, system in EXAMPLES.items():
            texts = [each["markdown"] for each in system.widgets("text")]
            expected = ["Is anything lost?", "What is down?", "What waits, and until when?", "What does it cost?"]
            self.assertEqual(texts, [f"## {question}" for question in expected], who)

    # AWS's metrics in graphs, by the owners that templates name.
    OF_AWS = {
        ("AWS/SQS", "QueueName"): (
            "ApproximateAgeOfOldestMessage",
            "ApproximateNumberOfMessagesDelayed",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesVisible",
            "NumberOfEmptyReceives",
            "NumberOfMessagesDeleted",
            "NumberOfMessagesReceived",
            "NumberOfMessagesSent",
        ),
        ("AWS/Lambda", "FunctionName"): (
            "DestinationDeliveryFailures",
            "Duration",
            "Errors",
            "Invocations",
            "RecursiveInvocationsDropped",
            "Throttles",
        ),
        ("AWS/Logs", "LogGroupName"): ("IncomingBytes",),
        ("AWS/DynamoDB", "TableName"): ("ConsumedWriteCapacityUnits",),
    }
    OWNERS = ("<retry queue>", "<dead-letter queue>", "<handler>", "<target>", "<handler's log>", "<ledger>")

    def test_every_line_shows_what_is_published(self) -> None:
        ledger = '{"LEDGER_TABLE": "ledger"}'
        logs = (
            handler_log(Fate.INVOKED),
            handler_log(Fate.WAITS),
            handler_log(Fate.GIVEN_UP),
            handler_log(Fate.GIVEN_UP, "SendMessageBatch"),
            handler_log(Fate.INVOKED, "Invoke", THROTTLED),
            handler_log(Fate.INVOKED, "Invoke", FORBIDDEN),
            handler_log(Fate.INVOKED, "UpdateItem", environment=ledger),
            [PROBED],
        )
        of_aws = (
            Point(HOUR, namespace, name, {dimension: who}, (1,))
            for (namespace, dimension), names in self.OF_AWS.items()
            for name in names
            for who in self.OWNERS
        )
        watch = CloudWatch([*(point for log in logs for point in says(log, HOUR)), *of_aws])
        for who, system in [*EXAMPLES.items(), *HARDENED.items()]:
            graphs = system.widgets("metric")
            self.assertGreaterEqual(len(graphs), 10)
            for graph in graphs:
                for line, series in watch.drawn(graph).items():
                    self.assertEqual(set(series), {HOUR}, f"{who}: {graph['title']}: {line}")
