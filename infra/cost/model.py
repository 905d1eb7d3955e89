"""The cost of a retry, computed from the counted calls.

For AWS's own part in a retry, AWS's documentation is the source. Where nothing could be counted or read, the model has
a named assumption. In doubt, assumptions are too high for Comeback and too low for the alternatives.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

from prices import (
    CLOUDWATCH,
    DATA_RETAINED,
    DATA_WRITTEN,
    DURATION,
    DYNAMODB,
    ITEM_STORAGE,
    LAMBDA,
    LOG_INGESTION,
    LOG_STORAGE,
    METRIC,
    OPERATION,
    READ,
    REQUEST,
    SQS,
    SQS_REQUEST,
    TRANSITION,
    WRITE,
)

KIBIBYTE = 1024
# SQS bills a request for each chunk of this size, DynamoDB a write for each KiB of an item.
CHUNK_BYTES = 64 * KIBIBYTE

# The number of metrics that the alarms of the templates watch, because CloudWatch bills an alarm by its metrics. A
# query counts as one, although it is billed by the metrics that it finds: they exist only while there are dead letters.
SYSTEM_ALARMS = 14
QUEUE_ALARMS = 3
TARGET_ALARMS = 7
LEDGER_ALARMS = 1
PROBE_ALARMS = 1

MONTH_DAYS = 30
MONTH_SECONDS = 365 * 86_400 / 12
# `shared/flow/src/claims.rs`: the longest retention of SQS.
CLAIM_DAYS = 14
# The longest wait that is not split. The register has an item in its table and in its index as long as a wait lasts.
WAIT_DAYS = 0.5
# The default retention of the handler's log.
LOG_DAYS = 30

# Lambda's own log lines around an invocation and at a cold start, with the lengths that its
# documentation shows.
PLATFORM_LINES = (
    "START RequestId: 4ce9340a-b765-490f-ad8a-02ab3415e2bf Version: $LATEST",
    "END RequestId: 4ce9340a-b765-490f-ad8a-02ab3415e2bf",
    "REPORT RequestId: 4ce9340a-b765-490f-ad8a-02ab3415e2bf\tDuration: 126.73 ms\t"
    "Billed Duration: 127 ms\tMemory Size: 128 MB\tMax Memory Used: 75 MB\t"
    "Init Duration: 130.49 ms\t",
)
COLD_LINES = (
    "INIT_START Runtime Version: provided:al2023.v109\t"
    "Runtime Version ARN: arn:aws:lambda:us-east-1::runtime:" + "0" * 64,
)
# CloudWatch adds this to each line when it checks the size limit of a call. AWS does not document whether it is billed.
LINE_OVERHEAD_BYTES = 26

# Durations on Lambda can't be measured here. The estimate takes the CPU time from the README's bench, divides it by the
# share of a CPU that a function with this much memory gets, doubles it, and adds the time for AWS's answers.
MEMORY_MB = 128
ONE_CPU_MEMORY_MB = 1_769
MESSAGE_CPU_MS = 0.067
START_CPU_MS = 5.7
MARGIN = 2
CALL_MS = 25
# The time to open connections after a cold start.
CONNECT_MS = 50

# The event source mapping polls an empty queue with this many long-polling requests at a time. Lambda can reduce that
# to two, but not if a maximum concurrency is set, as it is here.
POLLERS = 5
POLL_SECONDS = 20

# While a target is down, the handler asks CloudWatch about once a minute for its invocations and errors.
DOWN_METRICS_READ = 2 * round(MONTH_SECONDS / 60)

# A `Retry` is one transition. A hand-written loop goes through three states.
RETRY_TRANSITIONS = 1
LOOP_TRANSITIONS = 3
# This is for a workflow with one Task. It is unclear whether its start and its end count too.
EVENT_TRANSITIONS = 1
# AWS counts "1 + N retries" operations for a step, and one more for the execution.
RETRY_OPERATIONS = 1
EVENT_OPERATIONS = 2
# The default retention of durable executions.
RETENTION_DAYS = 14

Fate = Literal["waits", "invoked", "given_up"]
# The optional parts that are switched on. Each mode includes the ones before it.
Mode = Literal["plain", "ledger", "register", "probes"]

# Dollars by service.
Bill = dict[str, float]


def together(*bills: Bill) -> Bill:
    """Adds up bills."""
    services = {service for bill in bills for service in bill}
    return {service: sum(bill.get(service, 0) for bill in bills) for service in services}


def times(number: float, bill: Bill) -> Bill:
    """A bill multiplied by a number."""
    return {service: number * dollars for service, dollars in bill.items()}


@dataclass(frozen=True)
class Batch:
    """The handler's usage for one batch of messages of one kind."""

    messages: int
    calls: dict[str, float]
    # In the unit that is billed: the bytes of SQS requests and of written items, the number of items read.
    largest_requests: dict[str, int]
    log_lines: int
    log_bytes: int
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """The counted figures: the sizes of a message, and a batch of each kind."""

    payload_bytes: int
    record_bytes: int
    error_bytes: int
    batches: dict[tuple[str, int, str], Batch]

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Reads what `tests/bench/count.py` printed."""
        batches = {
            (entry["fate"], entry["messages"], entry["mode"]): Batch(
                messages=entry["messages"],
                calls=entry["calls"],
                largest_requests=entry["largest_requests"],
                log_lines=entry["log_lines"],
                log_bytes=entry["log_bytes"],
                metrics=tuple(entry["metrics"]),
            )
            for entry in document["batches"]
        }
        return cls(**document["message"], batches=batches)

    def has(self, way: "Way") -> bool:
        """Whether retries of this kind were counted."""
        return ("invoked", way.batch, way.mode) in self.batches


@dataclass(frozen=True)
class Way:
    """How messages arrive at the handler: the size of their batches and payloads."""

    # The number of messages in one batch.
    batch: int
    mode: Mode = "plain"
    # How much larger their payloads are than the counted payload, in bytes.
    more_bytes: int = 0

    @property
    def is_cold(self) -> bool:
        """A message that is alone in its batch is assumed to cause a cold start."""
        return self.batch == 1

    @property
    def has_register(self) -> bool:
        """Whether the ledger's index lists waiting events."""
        return self.mode in ("register", "probes")


BUSY = Way(10)
QUIET = Way(1)
BUSY_ONCE = Way(10, "ledger")
QUIET_ONCE = Way(1, "ledger")
BUSY_LISTED = Way(10, "register")
QUIET_LISTED = Way(1, "register")
BUSY_PROBED = Way(10, "probes")
QUIET_PROBED = Way(1, "probes")


def chunks(size: int, chunk: int) -> int:
    """The number of billed units for something of this size."""
    return max(1, math.ceil(size / chunk))


def carried(size: int) -> float:
    """Dollars for one request of SQS of this size."""
    return chunks(size, CHUNK_BYTES) * SQS_REQUEST.each


def written(size: int) -> float:
    """Dollars for one write of DynamoDB of this size, into a table or an index."""
    return chunks(size, KIBIBYTE) * WRITE.each


def stored(size: int, days: float) -> float:
    """Dollars for an item of this size in DynamoDB."""
    return size * days / MONTH_DAYS * ITEM_STORAGE.each


def called(operation: str, size: int) -> Bill:
    """The bill for one call of the handler.

    Raises:
        ValueError: if the operation has no price yet.
    """
    match operation:
        case "ChangeMessageVisibilityBatch" | "SendMessageBatch":
            return {SQS: carried(size)}
        case "PutItem" | "UpdateItem":
            return {DYNAMODB: written(size)}
        case "BatchGetItem":
            # Each item is smaller than 4 KB, and an eventually consistent read of one is half a unit.
            return {DYNAMODB: size * READ.each / 2}
        case "Invoke":
            # The target's invocation costs the same in every system, so no system includes it.
            return {}
        case _:
            raise ValueError(f"expected an operation that has a price, got {operation}")


def billed_ms(batch: Batch, way: Way) -> int:
    """The billed duration of one invocation of the handler, including a cold start."""
    writes, updates, reads = (batch.calls.get(name, 0) for name in ("PutItem", "UpdateItem", "BatchGetItem"))
    cpu_ms = MESSAGE_CPU_MS * (batch.messages + writes + updates + reads)
    # One call, plus the table's calls before and after it. Writes for several messages run at the same time: with a
    # ledger, each message is claimed before the call and marked after it.
    waiting_ms = CALL_MS * (1 + writes / batch.messages + updates + reads)
    if way.is_cold:
        cpu_ms += START_CPU_MS
        waiting_ms += CONNECT_MS
    return math.ceil(MARGIN * cpu_ms * ONE_CPU_MEMORY_MB / MEMORY_MB + waiting_ms)


def logged_bytes(batch: Batch, way: Way) -> int:
    """The bytes that CloudWatch ingests from one invocation of the handler."""
    platform = PLATFORM_LINES + (COLD_LINES if way.is_cold else ())
    lines = batch.log_lines + len(platform)
    return batch.log_bytes + sum(map(len, platform)) + lines * LINE_OVERHEAD_BYTES


def sent(counted: Counted, way: Way) -> Bill:
    """The bill for a failure record that Lambda sends to the retry queue."""
    return {SQS: carried(counted.record_bytes + way.more_bytes)}


def kept(counted: Counted, fate: Fate, way: Way) -> Bill:
    """The bill for DynamoDB beyond its calls: it stores one message's items and maintains the index."""

    def item_bytes(fate: Fate) -> int:
        return counted.batches[fate, way.batch, way.mode].largest_requests["PutItem"]

    if way.mode == "plain":
        return {}
    match fate, way.has_register:
        case "waits", False:
            return {}
        case "waits", True:
            size = item_bytes("waits")
            return {DYNAMODB: written(size) + 2 * stored(size, WAIT_DAYS)}
        case "invoked", True:
            # The claim replaces the item of the wait, which removes that item from the index. A write is billed by the
            # larger of the two items.
            replaced, claim = item_bytes("waits"), item_bytes("invoked")
            larger = max(0, written(replaced) - written(claim))
            return {DYNAMODB: written(replaced) + larger + stored(claim, CLAIM_DAYS)}
        case _:
            return {DYNAMODB: stored(item_bytes(fate), CLAIM_DAYS)}


def handled(counted: Counted, fate: Fate, way: Way) -> Bill:
    """The bill for one message: its share of receiving, handling, logging, and deleting its batch."""
    batch = counted.batches[fate, way.batch, way.mode]
    received = carried((counted.record_bytes + way.more_bytes) * batch.messages)
    # AWS doesn't document whether Lambda deletes messages in batches. One request per message is assumed.
    deleted = 0 if fate == "waits" else batch.messages * SQS_REQUEST.each
    calls = (
        times(number, called(operation, batch.largest_requests[operation])) for operation, number in batch.calls.items()
    )
    gigabyte_seconds = billed_ms(batch, way) / 1000 * MEMORY_MB / KIBIBYTE
    logged = LOG_INGESTION.each + LOG_DAYS / MONTH_DAYS * LOG_STORAGE.each
    own = {
        SQS: received + deleted,
        LAMBDA: REQUEST.each + gigabyte_seconds * DURATION.each,
        CLOUDWATCH: logged_bytes(batch, way) * logged,
    }
    return together(times(1 / batch.messages, together(own, *calls)), kept(counted, fate, way))


def retry(counted: Counted, way: Way) -> Bill:
    """The bill for one retry: its failure record is sent, it waits, and the target is invoked."""
    return together(sent(counted, way), handled(counted, "waits", way), handled(counted, "invoked", way))


def delay(counted: Counted, way: Way) -> Bill:
    """The bill for a wait that is kept as a delay: one call sends the batch's messages again, and each is deleted."""
    batch = counted.batches["waits", way.batch, way.mode]
    changed = called("ChangeMessageVisibilityBatch", batch.largest_requests["ChangeMessageVisibilityBatch"])
    again = carried((counted.record_bytes + way.more_bytes) * batch.messages)
    more = (again - changed[SQS]) / batch.messages + SQS_REQUEST.each
    return together(handled(counted, "waits", way), {SQS: more})


def dead_letter(counted: Counted, way: Way) -> Bill:
    """The bill for one event that is given up, including its last failure record."""
    return together(sent(counted, way), handled(counted, "given_up", way))


def idle_requests() -> int:
    """The number of times that the mapping polls an empty queue in a month."""
    return round(POLLERS * MONTH_SECONDS / POLL_SECONDS)


@dataclass(frozen=True)
class Deployment:
    """A deployment's functions, its systems of a handler and a dead-letter queue, and their retry queues."""

    functions: int
    systems: int
    queues: int

    @classmethod
    def with_a_queue_each(cls, functions: int) -> Self:
        """CDK's default. Several functions also share one queue for redrives."""
        return cls(functions, 1, functions + (1 if functions > 1 else 0))

    @classmethod
    def with_a_shared_queue(cls, functions: int) -> Self:
        """CDK with `sharedQueue`, and one SAM application."""
        return cls(functions, 1, 1)

    @classmethod
    def with_a_system_each(cls, functions: int) -> Self:
        """SAM's application, nested once for each function."""
        return cls(functions, functions, functions)

    @property
    def polling(self) -> float:
        """Dollars a month for polling the queues while nothing fails."""
        return self.queues * idle_requests() * SQS_REQUEST.each

    @property
    def alarms(self) -> int:
        """The number of metrics that the alarms watch, without the alarms of a ledger and of probes."""
        return self.systems * SYSTEM_ALARMS + self.queues * QUEUE_ALARMS + self.functions * TARGET_ALARMS


def target_metrics(counted: Counted) -> set[str]:
    """The metrics of a target whose events are retried."""
    kinds = (counted.batches[fate, 1, "plain"] for fate in ("waits", "invoked"))
    return {metric for batch in kinds for metric in batch.metrics}


def durable_data(size: int) -> float:
    """Dollars for the data that a durable execution writes and keeps after its end."""
    return size * (DATA_WRITTEN.each + RETENTION_DAYS / MONTH_DAYS * DATA_RETAINED.each)


def durable_retry(counted: Counted) -> float:
    """Dollars for one retry of a durable function's step."""
    return RETRY_OPERATIONS * OPERATION.each + durable_data(counted.error_bytes)


def durable_event(counted: Counted) -> float:
    """Dollars for one event of a durable function with one step, before any retry."""
    return EVENT_OPERATIONS * OPERATION.each + durable_data(counted.payload_bytes)


@dataclass(frozen=True)
class Month:
    """The events of a month: how many there are, how many fail, and how many retries each failed one needs."""

    events: int
    failing: float
    retries_each: int

    @property
    def failures(self) -> float:
        """The number of events that fail."""
        return self.events * self.failing

    @property
    def retries(self) -> float:
        """How many retries the failed events need."""
        return self.failures * self.retries_each

    def comeback(self, counted: Counted) -> float:
        """Dollars if each message is alone in its batch and every hour has one, so metrics cost their full price."""
        polling = idle_requests() * SQS_REQUEST.each
        metrics = len(target_metrics(counted)) * METRIC.each
        return self.retries * sum(retry(counted, QUIET).values()) + polling + metrics

    def durable(self, counted: Counted) -> float:
        """Dollars for a durable function instead of the target."""
        return self.events * durable_event(counted) + self.retries * durable_retry(counted)

    def step_functions(self) -> float:
        """Dollars for a workflow around every event."""
        transitions = self.events * EVENT_TRANSITIONS + self.retries * RETRY_TRANSITIONS
        return transitions * TRANSITION.each

    def step_functions_for_failures(self) -> float:
        """Dollars if each failure starts a workflow with a Wait and a Task that retries the event."""
        return (self.failures + self.retries * RETRY_TRANSITIONS) * TRANSITION.each
