"""What a retry costs: how many units of each price it takes, and what these units cost.

A usage says how many units of each price of `infra/cdk/contract/prices.json` something takes, in requests, bytes,
seconds or months. The calls of the handler are counted (`counted.json`), and AWS's documentation says what AWS does
itself. Where nothing could be counted or read, there is a named assumption. In doubt, assumptions are too high for
Comeback and too low for the alternatives.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "infra/cdk/contract"

# AWS's prices in US East (N. Virginia): the first tier of each, without the free tier. AWS's price pages load their
# numbers with JavaScript, so stored copies of the pages mostly lack them. Each price therefore names the source that
# quoted it and the date.
PRICES: dict[str, dict[str, Any]] = json.loads((CONTRACT / "prices.json").read_text())
MILLION = 1_000_000
# Some services may count 2^30 bytes as a GB. Then the real price is a little lower than the one computed here.
UNITS = {"thousand": 1000, "million": MILLION, "GB": 10**9, "GB-month": 10**9}

# The units of each price. A sum of usages leaves out what is not positive.
Usage = Counter[str]


def stated(file: str, number: str) -> float:
    """The number that this file states once, at the group of this pattern."""
    found = re.findall(number, (ROOT / file).read_text(), re.MULTILINE)
    if len(found) != 1:
        raise ValueError(f"{file}: expected one match of {number}, got {found}")
    return float(found[0])


KIBIBYTE = 1024
# SQS bills a request for each chunk of this size.
CHUNK_BYTES = 64 * KIBIBYTE
# Lambda bills an asynchronous invocation with a payload up to this size as one request, and each further chunk as one
# more.
REQUEST_BYTES = 256 * KIBIBYTE
# The largest message of SQS, the largest messages of one call together, and the largest asynchronous payload.
MESSAGE_MAX_BYTES = PAYLOAD_MAX_BYTES = 1024 * KIBIBYTE
# The largest input of a state of Step Functions.
STATE_MAX_BYTES = 256 * KIBIBYTE

MONTH_DAYS = 30
MONTH_SECONDS = 365 * 86_400 / 12
# `shared/flow/src/claims.rs`: the longest retention of SQS.
CLAIM_DAYS = 14
# The longest wait that is not split. The register has its item as long as a wait lasts.
WAIT_DAYS = 0.5
# A record is kept in its bucket for the default maximum age, as long as a dead letter is, and a little longer.
RECORD_DAYS = (
    int(json.loads((CONTRACT / "settings.json").read_text())["MAX_AGE"]["default"].removesuffix("d"))
    + CLAIM_DAYS
    + json.loads((CONTRACT / "records.json").read_text())["slack_days"]
)
# How many records are read at the same time.
READS_AT_ONCE = stated("shared/flow/src/fetch.rs", r"^const READS_AT_ONCE: usize = (\d+);$")
# The default retention of the handler's log.
LOG_DAYS = stated("infra/sam/template.yaml", r"^  LogRetentionDays:\n(?:    .*\n)*?    Default: (\d+)$")
# The default retention of durable executions.
RETENTION_DAYS = 14

# Lambda's own log lines around an invocation and at a cold start, with the lengths that its documentation shows.
PLATFORM_LINES = (
    "START RequestId: 4ce9340a-b765-490f-ad8a-02ab3415e2bf Version: $LATEST",
    "END RequestId: 4ce9340a-b765-490f-ad8a-02ab3415e2bf",
    "REPORT RequestId: 4ce9340a-b765-490f-ad8a-02ab3415e2bf\tDuration: 126.73 ms\tBilled Duration: 127 ms\t"
    "Memory Size: 128 MB\tMax Memory Used: 75 MB\tInit Duration: 130.49 ms\t",
)
COLD_LINES = (
    "INIT_START Runtime Version: provided:al2023.v109\t"
    "Runtime Version ARN: arn:aws:lambda:us-east-1::runtime:" + "0" * 64,
)
# CloudWatch adds this to each line when it checks the size limit of a call. AWS does not document whether it is billed.
LINE_OVERHEAD_BYTES = 26

# Durations on Lambda can't be measured here. The estimate takes the CPU time that the bench measured, divides it by the
# share of a CPU that a function with this much memory gets, doubles it, and adds the time for AWS's answers.
MEMORY_MB = stated("infra/sam/template.yaml", r"^ +MemorySize: (\d+)$")
ONE_CPU_MEMORY_MB = 1_769
MESSAGE_CPU_MS = stated("docs/measured.md", r"^\| CPU per message, each batch half and half \| ([\d.]+) µs ") / 1000
START_CPU_MS = stated("docs/measured.md", r"^\| process start to first answer \| ([\d.]+) ms ")
MARGIN = 2
CALL_MS = 25
# The time to open connections after a cold start.
CONNECT_MS = 50

# The event source mapping polls an empty queue with this many long-polling requests at a time. Lambda can reduce that
# to two, but not if a maximum concurrency is set, as it is here.
POLLERS = 5
POLL_SECONDS = 20
POLLING = Usage(sqs_request=round(POLLERS * MONTH_SECONDS / POLL_SECONDS))

# While a target is down, the handler asks CloudWatch about once a minute for its invocations and errors.
DOWN = Usage(metric_read=2 * round(MONTH_SECONDS / 60))

# A `Retry` is one transition, and so is a workflow with one Task. It is unclear whether its start and its end count
# too. A hand-written loop goes through three states.
TRANSITION = Usage(transition=1)
LOOP_TRANSITIONS = 3


DEFINITIONS: dict[str, dict[str, Any]] = json.loads((CONTRACT / "alarms.json").read_text())


# What the alarms of a system, of each retry queue and of each target are about.
OWNERS = {
    "system": ("region", "dead_letter_queue", "handler"),
    "queue": ("queue",),
    "target": ("target", "function"),
}


def watched(owner: str, only_with: str | None = None) -> int:
    """The number of metrics that the alarms of an owner watch, always or only with what may be switched on.

    CloudWatch bills an alarm by its metrics. A query counts as one, although it is billed by the metrics that it finds:
    they exist only while there are dead letters.
    """
    own = (each for each in DEFINITIONS.values() if each["of"] in OWNERS[owner] and each.get("only_with") == only_with)
    return sum(max(1, len(alarm["metrics"])) for alarm in own)


def switches() -> list[str]:
    """What must be switched on for some alarms."""
    return list(dict.fromkeys(each["only_with"] for each in DEFINITIONS.values() if "only_with" in each))


def each(price: str) -> float:
    """Dollars for one request, one second, one byte or one month."""
    return PRICES[price]["dollars"] / UNITS.get(PRICES[price]["unit"], 1)


def dollars(usage: Usage, service: str = "") -> float:
    """Dollars for a usage, of all services or of one."""
    return sum(number * each(price) for price, number in usage.items() if service in ("", PRICES[price]["service"]))


def is_of_table(price: str) -> bool:
    """Whether DynamoDB asks this price."""
    return bool(PRICES[price]["service"] == "DynamoDB")


def times(number: float, usage: Usage) -> Usage:
    return Usage({price: number * units for price, units in usage.items()})


class Way(NamedTuple):
    """How messages arrive at the handler: the size of their batches and payloads, and what is switched on."""

    # The number of messages in one batch. A message that is alone in its batch is assumed to cause a cold start.
    batch: int
    # What is switched on: one of the modes of `tests/bench/count.py`.
    mode: str = "plain"
    # How much larger their payloads are than the counted payload, in bytes.
    more_bytes: int = 0


BUSY, QUIET = 10, 1

# The modes in which records lie in a bucket.
IN_BUCKET = ("records", "drop_in_records", "everything")


class Counted:
    """The counted figures: the sizes of a message, and a batch of each kind. `tests/bench/count.py` printed them."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.payload_bytes, self.record_bytes, self.error_bytes, self.notice_bytes = (
            document["message"][f"{part}_bytes"] for part in ("payload", "record", "error", "notice")
        )
        self.batches = {(each["fate"], each["messages"], each["mode"]): each for each in document["batches"]}

    def of(self, fate: str, way: Way) -> dict[str, Any]:
        return self.batches[fate, way.batch, way.mode]

    def message_bytes(self, way: Way) -> int:
        """The size of a message: that of the failure record, or of the notice about it."""
        return self.notice_bytes if way.mode in IN_BUCKET else self.record_bytes + way.more_bytes

    def is_possible(self, way: Way) -> bool:
        """Whether a payload of this size can come back."""
        payload_bytes = self.of("invoked", way)["sizes"]["Invoke"] + way.more_bytes
        return self.message_bytes(way) <= MESSAGE_MAX_BYTES and payload_bytes <= PAYLOAD_MAX_BYTES

    def target_metrics(self) -> list[str]:
        """The metrics of a target whose events are retried."""
        kinds = (self.of(fate, Way(QUIET)) for fate in ("waits", "invoked"))
        return sorted({metric for batch in kinds for metric in batch["metrics"]})


def chunks(size: int, chunk: int) -> int:
    """The number of billed units for something of this size."""
    return max(1, math.ceil(size / chunk))


def carried(size: int, messages: int = 1) -> Usage:
    """Requests of SQS with messages of this size, as many in a request as it can have."""
    at_once = max(1, min(messages, MESSAGE_MAX_BYTES // size))
    full, rest = divmod(messages, at_once)
    return Usage(sqs_request=full * chunks(at_once * size, CHUNK_BYTES) + (rest and chunks(rest * size, CHUNK_BYTES)))


def invoked(size: int) -> Usage:
    """An asynchronous invocation with a payload of this size. Its first request is the target's run, which costs the
    same in every system, so no system includes it."""
    return Usage(lambda_request=max(0, math.ceil((size - REQUEST_BYTES) / CHUNK_BYTES)))


def stored(size: float, days: float) -> Usage:
    """An item of this size in DynamoDB."""
    return Usage({"item_storage": size * days / MONTH_DAYS})


def written(units: float) -> Usage:
    return Usage({"write_of_dynamodb": units})


def read(units: float) -> Usage:
    return Usage({"read": units})


# What a call of the handler takes, by its size. That of a call to DynamoDB is the number of its units.
CALLS: dict[str, Callable[[float], Usage]] = {
    "ChangeMessageVisibilityBatch": carried,
    "SendMessageBatch": carried,
    "PutItem": written,
    "UpdateItem": written,
    "DeleteItem": written,
    "TransactWriteItems": written,
    "BatchGetItem": read,
    "Query": read,
    "Invoke": invoked,
    "GetObject": lambda _: Usage(get=1),
}
WRITES = [name for name, takes in CALLS.items() if takes is written]


def billed_ms(counted: Counted, fate: str, way: Way) -> int:
    """The billed duration of one invocation of the handler, including a cold start."""
    calls = Counter(counted.of(fate, way)["calls"])
    writes = sum(calls[name] for name in WRITES)
    reads, queries, gets = calls["BatchGetItem"], calls["Query"], calls["GetObject"]
    cpu_ms = MESSAGE_CPU_MS * (way.batch + writes + reads + queries + gets)
    # One call, plus the table's and the bucket's. The writes for several messages run at the same time, and so do
    # queries: with a ledger, each message is claimed before the call and marked after it. The circuit's is one more.
    rounds, rest = divmod(writes, way.batch)
    waiting_ms = CALL_MS * (1 + rounds + min(1, rest) + reads + min(1, queries) + math.ceil(gets / READS_AT_ONCE))
    if way.batch == QUIET:
        cpu_ms += START_CPU_MS
        waiting_ms += CONNECT_MS
    return math.ceil(MARGIN * cpu_ms * ONE_CPU_MEMORY_MB / MEMORY_MB + waiting_ms)


def logged_bytes(counted: Counted, fate: str, way: Way) -> int:
    """The bytes that CloudWatch ingests from one invocation of the handler."""
    batch = counted.of(fate, way)
    platform = PLATFORM_LINES + (COLD_LINES if way.batch == QUIET else ())
    lines = batch["log_lines"] + len(platform)
    return batch["log_bytes"] + sum(map(len, platform)) + lines * LINE_OVERHEAD_BYTES


def kept(counted: Counted, fate: str, way: Way) -> Usage:
    """What DynamoDB stores of one message: the register's item until the wait ends, and then claims and notes."""
    return stored(counted.of(fate, way)["stored_bytes"], WAIT_DAYS if fate == "waits" else CLAIM_DAYS)


def sent(counted: Counted, way: Way) -> Usage:
    """A failure record that Lambda sends to the retry queue, or puts into a bucket, which then sends a notice."""
    message = carried(counted.message_bytes(way))
    if way.mode not in IN_BUCKET:
        return message
    record_bytes = counted.record_bytes + way.more_bytes
    return message + Usage({"put": 1, "object_storage": record_bytes * RECORD_DAYS / MONTH_DAYS})


def handled(counted: Counted, fate: str, way: Way) -> Usage:
    """One message's share of receiving, handling, logging and deleting its batch."""
    batch = counted.of(fate, way)
    # AWS doesn't document whether Lambda deletes messages in batches. One request per message is assumed.
    deleted = Usage(sqs_request=0 if fate == "waits" else way.batch)
    # Only the target's payload grows with the event.
    sizes = batch["sizes"] | {"Invoke": batch["sizes"].get("Invoke", 0) + way.more_bytes}
    calls = (times(number, CALLS[name](sizes[name])) for name, number in batch["calls"].items())
    logged = logged_bytes(counted, fate, way)
    own = {
        "lambda_request": 1,
        "gb_second": billed_ms(counted, fate, way) / 1000 * MEMORY_MB / KIBIBYTE,
        "gb_of_log": logged,
        "log_storage": logged * LOG_DAYS / MONTH_DAYS,
    }
    received = carried(counted.message_bytes(way), way.batch)
    whole = received + deleted + Usage(own) + sum(calls, Usage())
    return times(1 / way.batch, whole) + kept(counted, fate, way)


def retry(counted: Counted, way: Way) -> Usage:
    """One retry: its failure record is sent, it waits, and the target is invoked."""
    return sent(counted, way) + handled(counted, "waits", way) + handled(counted, "invoked", way)


def back(counted: Counted, way: Way) -> Usage:
    """One message that a consumer could not process, and that is sent back to its queue. SQS moved it to the retry
    queue; AWS lists no charge for that."""
    sends = carried(counted.record_bytes + way.more_bytes, way.batch)
    return handled(counted, "waits", way) + handled(counted, "invoked", way) + times(1 / way.batch, sends)


def changed(way: Way) -> Usage:
    """One wait of a consumer that changes the visibility timeout of a batch itself, and receives it again."""
    return Usage(sqs_request=2 / way.batch)


def delay(counted: Counted, way: Way) -> Usage:
    """A wait that is kept as a delay: one call sends the batch's messages again, and each is deleted."""
    changed = carried(counted.of("waits", way)["sizes"]["ChangeMessageVisibilityBatch"])
    again = carried(counted.record_bytes + way.more_bytes, way.batch)
    again.subtract(changed)
    return handled(counted, "waits", way) + times(1 / way.batch, again) + Usage(sqs_request=1)


def dead_letter(counted: Counted, way: Way) -> Usage:
    """One event that is given up, including its last failure record."""
    return sent(counted, way) + handled(counted, "given_up", way)


def durable(operations: int, size: int) -> Usage:
    """Operations of a durable execution, and the data that it writes and keeps after its end."""
    return Usage(operation=operations, data_written=size, data_retained=size * RETENTION_DAYS / MONTH_DAYS)


def durable_retry(counted: Counted) -> Usage:
    """One retry of a durable function's step."""
    return durable(1, counted.error_bytes)


def durable_event(counted: Counted) -> Usage:
    """One event of a durable function with one step. AWS counts one operation more for the execution."""
    return durable(2, counted.payload_bytes)


def deployed(functions: int, systems: int, queues: int, with_alarms: bool) -> Usage:
    """A month in which nothing fails, without the alarms that need what may be switched on."""
    alarms = systems * watched("system") + queues * watched("queue") + functions * watched("target")
    return times(queues, POLLING) + Usage(alarm=alarms if with_alarms else 0)


# The events of a month, how many of them fail, and how often each of those is retried: the counted batches have first
# and later failures as such events have them.
EVENTS, FAILING, RETRIES_EACH = MILLION, 0.01, int(stated("tests/bench/messages.py", r"^RETRIES_EACH = (\d+)$"))


def month(counted: Counted) -> dict[str, Usage]:
    """A month of one function. With Comeback each message is alone in its batch, and every hour has one, so metrics
    cost their full price."""
    failures = EVENTS * FAILING
    retries = failures * RETRIES_EACH
    metrics = Usage(metric=len(counted.target_metrics()))
    return {
        "Step Functions, started for failures only": times(failures + retries, TRANSITION),
        "Comeback, quiet": times(retries, retry(counted, Way(QUIET))) + POLLING + metrics,
        "Lambda's durable functions": times(EVENTS, durable_event(counted)) + times(retries, durable_retry(counted)),
        "Step Functions, around every event": times(EVENTS + retries, TRANSITION),
    }
