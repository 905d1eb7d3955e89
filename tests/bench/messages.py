"""What the handlers are fed with: batches of failure records as Lambda and SQS make them.

Half of the messages have just failed and are to wait; half failed an hour ago and are due. Both
ways of deciding come to the same: a handler that looks at the clock finds the hour longer than any
backoff, and one that counts receives finds the first or the second. Within each half, every other
payload already is an envelope.

How the halves meet is the arrangement. In the `sorted` one each batch is of one kind, so that ten
changes of visibility can share a call; in the `mixed` one each batch has five of each.
"""

import base64
import json
import random
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

BATCH_SIZE = 10

ACCOUNT = "123456789012"
REGION = "us-east-1"
TARGET = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:orders:$LATEST"
QUEUE_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:retry-queue"

# Every backoff is a quarter of an hour: longer than a run, shorter than the hour that the due
# messages have waited.
BACKOFF = timedelta(minutes=15)
DUE_SINCE = timedelta(hours=1)

# The attempt whose failure an enveloped payload tells of.
ATTEMPT = 2

ARRANGEMENTS = ("sorted", "mixed")


@dataclass(frozen=True)
class Message:
    """One message, and what a handler has to make of it."""

    id: str
    receipt_handle: str
    is_due: bool
    payload: dict[str, Any]
    next_attempt: int


@dataclass(frozen=True)
class Batch:
    """The messages of one invocation, and its event as it goes over the wire."""

    messages: tuple[Message, ...]
    event: bytes


def batches(arrangement: str, count: int) -> list[Batch]:
    """So many batches whose messages fail now, or an hour ago; the same ones but for the time."""
    source = random.Random(20220201)
    now = datetime.now(UTC)
    return [_batch(arrangement, number, now, source) for number in range(count)]


def _batch(arrangement: str, number: int, now: datetime, source: random.Random) -> Batch:
    made = []
    for place in range(BATCH_SIZE):
        is_due = (number if arrangement == "sorted" else place) % 2 == 1
        is_retry = place // 2 % 2 == 1
        made.append(_message(is_due, is_retry, now, source))
    event = json.dumps({"Records": [record for _, record in made]}, separators=(",", ":"))
    return Batch(tuple(message for message, _ in made), event.encode())


def _message(
    is_due: bool, is_retry: bool, now: datetime, source: random.Random
) -> tuple[Message, dict[str, Any]]:
    failed_at = now - DUE_SINCE if is_due else now
    payload = _payload(source)
    message = Message(
        id=_uuid(source),
        receipt_handle=base64.b64encode(source.randbytes(256)).decode(),
        is_due=is_due,
        payload=payload,
        next_attempt=ATTEMPT + 1 if is_retry else 1,
    )
    body = json.dumps(_failure_record(payload, is_retry, failed_at, source), separators=(",", ":"))
    received_at = str(int(now.timestamp() * 1000))
    record = {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "2" if is_due else "1",
            "AWSTraceHeader": f"Root=1-{source.getrandbits(32):08x}-{source.getrandbits(96):024x};"
            f"Parent={source.getrandbits(64):016x};Sampled=0;Lineage=1:{source.getrandbits(32):08x}:0",
            "SentTimestamp": str(int(failed_at.timestamp() * 1000)),
            "SenderId": "AROAEXAMPLEEXAMPLEXMP:orders",
            "ApproximateFirstReceiveTimestamp": received_at,
        },
        "messageAttributes": {},
        "md5OfBody": f"{source.getrandbits(128):032x}",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE_ARN,
        "awsRegion": REGION,
    }
    return message, record


def _failure_record(
    payload: dict[str, Any], is_retry: bool, failed_at: datetime, source: random.Random
) -> dict[str, Any]:
    if is_retry:
        first_failure = failed_at - timedelta(minutes=40)
        metadata = {"attempt": ATTEMPT, "initial_timestamp": int(first_failure.timestamp())}
        payload = {"_retry_metadata": metadata, "_original_payload": payload}
    return {
        "version": "1.0",
        "timestamp": failed_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "requestContext": {
            "requestId": _uuid(source),
            "functionArn": TARGET,
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 1,
        },
        "requestPayload": payload,
        "responseContext": {
            "statusCode": 200,
            "executedVersion": "$LATEST",
            "functionError": "Unhandled",
        },
        "responsePayload": {
            "errorMessage": "HTTPSConnectionPool(host='example.com', port=443): Read timed out.",
            "errorType": "ReadTimeout",
            "requestId": _uuid(source),
            "stackTrace": [
                '  File "/var/task/app.py", line 42, in handler\n    charge(event["order"])\n'
            ],
        },
    }


def _payload(source: random.Random) -> dict[str, Any]:
    """About a kilobyte: an order of some lines, as functions are given them."""
    lines = [
        {
            "sku": f"SKU-{source.randrange(10**6):06d}",
            "title": source.choice(("Kettle, 1.7 l, steel", "Desk lamp, black", "Bicycle bell")),
            "quantity": source.randrange(1, 9),
            "unit_price": {"amount": source.randrange(10**5), "currency": "EUR"},
        }
        for _ in range(6)
    ]
    return {
        "order": _uuid(source),
        "customer": {"id": source.randrange(10**12), "email": "someone@example.com"},
        "lines": lines,
        "deliver_to": {"street": "Keizersgracht 1", "city": "Amsterdam", "country": "NL"},
        "note": "Leave it with the neighbours at number 3 if nobody is at home, please.",
    }


def _uuid(source: random.Random) -> str:
    return str(uuid.UUID(int=source.getrandbits(128), version=4))
