"""The whole loop in ministack: the real binaries, a hundred events at once, and none may be lost.

ministack's failure records lack what Lambda's have: version, time, request id and qualifier. The
handler must make do with what SQS says. A success leaves no trace but its run in the log, so runs
are counted: one record lost is one run too few, one doubled is one too many.
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

# Far longer than the loop takes: then something is lost.
PATIENCE_SECONDS = 80

CALLERS = 16


@dataclass(frozen=True)
class Kind:
    """Events that all go the same way."""

    name: str
    count: int
    fail: dict[str, Any]
    # How often each runs, and why it is given up, if it is.
    runs: int
    reason: str | None = None

    @property
    def failures(self) -> int:
        """How many failure records each has."""
        return self.runs if self.reason else self.runs - 1

    def payloads(self) -> list[dict[str, Any]]:
        """What the target is invoked with: values that a careless hand would change."""
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

# Sent to the retry queue by whom it was not made for.
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
    """What is looked at of a dead letter."""

    body: str
    reason: str
    attempts: str | None


def expected_dead_letters() -> Counter[DeadLetter]:
    """All that must be given up; ministack itself writes payloads anew."""
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
    """A message of the dead-letter queue."""
    attributes = {name: attribute["StringValue"] for name, attribute in message["MessageAttributes"].items()}
    return DeadLetter(message["Body"], attributes["Reason"], attributes.get("Attempts"))


def send(loop: Loop) -> None:
    """Invokes the target with all events at once, among the poison."""
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
    """The dead letters, once nothing is in the retry queue and every run has been made.

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
    """What is not as it must be."""
    found = Counter(dead_letters)
    expected = expected_dead_letters()
    counts = {"runs": (sum(kind.count * kind.runs for kind in KINDS), loop.run_count(TARGET))}
    if with_ledger:
        # Not what concerns this handler only, or no failure at all.
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
