"""Runs the whole retry loop in ministack, LocalStack or LocalEmu: the real binaries with 140 events at once, none of
which may be lost, and a message of a queue whose consumer fails.

Unlike Lambda's, ministack's failure records have no version, time, request id or qualifier, so the handler has to use
the attributes of the SQS message. The only trace of a success is the function's run in its log, so the test counts
runs. A lost record makes one run too few, and a duplicate makes one too many.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import endpoints
from endpoints import ACCOUNT, REGION, ROLE, Endpoint, waiting_count
from inputs import zipped

HANDLER, TARGET, LEDGER, SOURCE = "retry-handler", "example-target", "ledger", "source"
HANDLER_TIMEOUT_SECONDS = 30
PROGRAM = {"Runtime": "provided.al2023", "Handler": "bootstrap"}
ATTEMPTS_MAX = 4
# Backoffs are short, because the test checks that all events are retried, not when.
SETTINGS = {"BASE_BACKOFF": "1s", "MAX_BACKOFF": "1s", "MAX_ATTEMPTS": str(ATTEMPTS_MAX)}

# Far longer than the loop takes. If it isn't done by then, something is lost.
PATIENCE_SECONDS = 240
CALLERS = 16


class Kind(NamedTuple):
    name: str
    count: int
    fail: dict[str, Any]
    # The number of the target's runs for each event, and the reason if the event is given up.
    runs: int
    reason: str | None = None

    def payloads(self) -> list[dict[str, Any]]:
        """The payloads of the events. Careless parsing would change some of their values."""
        text = 'é "quoted" \\ \U0001f600'
        return [
            {"id": f"{self.name}-{number}", "big": 12345678901234567890123456789, "text": text, "fail": self.fail}
            for number in range(self.count)
        ]


KINDS = (
    Kind("recovers", 100, {"attempts": 3}, runs=4),
    Kind("never", 20, {}, runs=1 + ATTEMPTS_MAX, reason="max_attempts_exceeded"),
    Kind("permanent", 20, {"error": "PermanentFailure"}, runs=1, reason="not_retryable"),
)
RUNS = sum(kind.count * kind.runs for kind in KINDS)
FAILURES = sum(kind.count * (kind.runs if kind.reason else kind.runs - 1) for kind in KINDS)
# The body, the reason and the attempts of each dead letter. Both parse payloads, and write them in their own way.
LETTERS = Counter(
    (json.dumps(payload), kind.reason, str(kind.runs - 1))
    for kind in KINDS
    if kind.reason
    for payload in kind.payloads()
)

# A message, and how often its consumer fails. LocalStack's mapping would write JSON in its own way.
BODY = 'no JSON: é "quoted" \\ \U0001f600'
ATTRIBUTES = {"Tenant": {"DataType": "String.tenant", "StringValue": "é"}}
CONSUMER_FAILURES = 2


def consume(sqs: Any, queue_url: str) -> list[str]:
    """Sends a message to a queue, and consumes it like a program that fails. Returns what was wrong.

    A message that is received and not deleted returns with its attributes and the number of its attempt.
    """
    sqs.send_message(QueueUrl=queue_url, MessageBody=BODY, MessageAttributes=ATTRIBUTES)
    told: list[tuple[str, Any, int | None]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(told) <= CONSUMER_FAILURES and time.monotonic() < deadline:
        # SQS moves a message only when it is polled after its visibility timeout.
        answer = sqs.receive_message(
            QueueUrl=queue_url, MessageAttributeNames=["All"], VisibilityTimeout=1, WaitTimeSeconds=1
        )
        for message in answer.get("Messages", []):
            metadata = message["MessageAttributes"].pop("_retry_metadata", {"StringValue": "{}"})
            attempt = json.loads(metadata["StringValue"]).get("attempt")
            told.append((message["Body"], message["MessageAttributes"], attempt))
    sqs.purge_queue(QueueUrl=queue_url)
    expected = [(BODY, ATTRIBUTES, attempt) for attempt in (None, *range(1, 1 + CONSUMER_FAILURES))]
    return [] if told == expected else [f"consumed from {queue_url}: expected {expected}, got {told}"]


class Loop:
    """The retry loop, deployed as a user would: two queues, the handler, and a target that sends failures to one."""

    def __init__(
        self,
        endpoint: Endpoint,
        handler: bytes,
        target: Mapping[str, Any],
        *,
        with_ledger: bool = False,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.sqs, self.functions, self.logs, self.dynamodb = map(endpoint.client, ("sqs", "lambda", "logs", "dynamodb"))
        self.dead_letter_queue = self.sqs.create_queue(QueueName="dead-letter-queue")["QueueUrl"]
        timeout = {"VisibilityTimeout": str(6 * HANDLER_TIMEOUT_SECONDS)}
        self.retry_queue = self.sqs.create_queue(QueueName="retry-queue", Attributes=timeout)["QueueUrl"]
        self.retry_queue_arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:retry-queue"
        redrive = json.dumps({"deadLetterTargetArn": self.retry_queue_arn, "maxReceiveCount": 1})
        attributes = {"VisibilityTimeout": "1", "RedrivePolicy": redrive}
        self.source = self.sqs.create_queue(QueueName=SOURCE, Attributes=attributes)["QueueUrl"]
        targets = {"TARGET_FUNCTIONS": f"{TARGET},sqs:{SOURCE}", "DEAD_LETTER_QUEUE_URL": self.dead_letter_queue}
        variables = {**SETTINGS, **targets, **settings}
        if with_ledger:
            self.dynamodb.create_table(
                TableName=LEDGER,
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("id", "run")],
                KeySchema=[
                    {"AttributeName": "id", "KeyType": "HASH"},
                    {"AttributeName": "run", "KeyType": "RANGE"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
            variables["LEDGER_TABLE"] = LEDGER
        of_handler = {
            **PROGRAM,
            "Code": {"ZipFile": handler},
            "Timeout": HANDLER_TIMEOUT_SECONDS,
            "Environment": {"Variables": variables},
        }
        for name, described in ((HANDLER, of_handler), (TARGET, target)):
            self.functions.create_function(FunctionName=name, Role=ROLE, **described)
        self.functions.put_function_event_invoke_config(
            FunctionName=TARGET,
            MaximumRetryAttempts=0,
            DestinationConfig={"OnFailure": {"Destination": self.retry_queue_arn}},
        )
        self.functions.create_event_source_mapping(
            FunctionName=HANDLER,
            EventSourceArn=self.retry_queue_arn,
            BatchSize=10,
            FunctionResponseTypes=["ReportBatchItemFailures"],
        )

    @classmethod
    def of(cls, endpoint: Endpoint, binaries: Path, **options: Any) -> Self:
        handler, target = (zipped({"bootstrap": (binaries / name).read_bytes()}) for name in (HANDLER, TARGET))
        return cls(endpoint, handler, {**PROGRAM, "Code": {"ZipFile": target}}, **options)

    def run_count(self) -> int:
        """The number of runs of the target, according to its log."""
        pages = self.logs.get_paginator("filter_log_events").paginate(
            logGroupName=f"/aws/lambda/{TARGET}", filterPattern='"START RequestId"'
        )
        return sum(event["message"].startswith("START RequestId") for page in pages for event in page["events"])

    def claim_count(self) -> int:
        pages = self.dynamodb.get_paginator("scan").paginate(TableName=LEDGER)
        return sum(claim["state"]["S"] == "done" for page in pages for claim in page["Items"])

    def send(self) -> None:
        def invoke(payload: dict[str, Any]) -> int:
            answer = self.functions.invoke(FunctionName=TARGET, InvocationType="Event", Payload=json.dumps(payload))
            return int(answer["StatusCode"])

        with ThreadPoolExecutor(CALLERS) as pool:
            statuses = set(pool.map(invoke, [payload for kind in KINDS for payload in kind.payloads()]))
        assert statuses == {202}, statuses

    def collect(self) -> Counter[tuple[str, str, str]]:
        """Waits until the retry queue is empty and all runs are logged. Returns the dead letters."""
        letters: Counter[tuple[str, str, str]] = Counter()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            received = self.sqs.receive_message(
                QueueUrl=self.dead_letter_queue,
                MaxNumberOfMessages=10,
                WaitTimeSeconds=1,
                VisibilityTimeout=6 * PATIENCE_SECONDS,
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            for message in received:
                told = {name: each["StringValue"] for name, each in message["MessageAttributes"].items()}
                letters[message["Body"], told["Reason"], told["Attempts"]] += 1
            waiting = waiting_count(self.sqs, self.retry_queue)
            if not received and waiting == 0 and letters.total() >= LETTERS.total() and self.run_count() >= RUNS:
                return letters
        raise TimeoutError(
            f"after {PATIENCE_SECONDS} s {self.run_count()} of {RUNS} runs, "
            f"{letters.total()} of {LETTERS.total()} dead letters, {waiting} messages waiting"
        )


def main() -> int:
    binaries, *options = sys.argv[1:]
    # Nothing, or the package of LocalStack or its fork, which this Python has.
    package = options[0].removeprefix("--") if options else None
    wrong: list[str] = []
    # LocalStack's DynamoDB is a jar.
    for with_ledger in (False,) if package == "localstack" else (False, True):
        with endpoints.localstack(package=package) if package else endpoints.ministack() as cloud:
            loop = Loop.of(cloud, Path(binaries), with_ledger=with_ledger)
            strange = consume(loop.sqs, loop.source)
            loop.send()
            letters = loop.collect()
            counts = {"runs": (RUNS, loop.run_count())}
            if with_ledger:
                counts["claims"] = (FAILURES + CONSUMER_FAILURES, loop.claim_count())
        found = strange + [f"lost: {letter}" for letter in (LETTERS - letters).elements()]
        found += [f"not expected: {letter}" for letter in (letters - LETTERS).elements()]
        found += [f"expected {wanted} {what}, got {got}" for what, (wanted, got) in counts.items() if wanted != got]
        ledger = "with" if with_ledger else "without"
        print(f"{ledger} a ledger: {sum(kind.count for kind in KINDS)} events, {len(found)} faults")
        wrong += found
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
