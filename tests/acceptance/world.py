"""The scenarios' view of the system: they send events and wait for the results."""

import functools
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aws import Account, Stopped
from inputs import failure_record
from stack import Deployed, given_up

# Far longer than the backoffs of all attempts, cold starts, and the delay of logs together.
PATIENCE_SECONDS = 150


class Failed(Exception):
    """What was expected, and what was found."""


class Skipped(Exception):
    """The reason why a scenario can't run here."""


@dataclass
class Cached:
    """A value that many scenarios poll, fetched only at intervals."""

    ask: Callable[[], Any]
    seconds: float
    _got: Any = None
    _until: float = 0
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> Any:
        with self._asking:
            if time.monotonic() >= self._until:
                self._got = self.ask()
                self._until = time.monotonic() + self.seconds
            return self._got


@dataclass
class World:
    account: Account
    # Physical names by logical names.
    names: dict[str, str]
    # One function for each log group.
    logged: tuple[str, ...]
    systems: dict[str, Deployed]
    program: Path | None
    stop: threading.Event
    interval: float
    # The name of the run's bucket.
    bucket: str
    # Held while a scenario needs the dead letters of the second system for itself.
    second_letters: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        first = self.systems["Retry"]
        self._logs = [self._cached(functools.partial(first.log, self.names[name])) for name in self.logged]
        self._handlers = {
            name: self._cached(functools.partial(system.log, system.handler)) for name, system in self.systems.items()
        }
        # All dead letters of the first system so far.
        self.letters = self._gathered(self.systems["Retry"].dead_letters)
        self._spied = self._gathered(self._receive_spied)

    def _cached(self, ask: Callable[[], Any]) -> Cached:
        return Cached(ask, self.interval)

    def _gathered(self, receive: Callable[[], Any]) -> Cached:
        """All messages that were received so far."""
        found: dict[str, dict[str, Any]] = {}

        def gather() -> list[dict[str, Any]]:
            while messages := receive():
                found.update({each["MessageId"]: each for each in messages})
            return list(found.values())

        return self._cached(gather)

    def until(self, what: str, look: Callable[[], Any], expected: Any, seconds: float = PATIENCE_SECONDS) -> None:
        """Polls until a value is as expected, or fails in the end."""
        deadline = time.monotonic() + seconds
        while (got := look()) != expected:
            if self.stop.wait(self.interval):
                raise Stopped
            if time.monotonic() > deadline:
                raise Failed(f"{what}: expected {expected!r} within {seconds:g} s, got {got!r}")

    def absent(self, look: Callable[[], int], seconds: float) -> bool:
        """Whether nothing appears within this time, or within a few seconds in an emulator."""
        try:
            self.until("", lambda: look() > 0, True, min(seconds, 5) if self.account.emulator else seconds)
        except Failed:
            return True
        return False

    def send(self, function: str, **order: Any) -> str:
        """Sends a function an event with an id of its own. Returns the id."""
        event = secrets.token_hex(6)
        self.send_bytes(function, json.dumps({"id": event, **order}).encode())
        return event

    def send_bytes(self, function: str, payload: bytes) -> str:
        """Sends a function these bytes. Returns the request id that the answer names."""
        functions = self.account.client("lambda")
        answer = functions.invoke(FunctionName=self.names[function], InvocationType="Event", Payload=payload)
        return str(answer["ResponseMetadata"]["RequestId"])

    def send_traced(self, function: str) -> tuple[str, str, str]:
        """Sends a function an event that fails, with a trace header. Returns its id, the trace's Root, and the header
        of the answer."""
        event, root = secrets.token_hex(6), f"1-{int(time.time()):08x}-{secrets.token_hex(12)}"
        payload = json.dumps({"id": event, "fail": {}}).encode()
        self.account.traces[payload] = f"Root={root};Parent={secrets.token_hex(8)};Sampled=0"
        functions = self.account.client("lambda")
        answer = functions.invoke(FunctionName=self.names[function], InvocationType="Event", Payload=payload)
        return event, root, answer["ResponseMetadata"]["HTTPHeaders"].get("x-amzn-trace-id", "")

    def traces_of_runs(self, event: str) -> list[str]:
        """The trace headers of the runs in which an event failed."""
        return [line["trace"] for line in self._lines() if line.get("failing") == event]

    def placed(self, event: str) -> list[int]:
        """The attempts in which an event succeeded."""
        return [line["attempt"] for line in self._lines() if line.get("placed") == event]

    def stopped(self, event: str) -> list[dict[str, Any]]:
        """The loop's log lines about refused calls of Invoke."""
        return [line for line in self._lines() if line.get("stopped") == event]

    def _lines(self) -> Iterator[dict[str, Any]]:
        for log in self._logs:
            yield from documents(log())

    def handled(self, system: str = "Retry", of: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        """The lines that a handler logged about a function, or about any, with these fields."""
        lines = documents(self._handlers[system]())
        if of:
            lines = (line for line in lines if f":{self.names[of]}" in line.get("target", ""))
        return [line for line in lines if all(line.get(name) == value for name, value in fields.items())]

    def logs(self) -> list[list[str]]:
        return [log() for log in (*self._logs, *self._handlers.values())]

    def warnings(self) -> dict[str, int]:
        """The handlers' warnings and errors, with their counts."""
        lines = [line for system in self.systems for line in self.handled(system)]
        serious = [line for line in lines if line.get("level") in ("WARN", "ERROR") and line["message"] != "given up"]
        return dict(Counter(": ".join(line[part] for part in ("message", "error") if part in line) for line in serious))

    def letter(self, event: str) -> tuple[str, str, str] | None:
        """The reason of a dead letter of the first system, the number of its attempts and its body."""
        found = [each for each in self.letters() if event in each["Body"]]
        return given_up(found[0]) if found else None

    def reason(self, event: str) -> str | None:
        letter = self.letter(event)
        return letter[0] if letter else None

    def spied(self, event: str) -> list[dict[str, Any]]:
        """The messages with failure records of an event, as Lambda sent them to a queue that nothing else reads."""
        return [each for each in self._spied() if event in each["Body"]]

    def _receive_spied(self) -> Any:
        received = self.account.client("sqs").receive_message(
            QueueUrl=self.names["Spy"],
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            VisibilityTimeout=3600,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return received.get("Messages")

    def arn(self, function: str) -> str:
        """A function's ARN, as in failure records."""
        functions = self.account.client("lambda")
        configuration = functions.get_function_configuration(FunctionName=self.names[function])
        return f"{configuration['FunctionArn']}:$LATEST"

    def fail(self, function_arn: str, request_id: str, payload: str, message: str = "") -> None:
        """Sends the failure record of a function to the first system, as its operator."""
        error = {"errorType": "UpstreamUnavailable", "errorMessage": message}
        record = failure_record(function_arn, "PAYLOAD", request_id=request_id, error=error)
        self.put(json.dumps(record).replace('"PAYLOAD"', payload))

    def put(self, body: str) -> None:
        """Sends a message to the retry queue of the first system, as its operator."""
        system = self.systems["Retry"]
        system.send_as_operator(system.retry_queue_name, body)

    def comeback(self, *arguments: str, system: str = "Retry", as_operator: bool = True) -> Any:
        """Runs a command of the operator's program on a system, and returns what it prints."""
        if self.program is None:
            raise Skipped("no program `comeback`; pass it with --comeback")
        deployed = self.systems[system]
        return deployed.comeback(self.program, *arguments, "--handler", deployed.handler, as_operator=as_operator)


def documents(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The JSON objects among the lines of a log."""
    for line in lines:
        if line.startswith("{"):
            yield json.loads(line)
