"""Rehearses incidents: each sets off its alarms and no others, and a day without an incident sets off none.

The alarms are those of the synthesized templates, CDK's and SAM's. The handler's metrics come from the real handler,
which runs against endpoints that refuse what the incident refuses, or from its code in a day of the simulation. AWS's
own metrics are written here. Needs the debug builds of the handler and the simulation, and the output of
tests/deployment/run-cdk.
"""

import functools
import json
import subprocess
import tempfile
import unittest
from collections.abc import Callable, Iterable, Iterator
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

Points = Iterable[Point]


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


def invoked(times: Iterable[int], failing: int = 0) -> list[Point]:
    """The handler runs three times at each time, and this many of the runs fail."""
    return [*aws("AWS/Lambda", "Invocations", 3, times), *aws("AWS/Lambda", "Errors", failing, times)]


def arriving(log: Iterable[dict[str, Any]], *times: int) -> Iterator[Point]:
    """This log arrives in CloudWatch, with Lambda's own lines around each invocation."""
    yield from aws("AWS/Logs", "IncomingLogEvents", 9, times)
    for at in times:
        yield from of_filter(METRIC_FILTER, {}, at)
    yield from says(log, *times)


def running(*times: int, failing: int = 0) -> list[Point]:
    """The handler runs without logging anything."""
    return [*invoked(times, failing), *arriving([], *times)]


def letters(count: int, times: Iterable[int]) -> Iterator[Point]:
    """This many messages are in the dead-letter queue."""
    return aws("AWS/SQS", "ApproximateNumberOfMessagesVisible", count, times, of="<dead-letter queue>")


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

# Every five minutes of the second hour.
OFTEN = range(HOUR, 2 * HOUR, 5 * MINUTE)
MINUTES = range(HOUR, 2 * HOUR, MINUTE)


def paused() -> Points:
    key = {"id": {"S": f"target/{FUNCTION}"}, "run": {"S": "target"}}
    target = json.dumps([{**key, "paused_at": {"N": "1700000000000"}}])
    register = '{"LEDGER_TABLE": "ledger", "REGISTER": "true"}'
    log = handler_log(Fate.INVOKED, older=13 * HOUR, environment=register, items=target)
    assert not any("Invoked" in line for line in log)
    return says(log, *OFTEN)


def fails_for_long() -> Points:
    """Events that are younger than half of their maximum age, and then older ones."""
    young, old = (handler_log(Fate.INVOKED, older=hours * HOUR) for hours in (10, 13))
    return [*says(young, *OFTEN[:6]), *says(old, *OFTEN[6:])]


def outage_over_dead_letters() -> Points:
    """A queue that has dead letters already gets more, in two waves."""
    given_up = handler_log(Fate.WAITS, environment='{"MAX_ATTEMPTS": "1"}')
    before, growing = letters(3, range(0, HOUR, MINUTE)), letters(50, range(HOUR, 2 * HOUR, MINUTE))
    return [*before, *growing, *says(given_up, HOUR, HOUR + 30 * MINUTE)]


def without_metrics() -> Points:
    """Lambda drops lines without a level, once a log level is set for the function."""
    return [*running(*OFTEN), *says([line for line in handler_log(Fate.INVOKED) if "_aws" not in line], *OFTEN)]


def unreadable(metric: str) -> Points:
    """CloudWatch can't read the metrics in the log."""
    return [*running(*OFTEN), *says(handler_log(Fate.INVOKED), *OFTEN), *aws("AWS/Logs", metric, 1, OFTEN)]


def throttled() -> Points:
    """No retry is accepted."""
    return says(handler_log(Fate.INVOKED, "Invoke", THROTTLED), *OFTEN)


def in_flight() -> Points:
    return aws("AWS/SQS", "ApproximateNumberOfMessagesNotVisible", 45_000, MINUTES)


# Incidents of an hour that follow a flawless hour, and the alarms that go off.
INCIDENTS: dict[str, tuple[Callable[[], Points], set[str]]] = {
    "dead letters can't be sent": (
        lambda: says(handler_log(Fate.GIVEN_UP, "SendMessageBatch"), *OFTEN),
        {"deadlettersnotsent"},
    ),
    "a function fails for most of an event's age": (fails_for_long, {"eventsexpire"}),
    "a function is paused for most of an event's age": (paused, {"eventsexpire"}),
    "an outage fills a queue that has dead letters already": (
        outage_over_dead_letters,
        {"deadletters", "deadlettersgrow", "eventsgivenup"},
    ),
    "events that never succeed": (
        lambda: [*letters(10, MINUTES), *says(handler_log(Fate.GIVEN_UP), *OFTEN)],
        {"deadletters"},
    ),
    "nobody looks at dead letters for eleven days": (
        lambda: [
            *letters(1, MINUTES),
            *aws("AWS/SQS", "ApproximateAgeOfOldestMessage", 11 * DAY, MINUTES, of="<dead-letter queue>"),
        ],
        {"deadletters", "deadlettersexpire"},
    ),
    "retries are throttled": (throttled, {"throttledretries"}),
    "as long as some retries are accepted, an outage only makes them slow": (
        lambda: [*throttled(), *says(handler_log(Fate.INVOKED), *OFTEN)],
        set(),
    ),
    "a function can't be invoked": (
        lambda: says(handler_log(Fate.INVOKED, "Invoke", FORBIDDEN), *OFTEN),
        {"configurationfaults"},
    ),
    "the handler runs without a log": (lambda: invoked(OFTEN), {"handlersilent"}),
    "the log arrives without its metrics": (without_metrics, {"handlersilent"}),
    "the metric filter is younger than the handler": (
        lambda: [*invoked(OFTEN), *aws("AWS/Logs", "IncomingLogEvents", 12, OFTEN)],
        set(),
    ),
    "CloudWatch can't parse the metrics": (lambda: unreadable("EMFParsingErrors"), {"handlersilent"}),
    "CloudWatch finds the metrics invalid": (lambda: unreadable("EMFValidationErrors"), {"handlersilent"}),
    "the handler fails": (
        lambda: [*running(*OFTEN, failing=2), *says(handler_log(Fate.INVOKED), *OFTEN)],
        {"handlererrors"},
    ),
    "the handler always fails, so it logs nothing": (lambda: running(*OFTEN, failing=3), {"handlererrors"}),
    "the handler is throttled": (lambda: aws("AWS/Lambda", "Throttles", 2, OFTEN), {"handlerthrottles"}),
    "the handler is taken for a loop": (
        lambda: aws("AWS/Lambda", "RecursiveInvocationsDropped", 2, OFTEN),
        {"handlerrecursionstopped"},
    ),
    "the mapping is disabled": (
        lambda: aws("AWS/SQS", "ApproximateNumberOfMessagesVisible", 7, MINUTES),
        {"unreadmessages"},
    ),
    "many events wait": (in_flight, set()),
    "more events wait than is healthy": (
        lambda: [*in_flight(), *aws("AWS/SQS", "ApproximateNumberOfMessagesDelayed", 9_000, MINUTES)],
        {"backlog"},
    ),
    "Lambda drops failures": (
        lambda: aws("AWS/Lambda", "DestinationDeliveryFailures", 1, OFTEN, of="<target>"),
        {"undeliveredfailures"},
    ),
    "Lambda takes a function for a loop": (
        lambda: aws("AWS/Lambda", "RecursiveInvocationsDropped", 1, OFTEN, of="<target>"),
        {"recursionstopped"},
    ),
    "retries are 45 minutes late": (
        lambda: says(handler_log(Fate.INVOKED, environment='{"BASE_BACKOFF": "900", "MAX_BACKOFF": "900"}'), *OFTEN),
        {"lateness"},
    ),
}

# Incidents with alarms that the examples don't have.
OPTIONAL: dict[str, Callable[[], Points]] = {
    "ledgerfaults": lambda: says(
        handler_log(Fate.INVOKED, "UpdateItem", environment='{"LEDGER_TABLE": "ledger"}'), *OFTEN
    ),
    "circuitopen": lambda: says([PROBED], *OFTEN),
}


def begun(watch: CloudWatch, alarms: dict[str, dict[str, Any]]) -> dict[str, list[int]]:
    return {name: times for name, alarm in alarms.items() if (times := watch.begins(alarm))}


class RehearsalTest(unittest.TestCase):
    @staticmethod
    def before() -> list[Point]:
        return [point for point in flawless() if point.at < HOUR]

    def test_each_incident_sets_off_its_alarms_and_no_others(self) -> None:
        for incident, (points, expected) in INCIDENTS.items():
            watch = CloudWatch([*self.before(), *points()])
            for who, alarms in BY_DEFAULT.items():
                self.assertEqual(begun(watch, alarms).keys(), expected, f"{who}: {incident}")
        for expected, points in OPTIONAL.items():
            for who, alarms in EVERYTHING.items():
                self.assertEqual(CloudWatch(self.before()).begins(alarms[expected]), [], who)
                self.assertTrue(CloudWatch(list(points())).begins(alarms[expected]), who)

    def test_every_alarm_has_an_incident(self) -> None:
        rehearsed = set().union(OPTIONAL, *(expected for _, expected in INCIDENTS.values()))
        self.assertEqual(rehearsed, EVERYTHING["SAM"].keys() | BY_DEFAULT["SAM"].keys())

    def test_an_alarm_announces_an_outage_when_it_begins_not_before_and_once_for_each_wave(self) -> None:
        wave = HOUR + 5 * MINUTE
        for points, expected in (
            # The first event that is older than twelve of 24 hours.
            (fails_for_long, {"eventsexpire": [OFTEN[6] + 5 * MINUTE]}),
            # One alarm is on since the first letters. The others report the outage, one of them each of its waves.
            (
                outage_over_dead_letters,
                {"deadletters": [5 * MINUTE], "deadlettersgrow": [wave], "eventsgivenup": [wave, wave + 30 * MINUTE]},
            ),
        ):
            self.assertEqual(begun(CloudWatch([*self.before(), *points()]), BY_DEFAULT["CDK"]), expected)

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
