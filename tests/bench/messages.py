"""The input of the handlers: batches of failure records as Lambda and SQS make them.

Half of the messages have just failed and must wait. The other half failed an hour ago and are due. This holds for a
handler that looks at the clock, because an hour is longer than every backoff, and for one that counts receives, because
the waiting messages have one receive and the due ones two. In each half, every other payload is already an envelope.

In the `sorted` arrangement each batch has messages of one kind, so ten visibility changes can share a call. In the
`mixed` arrangement each batch has five messages of each kind.

To count the calls for one kind of message, `batches_of` makes batches of only that kind, of any size. There is also a
third kind, which is given up: messages with a permanent error.
"""

import base64
import itertools
import json
import random
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "conformance"))

from inputs import failure_record

BATCH_SIZE = 10

ACCOUNT = "123456789012"
REGION = "us-east-1"
TARGET = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:orders:$LATEST"
QUEUE_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:retry-queue"

# Every backoff is longer than a run, and shorter than the hour that the due messages have waited.
BACKOFF = timedelta(minutes=15)
DUE_SINCE = timedelta(hours=1)

# The attempt in an enveloped payload.
ATTEMPT = 2

ARRANGEMENTS = ("sorted", "mixed")


class Fate(Enum):
    """What the handler must do with a message."""

    WAITS = "waits"
    INVOKED = "invoked"
    GIVEN_UP = "given_up"


@dataclass(frozen=True)
class Message:
    id: str
    receipt_handle: str
    fate: Fate
    payload: dict[str, Any]
    next_attempt: int


@dataclass(frozen=True)
class Batch:
    """The messages of one invocation, and its event as bytes."""

    messages: tuple[Message, ...]
    event: bytes


def batches(arrangement: str, count: int) -> list[Batch]:
    """Makes `count` batches whose messages failed just now or an hour ago. Calls differ only in these times."""
    made = []
    for number in range(count):
        dues = [(number if arrangement == "sorted" else place) % 2 for place in range(BATCH_SIZE)]
        made.append([Fate.INVOKED if due else Fate.WAITS for due in dues])
    return _batches(made)


def batches_of(fate: Fate, size: int, count: int) -> list[Batch]:
    """Makes `count` batches of this size, all of one kind."""
    return _batches([[fate] * size] * count)


def _batches(fates: Sequence[Sequence[Fate]]) -> list[Batch]:
    source = random.Random(20220201)
    now = datetime.now(UTC)
    made = []
    ordinals = itertools.count()
    for batch in fates:
        # Two retries follow two first failures, so both the due and the waiting messages have some of each.
        messages = [_message(fate, next(ordinals) // 2 % 2 == 1, now, source) for fate in batch]
        event = json.dumps({"Records": [record for _, record in messages]}, separators=(",", ":"))
        made.append(Batch(tuple(message for message, _ in messages), event.encode()))
    return made


def _message(fate: Fate, is_retry: bool, now: datetime, source: random.Random) -> tuple[Message, dict[str, Any]]:
    is_due = fate is Fate.INVOKED
    failed_at = now - DUE_SINCE if is_due else now
    payload = _payload(source)
    message = Message(
        id=_uuid(source),
        receipt_handle=base64.b64encode(source.randbytes(256)).decode(),
        fate=fate,
        payload=payload,
        next_attempt=ATTEMPT + 1 if is_retry else 1,
    )
    body = json.dumps(_failure_record(message, failed_at, source), separators=(",", ":"))
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


def _failure_record(message: Message, failed_at: datetime, source: random.Random) -> dict[str, Any]:
    payload = message.payload
    if message.next_attempt > 1:
        first_failure = failed_at - timedelta(minutes=40)
        metadata = {
            "attempt": ATTEMPT,
            "initial_timestamp": int(first_failure.timestamp()),
            "request_id": _uuid(source),
        }
        payload = {"_retry_metadata": metadata, "_original_payload": payload}
    request_id = _uuid(source)
    error = {
        "errorMessage": "HTTPSConnectionPool(host='example.com', port=443): Read timed out.",
        # PermanentFailure is never retried.
        "errorType": "PermanentFailure" if message.fate is Fate.GIVEN_UP else "ReadTimeout",
        "requestId": _uuid(source),
        "stackTrace": ['  File "/var/task/app.py", line 42, in handler\n    charge(event["order"])\n'],
    }
    return failure_record(TARGET, payload, failed_at, request_id, error)


def _payload(source: random.Random) -> dict[str, Any]:
    """Makes a payload of about a kilobyte: an order with some lines."""
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
