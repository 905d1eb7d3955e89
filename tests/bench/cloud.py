"""The part of AWS that a retry handler talks to, on loopback. It answers at once.

One listener plays five services. The Lambda Runtime API hands out batches and receives their answers. SQS accepts every
visibility change and every dead letter, and has nothing in flight. Lambda accepts every asynchronous invocation.
DynamoDB has a table (`table.py`), or one that is always empty. S3 has the failure records that notices are about. The
listener understands only as much of HTTP as the clients under test use, and reports anything else. Requests are stored
and checked after the run, so that a handler waits as little as possible.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from messages import ACCOUNT, BACKOFF, QUEUE_ARN, REGION, TARGET, Batch, Fate, Message
from table import ConditionFailed, Table

OWN_ARN = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:retry-handler"

# The handler's timeout.
TIMEOUT_MS = 30_000

RUNTIME = "/2018-06-01/runtime/"
INVOCATION = RUNTIME + "invocation/"
FUNCTIONS = "/2015-03-31/functions/"
INVOCATIONS = "/invocations"


class NotMeasured(Exception):
    """The handler does not do its work, so its figures would be worthless."""


def _all_successful(body: bytes) -> bytes:
    entries = json.loads(body).get("Entries")
    if entries is None:
        return b""
    # The response to a visibility change has no MessageId and no MD5. Clients ignore them there.
    successful = [{"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "0"} for entry in entries]
    return json.dumps({"Successful": successful, "Failed": []}).encode()


def _nothing_found(body: bytes) -> bytes:
    tables = json.loads(body)["RequestItems"]
    return json.dumps({"Responses": {table: [] for table in tables}, "UnprocessedKeys": {}}).encode()


# The answers to AWS's operations.
ANSWERS: dict[str, Callable[[bytes], bytes]] = {
    "ChangeMessageVisibility": _all_successful,
    "ChangeMessageVisibilityBatch": _all_successful,
    "SendMessageBatch": _all_successful,
    "GetQueueAttributes": lambda _: b'{"Attributes":{"ApproximateNumberOfMessagesNotVisible":"0"}}',
    "PutItem": lambda _: b"{}",
    "UpdateItem": lambda _: b"{}",
    "DeleteItem": lambda _: b"{}",
    "Query": lambda _: b'{"Items":[],"Count":0,"ScannedCount":0}',
    "BatchGetItem": _nothing_found,
    "TransactWriteItems": lambda _: b"{}",
}
# The operations of DynamoDB.
READS = ("BatchGetItem", "Query")
OF_TABLE = ("PutItem", "UpdateItem", "DeleteItem", *READS, "TransactWriteItems")


@dataclass
class Cloud:
    """The batches for a handler, and its requests."""

    batches: Sequence[Batch]
    # Responses that differ from the usual ones, by operation. These requests are not noted.
    instead: Mapping[str, bytes] = field(default_factory=dict)
    # The objects of S3 by their paths.
    objects: Mapping[str, bytes] = field(default_factory=dict)
    # The ledger. Without one, DynamoDB accepts every write, and finds nothing.
    table: Table | None = None
    # What the table answers. It accepts other calls without a look, as if there were no table.
    asked_of_table: Sequence[str] = OF_TABLE
    # Makes the request id of an invocation from its payload and its ordinal.
    run_id: Callable[[bytes, int], str] = lambda _, ordinal: f"{ordinal:08x}-0000-4000-8000-000000000001"
    # The operation and the body of each request to AWS.
    calls: list[tuple[str, bytes]] = field(default_factory=list)
    # The operation and the units of each call that the table was asked.
    units: list[tuple[str, float]] = field(default_factory=list)
    # The function and the body of each invocation.
    invocations: list[tuple[str, bytes]] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    first_answer_at: float | None = None
    # Done when the handler asks for another batch after the last; failed when it reports an error.
    finished: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def answer(self, method: str, path: str, target: str, body: bytes) -> bytes | None:
        """Returns the response to a request, or `None` if the request must wait forever."""
        if path == INVOCATION + "next":
            return self._next()
        if path.startswith(INVOCATION) and path.endswith("/response"):
            self.first_answer_at = self.first_answer_at or time.perf_counter()
            self.answers.append(body)
            return response(202, b'{"status":"OK"}')
        if path.startswith(RUNTIME):
            raise NotMeasured(f"the handler reported {path}: {body.decode(errors='replace')}")
        if method == "GET" and path in self.objects:
            self.calls.append(("GetObject", b""))
            return response(200, self.objects[path])
        is_invoke = path.startswith(FUNCTIONS) and path.endswith(INVOCATIONS)
        # CloudWatch's protocol has the operation in the path.
        operation = "Invoke" if is_invoke else target.rpartition(".")[2] or path.rpartition("/operation/")[2]
        if operation in self.instead:
            return self.instead[operation]
        if is_invoke:
            self.calls.append(("Invoke", body))
            self.invocations.append((path[len(FUNCTIONS) : -len(INVOCATIONS)], body))
            return response(202, b"", f"x-amzn-RequestId: {self.run_id(body, len(self.invocations))}\r\n")
        if path != "/" or operation not in ANSWERS:
            raise NotMeasured(f"expected a call of a handler, got {method} {path} {target}")
        self.calls.append((operation, body))
        if self.table and operation in self.asked_of_table:
            return self._of_table(self.table, operation, json.loads(body))
        return response(200, ANSWERS[operation](body))

    def _of_table(self, table: Table, operation: str, request: Any) -> bytes:
        try:
            answer, units = table.answer(operation, request)
        except ConditionFailed as refused:
            self.units.append((operation, refused.units))
            code = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
            said = {"__type": code, "message": "The conditional request failed", "Item": refused.item}
            return response(400, json.dumps(said).encode())
        self.units.append((operation, units))
        return response(200, json.dumps(answer).encode())

    def fail(self, error: NotMeasured) -> None:
        """Ends the run."""
        if not self.finished.done():
            self.finished.set_exception(error)

    def of(self, *operations: str) -> list[Any]:
        return [json.loads(body) for operation, body in self.calls if operation in operations]

    def sizes(self) -> dict[str, list[float]]:
        """The sizes of the requests by operation, in bytes, or in the units that the table was asked for."""
        found: dict[str, list[float]] = {}
        measured = [(operation, float(len(body))) for operation, body in self.calls]
        if self.table:
            measured = [each for each in measured if each[0] not in self.asked_of_table] + self.units
        for operation, size in measured:
            found.setdefault(operation, []).append(size)
        return found

    def _next(self) -> bytes | None:
        given = len(self.answers)
        if given == len(self.batches):
            self.finished.set_result(None)
            return None
        deadline = int(time.time() * 1000) + TIMEOUT_MS
        return response(
            200,
            self.batches[given].sent(datetime.now(UTC)),
            f"Lambda-Runtime-Aws-Request-Id: {given:08x}-0000-4000-8000-000000000000\r\n"
            f"Lambda-Runtime-Deadline-Ms: {deadline}\r\n"
            f"Lambda-Runtime-Invoked-Function-Arn: {OWN_ARN}\r\n"
            f"Lambda-Runtime-Trace-Id: Root=1-00000000-{given:024x};Sampled=0\r\n",
        )

    def check(self) -> None:
        for batch, answer in zip(self.batches, self.answers, strict=True):
            failures = json.loads(answer)["batchItemFailures"]
            staying = [failure["itemIdentifier"] for failure in failures]
            expected = [message.id for message in batch.messages if message.fate is Fate.WAITS]
            _expect_same("items reported as failed", sorted(staying), sorted(expected))
        messages: dict[Fate, list[Message]] = {fate: [] for fate in Fate}
        for batch in self.batches:
            for message in batch.messages:
                messages[message.fate].append(message)
        self._check_changes(messages[Fate.WAITS])
        self._check_invocations(messages[Fate.INVOKED])
        self._check_letters(messages[Fate.GIVEN_UP])

    def _check_changes(self, waiting: Iterable[Message]) -> None:
        requests = self.of("ChangeMessageVisibility", "ChangeMessageVisibilityBatch")
        for request in requests:
            _expect_same("queue", request["QueueUrl"].rsplit("/")[-1], QUEUE_ARN.rsplit(":")[-1])
        changed = [entry for request in requests for entry in request.get("Entries", [request])]
        longest = int(BACKOFF.total_seconds())
        for change in changed:
            # The wait is the rest of a backoff that began when the batches were made.
            if not 0 < longest - change["VisibilityTimeout"] + 1 < 300:
                raise NotMeasured(f"expected a wait of {longest} s at most, got {change}")
        handles = sorted(change["ReceiptHandle"] for change in changed)
        _expect_same("handles", handles, sorted(message.receipt_handle for message in waiting))

    def _check_invocations(self, due: Iterable[Message]) -> None:
        expected = {message.payload["order"]: message for message in due}
        for function, body in self.invocations:
            _expect_same("function", unquote(function), TARGET)
            envelope = json.loads(body)
            # A function without an envelope gets its payload.
            payload: Any = envelope.get("_original_payload", envelope)
            message = expected.pop(payload["order"], None)
            if message is None:
                raise NotMeasured(f"expected each due message to be invoked once, got {payload}")
            _expect_same("payload", payload, message.payload)
            if payload is not envelope:
                _expect_same("attempt", envelope["_retry_metadata"]["attempt"], message.next_attempt)
        _expect_same("due messages left", len(expected), 0)

    def _check_letters(self, given_up: Iterable[Message]) -> None:
        expected = sorted(message.payload["order"] for message in given_up)
        entries = [entry for letters in self.of("SendMessageBatch") for entry in letters["Entries"]]
        sent = sorted(json.loads(entry["MessageBody"])["order"] for entry in entries)
        _expect_same("dead letters", sent, expected)


async def serve(cloud: Cloud, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers all requests of one kept-alive connection."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *lines = head.rstrip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            if "transfer-encoding" in headers or "expect" in headers:
                raise NotMeasured(f"expected a plain request, got {head!r}")
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _version = request_line.split(" ")
            answer = cloud.answer(method, path, headers.get("x-amz-target", ""), body)
            if answer is not None:
                writer.write(answer)
    except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        # The handler has closed the connection or was killed, or the run is over.
        writer.close()
    except (NotMeasured, ValueError, KeyError, TypeError) as error:
        is_said = isinstance(error, NotMeasured)
        cloud.fail(error if is_said else NotMeasured(f"wrote what can't be read: {error!r}"))
        writer.transport.abort()


def response(status: int, body: bytes, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{headers}\r\n".encode() + body


def _expect_same(what: str, got: object, expected: object) -> None:
    if got != expected:
        raise NotMeasured(f"expected {what} {expected!r}, got {got!r}")
