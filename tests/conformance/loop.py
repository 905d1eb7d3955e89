"""Runs the whole retry loop in ministack: the real binaries with 140 events at once, none of which may be lost.

Unlike Lambda's, ministack's failure records have no version, time, request id or qualifier, so the handler has to use
the attributes of the SQS message. The only trace of a success is the function's run in its log, so the test counts
runs. A lost record makes one run too few, and a duplicate makes one too many.
"""

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import endpoints
from deployment import SETTINGS, TARGET, Loop, deploy
from endpoints import ACCOUNT, REGION

# Far longer than the loop takes. If it isn't done by then, something is lost.
PATIENCE_SECONDS = 80

CALLERS = 16


@dataclass(frozen=True)
class Kind:
    """Events with the same expected outcome."""

    name: str
    count: int
    fail: dict[str, Any]
    # The number of the target's runs for each event, and the reason if the event is given up.
    runs: int
    reason: str | None = None

    @property
    def failures(self) -> int:
        """The number of failure records for each event."""
        return self.runs if self.reason else self.runs - 1

    def payloads(self) -> list[dict[str, Any]]:
        """The payloads of the events. Careless parsing would change some of their values."""
        return [
            {
                "id": f"{self.name}-{number}",
                "big": 12345678901234567890123456789,
                "text": 'é "quoted" \\ \U0001f600',
                "fail": self.fail,
            }
            for number in range(self.count)
        ]


ATTEMPTS_MAX = int(SETTINGS["MAX_ATTEMPTS"])

KINDS = (
    Kind("recovers", 100, {"attempts": 3}, runs=4),
    Kind("never", 20, {}, runs=1 + ATTEMPTS_MAX, reason="max_attempts_exceeded"),
    Kind("permanent", 20, {"error": "PermanentFailure"}, runs=1, reason="not_retryable"),
)

# Messages that don't belong in the retry queue, with the reasons in their dead letters.
POISON = {
    "no JSON at all": "unreadable",
    '{"requestContext": {}}': "unreadable",
    json.dumps(
        {
            "requestContext": {
                "functionArn": f"arn:aws:lambda:{REGION}:999999999999:function:foreign",
                "condition": "RetriesExhausted",
            },
            "requestPayload": {"id": "foreign"},
        }
    ): "target_not_allowed",
    json.dumps(
        {
            "requestContext": {
                "functionArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{TARGET}",
                "condition": "RetriesExhausted",
            },
        }
    ): "payload_missing",
}


class DeadLetter(NamedTuple):
    """The parts of a dead letter that are compared."""

    body: str
    reason: str
    attempts: str | None


def expected_dead_letters() -> Counter[DeadLetter]:
    """All expected dead letters. Payloads are in ministack's format, because it parses and rewrites them."""
    given_up = [
        DeadLetter(json.dumps(payload), kind.reason, str(kind.runs - 1))
        for kind in KINDS
        if kind.reason is not None
        for payload in kind.payloads()
    ]
    poison = [
        DeadLetter(
            '{"id": "foreign"}' if reason == "target_not_allowed" else body,
            reason,
            None if reason == "unreadable" else "0",
        )
        for body, reason in POISON.items()
    ]
    return Counter(given_up + poison)


def as_received(message: dict[str, Any]) -> DeadLetter:
    """Reads a message of the dead-letter queue."""
    attributes = {name: attribute["StringValue"] for name, attribute in message["MessageAttributes"].items()}
    return DeadLetter(message["Body"], attributes["Reason"], attributes.get("Attempts"))


def send(loop: Loop) -> None:
    """Sends the poison messages to the retry queue, then invokes the target with all events at once."""
    payloads = [payload for kind in KINDS for payload in kind.payloads()]

    def invoke(payload: dict[str, Any]) -> int:
        answer = loop.functions.invoke(FunctionName=TARGET, InvocationType="Event", Payload=json.dumps(payload))
        return int(answer["StatusCode"])

    for body in POISON:
        loop.sqs.send_message(QueueUrl=loop.retry_queue, MessageBody=body)
    with ThreadPoolExecutor(CALLERS) as pool:
        statuses = set(pool.map(invoke, payloads))
    assert statuses == {202}, statuses


def collect(loop: Loop) -> list[DeadLetter]:
    """Waits until the retry queue is empty and all runs are logged. Returns the dead letters.

    Raises:
        TimeoutError: if that does not happen.
    """
    dead_letters: list[DeadLetter] = []
    runs = sum(kind.count * kind.runs for kind in KINDS)
    letters = expected_dead_letters().total()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        received = loop.sqs.receive_message(
            QueueUrl=loop.dead_letter_queue,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            VisibilityTimeout=6 * PATIENCE_SECONDS,
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        dead_letters += map(as_received, received)
        is_quiet = not received and loop.waiting_count() == 0
        if is_quiet and len(dead_letters) >= letters and loop.run_count(TARGET) >= runs:
            return dead_letters
    raise TimeoutError(
        f"after {PATIENCE_SECONDS} s {loop.run_count(TARGET)} of {runs} runs, "
        f"{len(dead_letters)} of {letters} dead letters, {loop.waiting_count()} messages waiting"
    )


def faults(loop: Loop, dead_letters: list[DeadLetter], *, with_ledger: bool) -> list[str]:
    """The differences from the expected result."""
    found = Counter(dead_letters)
    expected = expected_dead_letters()
    counts = {"runs": (sum(kind.count * kind.runs for kind in KINDS), loop.run_count(TARGET))}
    if with_ledger:
        # The handler claims neither unreadable messages nor failures of functions that it may not invoke.
        unclaimed = ("unreadable", "target_not_allowed")
        claimed = sum(reason not in unclaimed for reason in POISON.values())
        failures = sum(kind.count * kind.failures for kind in KINDS)
        counts["claims"] = (failures + claimed, loop.claim_count())
    return [
        *(f"lost: {letter}" for letter in (expected - found).elements()),
        *(f"not expected: {letter}" for letter in (found - expected).elements()),
        *(f"expected {wanted} {what}, got {got}" for what, (wanted, got) in counts.items() if wanted != got),
    ]


def main() -> int:
    """Runs the loop twice, without a ledger and with one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=Path, help="the folder of the built binaries")
    arguments = parser.parse_args()
    events = sum(kind.count for kind in KINDS)
    wrong: list[str] = []
    for with_ledger in (False, True):
        with endpoints.ministack() as ministack:
            loop = deploy(ministack, arguments.binaries, with_ledger=with_ledger)
            send(loop)
            found = faults(loop, collect(loop), with_ledger=with_ledger)
        ledger = "with" if with_ledger else "without"
        print(f"{ledger} a ledger: {events} events and {len(POISON)} messages of poison, {len(found)} faults")
        wrong += found
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
