"""The input of the handlers: batches of failure records as Lambda and SQS make them.

Half of the messages have just failed and must wait. The other half failed an hour ago and are due. This holds for a
handler that looks at the clock, because an hour is longer than every backoff, and for one that counts receives, because
the waiting messages have one receive and the due ones two. In each half, every fifth message is of an event's first
failure, as if each event came back five times. The others have an envelope, or a note in the ledger (`Events`).

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
from dataclasses import dataclass, replace
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

# How often an event comes back.
RETRIES_EACH = 5

# The attempt in an enveloped payload.
ATTEMPT = 2

ARRANGEMENTS = ("sorted", "mixed")


class Fate(Enum):
    """What the handler must do with a message."""

    WAITS = "waits"
    INVOKED = "invoked"
    GIVEN_UP = "given_up"


class Events(Enum):
    """Of which failures the messages are, and how the handler knows."""

    # Every fifth is of an event's first failure. The others have an envelope.
    ENVELOPED = "enveloped"
    # The same without envelopes. Of the later failures, the ledger has notes after `beginnings`.
    MIXED = "mixed"
    FIRST = "first"
    LATER = "later"


@dataclass(frozen=True)
class Message:
    id: str
    receipt_handle: str
    fate: Fate
    payload: dict[str, Any]
    next_attempt: int
    # The request id of the run that failed.
    request_id: str
    is_enveloped: bool


@dataclass(frozen=True)
class Batch:
    """The messages of one invocation, and its event as bytes."""

    messages: tuple[Message, ...]
    event: bytes
    # The time in the event at which waiting messages were sent. It is replaced by the time at which the handler gets
    # the batch: in a long run, they would count as a backlog.
    sent_at: bytes = b""

    def sent(self, now: datetime) -> bytes:
        return self.event.replace(self.sent_at, _milliseconds(now).encode()) if self.sent_at else self.event


def batches(arrangement: str, count: int, events: Events = Events.ENVELOPED, payload_kib: int = 1) -> list[Batch]:
    """Makes `count` batches whose messages failed just now or an hour ago. Calls differ only in these times."""
    made = []
    for number in range(count):
        dues = [(number if arrangement == "sorted" else place) % 2 for place in range(BATCH_SIZE)]
        made.append([Fate.INVOKED if due else Fate.WAITS for due in dues])
    return _batches(made, events, payload_kib)


def batches_of(fate: Fate, size: int, count: int, events: Events = Events.ENVELOPED) -> list[Batch]:
    """Makes `count` batches of this size, all of one kind. Calls that differ only in the fate make the same events."""
    return _batches([[fate] * size] * count, events)


def beginnings(batches: Sequence[Batch]) -> list[Batch]:
    """Makes batches of the first failures, all due, of the events whose later failures these batches have."""
    later = [each for batch in batches for each in batch.messages if each.next_attempt > 1 and not each.is_enveloped]
    firsts = [replace(each, fate=Fate.INVOKED, next_attempt=1, request_id=run_of(each.request_id)) for each in later]
    source, now = random.Random(20220202), datetime.now(UTC)
    return [_batch(firsts[at : at + BATCH_SIZE], now, source) for at in range(0, len(firsts), BATCH_SIZE)]


def run_of(text: str) -> str:
    """A request id that belongs to a text: that of the run in which Lambda invokes this order."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def _batches(fates: Sequence[Sequence[Fate]], events: Events, payload_kib: int = 1) -> list[Batch]:
    source = random.Random(20220201)
    more = _more(payload_kib)
    now = datetime.now(UTC)
    made = []
    ordinals = itertools.count()
    for batch in fates:
        messages = [_message(fate, _is_later(next(ordinals), events), events, more, source) for fate in batch]
        made.append(_batch(messages, now, source))
    return made


def _is_later(ordinal: int, events: Events) -> bool:
    # First failures come in pairs, so both the due and the waiting messages have some.
    return events is Events.LATER or (events is not Events.FIRST and ordinal // 2 % RETRIES_EACH > 0)


def _batch(messages: Sequence[Message], now: datetime, source: random.Random) -> Batch:
    event = json.dumps({"Records": [_record(each, now, source) for each in messages]}, separators=(",", ":"))
    return Batch(tuple(messages), event.encode(), _milliseconds(now).encode())


def _milliseconds(time: datetime) -> str:
    return str(int(time.timestamp() * 1000))


def _message(fate: Fate, is_later: bool, events: Events, more: dict[str, Any], source: random.Random) -> Message:
    payload, is_enveloped = _payload(source) | more, events is Events.ENVELOPED
    attempt = ATTEMPT if is_enveloped else 1
    id_, receipt_handle, request_id = _uuid(source), source.randbytes(256), _uuid(source)
    return Message(
        id=id_,
        receipt_handle=base64.b64encode(receipt_handle).decode(),
        fate=fate,
        payload=payload,
        next_attempt=attempt + 1 if is_later else 1,
        request_id=run_of(payload["order"]) if is_later and not is_enveloped else request_id,
        is_enveloped=is_later and is_enveloped,
    )


def _record(message: Message, now: datetime, source: random.Random) -> dict[str, Any]:
    is_due = message.fate is Fate.INVOKED
    failed_at = now - DUE_SINCE if is_due else now
    body = json.dumps(_failure_record(message, failed_at, source), separators=(",", ":"))
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "2" if is_due else "1",
            "AWSTraceHeader": f"Root=1-{source.getrandbits(32):08x}-{source.getrandbits(96):024x};"
            f"Parent={source.getrandbits(64):016x};Sampled=0;Lineage=1:{source.getrandbits(32):08x}:0",
            "SentTimestamp": _milliseconds(failed_at),
            "SenderId": "AROAEXAMPLEEXAMPLEXMP:orders",
            "ApproximateFirstReceiveTimestamp": _milliseconds(now),
        },
        "messageAttributes": {},
        "md5OfBody": f"{source.getrandbits(128):032x}",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE_ARN,
        "awsRegion": REGION,
    }


def _failure_record(message: Message, failed_at: datetime, source: random.Random) -> dict[str, Any]:
    payload = message.payload
    if message.is_enveloped:
        first_failure = failed_at - timedelta(minutes=40)
        metadata = {
            "attempt": ATTEMPT,
            "initial_timestamp": int(first_failure.timestamp()),
            "request_id": _uuid(source),
        }
        payload = {"_retry_metadata": metadata, "_original_payload": payload}
    error = {
        "errorMessage": "HTTPSConnectionPool(host='example.com', port=443): Read timed out.",
        # PermanentFailure is never retried.
        "errorType": "PermanentFailure" if message.fate is Fate.GIVEN_UP else "ReadTimeout",
        "requestId": _uuid(source),
        "stackTrace": ['  File "/var/task/app.py", line 42, in handler\n    charge(event["order"])\n'],
    }
    return failure_record(TARGET, payload, failed_at, message.request_id, error)


def _payload(source: random.Random) -> dict[str, Any]:
    """Makes a payload of about a kilobyte: an order with some lines."""
    lines = [_line(source) for _ in range(6)]
    return {
        "order": _uuid(source),
        "customer": {"id": source.randrange(10**12), "email": "someone@example.com"},
        "lines": lines,
        "deliver_to": {"street": "Keizersgracht 1", "city": "Amsterdam", "country": "NL"},
        "note": "Leave it with the neighbours at number 3 if nobody is at home, please.",
    }


def _line(source: random.Random) -> dict[str, Any]:
    return {
        "sku": f"SKU-{source.randrange(10**6):06d}",
        "title": source.choice(("Kettle, 1.7 l, steel", "Desk lamp, black", "Bicycle bell")),
        "quantity": source.randrange(1, 9),
        "unit_price": {"amount": source.randrange(10**5), "currency": "EUR"},
    }


def _more(payload_kib: int) -> dict[str, Any]:
    """The members that a payload of about this size has more than one of a kilobyte: more lines."""
    source = random.Random(20220203)
    more: list[dict[str, Any]] = []
    size = 1024 * (payload_kib - 1)
    while size > 0:
        more.append(_line(source))
        size -= len(json.dumps(more[-1], separators=(",", ":"))) + 1
    return {"more": more} if more else {}


def _uuid(source: random.Random) -> str:
    return str(uuid.UUID(int=source.getrandbits(128), version=4))
