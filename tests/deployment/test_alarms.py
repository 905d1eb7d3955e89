"""Rehearses incidents: each sets off its alarms and no others, and a day without an incident sets off none.

The alarms are those of the synthesized templates, CDK's and SAM's. The handler's metrics come from the real handler,
which runs against endpoints that refuse what the incident refuses, or from its code in a day of the simulation. AWS's
own metrics are written here. Needs the debug builds of the handler and the simulation, and the output of
tests/deployment/run-cdk.
"""

import functools
import json
import re
import shlex
import subprocess
import tempfile
import unittest
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import everything
import parity
import sam
from cloudwatch import CloudWatch, Point, calculated, of_filter, of_log
from incident import FORBIDDEN, FUNCTION, ROOT, TARGET, THROTTLED, Fate, handler_log
from system import System

RUNBOOK = (ROOT / "docs/runbook.md").read_text()

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR


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


def systems(name: str, document: dict[str, Any]) -> dict[str, System]:
    """CDK's and SAM's systems."""
    made = {
        "CDK": parity.synthesised(TARGET / "cdk" / name),
        "SAM": sam.transformed_document(document, sam.EXAMPLE.parent),
    }
    return {who: System(list(template.resources())) for who, template in made.items()}


EXAMPLES = systems("typescript", sam.read(sam.EXAMPLE))
HARDENED = systems("everything", everything.switch_on(sam.read(sam.EXAMPLE)))
METRIC_FILTER = EXAMPLES["CDK"].metric_filter()
BY_DEFAULT = {who: system.alarms() for who, system in EXAMPLES.items()}
EVERYTHING = {who: system.alarms() for who, system in HARDENED.items()}


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


class RehearsalTest(unittest.TestCase):
    """Incidents of an hour that follow a flawless hour, and days of the simulation."""

    rehearsed: set[str] = set()

    @staticmethod
    def before() -> list[Point]:
        """The hour before the incident."""
        return [point for point in flawless() if point.at < HOUR]

    def rehearse(self, points: Iterable[Point], *expected: str) -> dict[str, list[int]]:
        """Checks which alarms go off. Returns when each of CDK's alarms does."""
        watch = CloudWatch([*self.before(), *points])
        for who in ("SAM", "CDK"):
            begun = {name: watch.begins(alarm) for name, alarm in BY_DEFAULT[who].items()}
            with self.subTest(who):
                self.assertEqual({name for name, times in begun.items() if times}, set(expected))
        self.rehearsed.update(expected)
        return begun

    def rehearse_optional(self, points: Iterable[Point], expected: str) -> None:
        """Checks that an alarm goes off that the examples don't have."""
        without = CloudWatch(self.before())
        watch = CloudWatch(list(points))
        for who, alarms in EVERYTHING.items():
            with self.subTest(who):
                self.assertEqual(without.begins(alarms[expected]), [])
                self.assertTrue(watch.begins(alarms[expected]))
        self.rehearsed.add(expected)

    @classmethod
    def tearDownClass(cls) -> None:
        """Checks that every alarm was rehearsed, unless only some of the tests ran."""
        tests = unittest.defaultTestLoader.getTestCaseNames(cls)
        if cls.ran == len(tests) and cls.rehearsed != EVERYTHING["SAM"].keys() | BY_DEFAULT["SAM"].keys():
            raise AssertionError(f"not rehearsed: {EVERYTHING['SAM'].keys() - cls.rehearsed}")

    ran = 0

    def setUp(self) -> None:
        """Counts the tests that run."""
        type(self).ran += 1

    def begun_in(self, day: list[Point]) -> dict[str, list[int]]:
        """The alarms of both systems that go off in a day of the simulation, and when."""
        watch = CloudWatch(day)
        cdk, sam_ = ({name: watch.begins(alarm) for name, alarm in BY_DEFAULT[who].items()} for who in ("CDK", "SAM"))
        self.assertEqual(cdk, sam_)
        return {name: times for name, times in cdk.items() if times}

    def test_a_flawless_day(self) -> None:
        for seed in range(2):
            self.assertEqual(self.begun_in(flawless(seed)), {}, f"seed {seed}")

    def test_a_function_is_down_in_the_simulation(self) -> None:
        # The function is down from hour 2 to 18. The alarm goes off once, at half of the maximum age of 24 hours.
        begun = self.begun_in(simulated("--events", "100", "--down", "16"))
        self.assertEqual(set(begun), {"eventsexpire"})
        self.assertEqual([at // HOUR for at in begun["eventsexpire"]], [14])

    def test_a_function_is_down_in_the_simulation_until_events_expire(self) -> None:
        begun = self.begun_in(simulated("--events", "100", "--down", "30"))
        self.assertEqual(set(begun), {"eventsexpire", "eventsgivenup"})
        # Events expire from hour 26 on. The first alarm has announced that twelve hours before.
        self.assertEqual([begun[name][0] // HOUR for name in ("eventsexpire", "eventsgivenup")], [14, 26])

    def test_dead_letters_cannot_be_sent(self) -> None:
        refused = handler_log(Fate.GIVEN_UP, "SendMessageBatch")
        self.rehearse(says(refused, *OFTEN), "deadlettersnotsent")

    def test_a_function_fails_for_most_of_an_events_age(self) -> None:
        young, old = (handler_log(Fate.INVOKED, older=hours * HOUR) for hours in (10, 13))
        begun = self.rehearse([*says(young, *OFTEN[:6]), *says(old, *OFTEN[6:])], "eventsexpire")
        # The alarm begins with the first event that is older than twelve of 24 hours, not before.
        self.assertEqual(begun["eventsexpire"], [OFTEN[6] + 5 * MINUTE])

    def test_a_function_is_paused_for_most_of_an_events_age(self) -> None:
        paused = json.dumps([{"id": {"S": f"target/{FUNCTION}"}, "paused_at": {"N": "1700000000000"}}])
        register = '{"LEDGER_TABLE": "ledger", "REGISTER": "true"}'
        log = handler_log(Fate.INVOKED, older=13 * HOUR, environment=register, items=paused)
        self.assertFalse([line for line in log if "Invoked" in line])
        self.rehearse(says(log, *OFTEN), "eventsexpire")

    def test_an_outage_fills_a_queue_that_has_dead_letters_already(self) -> None:
        given_up = handler_log(Fate.WAITS, environment='{"MAX_ATTEMPTS": "1"}')
        before, growing = letters(3, range(0, HOUR, MINUTE)), letters(50, range(HOUR, 2 * HOUR, MINUTE))
        points = [*before, *growing, *says(given_up, HOUR, HOUR + 30 * MINUTE)]
        begun = self.rehearse(points, "deadletters", "deadlettersgrow", "eventsgivenup")
        # One alarm is on since the first letters. The others report the outage, one of them each of its waves.
        times = [begun[name] for name in ("deadletters", "deadlettersgrow", "eventsgivenup")]
        wave = HOUR + 5 * MINUTE
        self.assertEqual(times, [[5 * MINUTE], [wave], [wave, wave + 30 * MINUTE]])

    def test_events_that_never_succeed_are_tickets(self) -> None:
        points = [*letters(10, MINUTES), *says(handler_log(Fate.GIVEN_UP), *OFTEN)]
        self.rehearse(points, "deadletters")
        pages = BY_DEFAULT["SAM"]["eventsgivenup"]["AlarmActions"]
        tickets = EVERYTHING["SAM"]["deadletters"]["AlarmActions"]
        self.assertNotEqual(pages, tickets)

    def test_nobody_looks_at_dead_letters_for_eleven_days(self) -> None:
        age = aws("AWS/SQS", "ApproximateAgeOfOldestMessage", 11 * DAY, MINUTES, of="<dead-letter queue>")
        self.rehearse([*letters(1, MINUTES), *age], "deadletters", "deadlettersexpire")

    def test_retries_are_throttled(self) -> None:
        throttled = handler_log(Fate.INVOKED, "Invoke", THROTTLED)
        self.rehearse(says(throttled, *OFTEN), "throttledretries")
        # As long as some retries are accepted, the outage only makes them slow.
        self.rehearse([*says(throttled, *OFTEN), *says(handler_log(Fate.INVOKED), *OFTEN)])

    def test_a_function_cannot_be_invoked(self) -> None:
        self.rehearse(says(handler_log(Fate.INVOKED, "Invoke", FORBIDDEN), *OFTEN), "configurationfaults")

    def test_the_handler_runs_without_a_log(self) -> None:
        self.rehearse(invoked(OFTEN), "handlersilent")

    def test_the_log_arrives_without_its_metrics(self) -> None:
        # Lambda drops lines without a level, once a log level is set for the function.
        others = [line for line in handler_log(Fate.INVOKED) if "_aws" not in line]
        self.assertTrue(others)
        self.rehearse([*running(*OFTEN), *says(others, *OFTEN)], "handlersilent")

    def test_the_metric_filter_is_younger_than_the_handler(self) -> None:
        self.rehearse([*invoked(OFTEN), *aws("AWS/Logs", "IncomingLogEvents", 12, OFTEN)])

    def test_cloudwatch_cannot_read_the_metrics(self) -> None:
        for name in ("EMFParsingErrors", "EMFValidationErrors"):
            said = says(handler_log(Fate.INVOKED), *OFTEN)
            self.rehearse([*running(*OFTEN), *said, *aws("AWS/Logs", name, 1, OFTEN)], "handlersilent")

    def test_the_handler_fails(self) -> None:
        self.rehearse([*running(*OFTEN, failing=2), *says(handler_log(Fate.INVOKED), *OFTEN)], "handlererrors")
        # The handler logs nothing, but the reason is known.
        self.rehearse(running(*OFTEN, failing=3), "handlererrors")

    def test_the_handler_is_throttled_or_stopped(self) -> None:
        for metric, alarm in (
            ("Throttles", "handlerthrottles"),
            ("RecursiveInvocationsDropped", "handlerrecursionstopped"),
        ):
            self.rehearse(aws("AWS/Lambda", metric, 2, OFTEN), alarm)

    def test_the_mapping_is_disabled(self) -> None:
        self.rehearse(aws("AWS/SQS", "ApproximateNumberOfMessagesVisible", 7, MINUTES), "unreadmessages")

    def test_more_events_wait_than_is_healthy(self) -> None:
        in_flight = list(aws("AWS/SQS", "ApproximateNumberOfMessagesNotVisible", 45_000, MINUTES))
        self.rehearse(in_flight)
        self.rehearse([*in_flight, *aws("AWS/SQS", "ApproximateNumberOfMessagesDelayed", 9_000, MINUTES)], "backlog")

    def test_lambda_drops_failures_or_stops_a_function(self) -> None:
        for metric, alarm in (
            ("DestinationDeliveryFailures", "undeliveredfailures"),
            ("RecursiveInvocationsDropped", "recursionstopped"),
        ):
            self.rehearse(aws("AWS/Lambda", metric, 1, OFTEN, of="<target>"), alarm)

    def test_retries_are_late(self) -> None:
        # They were due 45 minutes ago.
        late = handler_log(Fate.INVOKED, environment='{"BASE_BACKOFF": "900", "MAX_BACKOFF": "900"}')
        self.rehearse(says(late, *OFTEN), "lateness")

    def test_the_ledger_cannot_be_used(self) -> None:
        refused = handler_log(Fate.INVOKED, "PutItem", environment='{"LEDGER_TABLE": "ledger"}')
        self.rehearse_optional(says(refused, *OFTEN), "ledgerfaults")

    def test_a_function_is_down(self) -> None:
        self.rehearse_optional(says([PROBED], *OFTEN), "circuitopen")


class RunbookTest(unittest.TestCase):
    """The runbook has a section for everything that refers to one."""

    SECTIONS = {heading.lower() for heading in re.findall(r"^##+ (\S+)$", RUNBOOK, re.MULTILINE)}

    def test_each_alarm_names_a_section(self) -> None:
        for alarms in (*BY_DEFAULT.values(), *EVERYTHING.values()):
            for name, alarm in alarms.items():
                self.assertTrue(alarm["AlarmDescription"].endswith(f" Runbook: docs/runbook.md#{name}"))
                self.assertIn(name, self.SECTIONS)

    def test_each_section_that_the_construct_names_is_there(self) -> None:
        code = "".join(path.read_text() for path in (ROOT / "infra/cdk/lib").glob("*.ts"))
        named = set(re.findall(r"docs/runbook\.md#(\w+)", code))
        self.assertTrue(named)
        self.assertLessEqual(named, self.SECTIONS)


class CommandTest(unittest.TestCase):
    """The commands on all pages are valid. Needs the program's debug build."""

    PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    # Commands in code blocks, and commands in the text, which may be wrapped. Comments are left out. A line of TOML
    # about the crate has an equals sign.
    COMMANDS = re.compile(r"^(?:\$ )?comeback (?!=)(.*?)(?:#.*)?$|`comeback ([^`]+)`", re.MULTILINE)
    # Parts of a command that the shell consumes, and the placeholder for any command.
    OTHERS = re.compile(r" [>|] .*|COMMAND")

    def test_the_program_takes_them(self) -> None:
        found = [each for page in self.PAGES for each in self.COMMANDS.findall(page.read_text())]
        written = {self.OTHERS.sub("", " ".join((block or text).split())) for block, text in found}
        commands = [shlex.split(each.replace('"$target"', "orders")) for each in written]
        self.assertGreater(len(commands), 60)
        for command in commands:
            # With --help, the program only parses its command line.
            answer = subprocess.run([TARGET / "debug/comeback", *command, "--help"], capture_output=True, check=False)
            self.assertEqual(answer.returncode, 0, f"{command}: {answer.stderr!r}")


class DashboardTest(unittest.TestCase):
    """Both dashboards."""

    def test_they_answer_the_same_questions_in_this_order(self) -> None:
        for who, system in EXAMPLES.items():
            (dashboard,) = (each for each in system.resources if each.type == "AWS::CloudWatch::Dashboard")
            widgets = json.loads(dashboard.properties["DashboardBody"])["widgets"]
            texts = [
                each["properties"]["markdown"]
                for each in sorted(widgets, key=lambda each: each["y"])
                if each["type"] == "text"
            ]
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
            handler_log(Fate.INVOKED, "PutItem", environment=ledger),
            [PROBED],
        )
        watch = CloudWatch([point for log in logs for point in says(log, HOUR)])
        for (namespace, dimension), names in self.OF_AWS.items():
            watch.add(Point(HOUR, namespace, name, {dimension: who}, (1,)) for name in names for who in self.OWNERS)
        for who, system in [*EXAMPLES.items(), *HARDENED.items()]:
            graphs = system.graphs()
            self.assertGreaterEqual(len(graphs), 10)
            for graph in graphs:
                for line, series in watch.drawn(graph).items():
                    self.assertEqual(set(series), {HOUR}, f"{who}: {graph['title']}: {line}")


class ExpressionTest(unittest.TestCase):
    """Expressions as CloudWatch calculates them."""

    def test_missing_values_stay_missing_except_in_the_sum_of_a_list(self) -> None:
        metrics = {"a": {0: 1.0, 60: 2.0, 120: 4.0}, "b": {60: 3.0}, "never": {}}
        for expression, expected in (
            ("a - b", {60: -1}),
            ("SUM([a, b, never])", {0: 1, 60: 5, 120: 4}),
            ("100 * a / 4", {0: 25, 60: 50, 120: 100}),
            ("DIFF(a)", {60: 1, 120: 2}),
            ("IF(SUM([a, b]) == a, a, 0)", {0: 1, 60: 0, 120: 4}),
            ("IF(SUM([a, never]) == a, a, 0)", {0: 1, 60: 2, 120: 4}),
        ):
            self.assertEqual(calculated(expression, metrics), expected, expression)


if __name__ == "__main__":
    unittest.main()
