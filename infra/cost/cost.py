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
# SQS bills a request for each chunk of this size, DynamoDB a write for each KiB of an item.
CHUNK_BYTES = 64 * KIBIBYTE

MONTH_DAYS = 30
MONTH_SECONDS = 365 * 86_400 / 12
# `shared/flow/src/claims.rs`: the longest retention of SQS.
CLAIM_DAYS = 14
# The longest wait that is not split. The register has an item in its table and in its index as long as a wait lasts.
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


def times(number: float, usage: Usage) -> Usage:
    return Usage({price: number * units for price, units in usage.items()})


class Way(NamedTuple):
    """How messages arrive at the handler: the size of their batches and payloads, and what is switched on."""

    # The number of messages in one batch. A message that is alone in its batch is assumed to cause a cold start.
    batch: int
    # The optional parts that are switched on: plain, ledger, register or probes, each with the ones before it;
    # transparent, with the ledger; or records, in a bucket.
    mode: str = "plain"
    # How much larger their payloads are than the counted payload, in bytes.
    more_bytes: int = 0


BUSY, QUIET = 10, 1


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
        return self.notice_bytes if way.mode == "records" else self.record_bytes + way.more_bytes

    def target_metrics(self) -> list[str]:
        """The metrics of a target whose events are retried."""
        kinds = (self.of(fate, Way(QUIET)) for fate in ("waits", "invoked"))
        return sorted({metric for batch in kinds for metric in batch["metrics"]})


def chunks(size: int, chunk: int) -> int:
    """The number of billed units for something of this size."""
    return max(1, math.ceil(size / chunk))


def carried(size: int) -> Usage:
    """A request of SQS of this size."""
    return Usage(sqs_request=chunks(size, CHUNK_BYTES))


def written(size: int) -> Usage:
    """A write of DynamoDB of this size, into a table or an index."""
    return Usage(write_of_dynamodb=chunks(size, KIBIBYTE))


def stored(size: float, days: float) -> Usage:
    """An item of this size in DynamoDB."""
    return Usage({"item_storage": size * days / MONTH_DAYS})


# What a call of the handler takes, by its size. Each item that is read is smaller than 4 KB: the size is the number of
# eventually consistent reads, each of which is half a unit. Of a transaction it is the number of units. The target's
# invocation costs the same in every system, so no system includes it.
CALLS = {
    "ChangeMessageVisibilityBatch": carried,
    "SendMessageBatch": carried,
    "PutItem": written,
    "UpdateItem": written,
    "BatchGetItem": lambda reads: Usage(read=reads / 2),
    "TransactWriteItems": lambda units: Usage(write_of_dynamodb=units),
    "Invoke": lambda _: Usage(),
    "GetObject": lambda _: Usage(get=1),
}


def billed_ms(counted: Counted, fate: str, way: Way) -> int:
    """The billed duration of one invocation of the handler, including a cold start."""
    batch = counted.of(fate, way)
    names = ("PutItem", "TransactWriteItems", "UpdateItem", "BatchGetItem", "GetObject")
    puts, transactions, updates, reads, gets = (batch["calls"].get(name, 0) for name in names)
    writes = puts + transactions
    cpu_ms = MESSAGE_CPU_MS * (way.batch + writes + updates + reads + gets)
    # One call, plus the table's calls before and after it. Writes for several messages run at the same time: with a
    # ledger, each message is claimed before the call and marked after it.
    waiting_ms = CALL_MS * (1 + writes / way.batch + updates + reads + math.ceil(gets / READS_AT_ONCE))
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
    """What DynamoDB takes beyond its calls: it stores one message's items and maintains the index."""

    def item(fate: str) -> int:
        return counted.of(fate, way)["largest_requests"]["PutItem"]

    if way.mode in ("plain", "records"):
        return Usage()
    if way.mode == "transparent":
        # The claim and the note, each of which is smaller than this.
        return stored(2 * KIBIBYTE, CLAIM_DAYS) if fate == "invoked" else Usage()
    match fate, way.mode != "ledger":
        case "waits", False:
            return Usage()
        case "waits", True:
            return written(item("waits")) + stored(2 * item("waits"), WAIT_DAYS)
        case "invoked", True:
            # The claim replaces the item of the wait, which removes that item from the index. A write is billed by the
            # larger of the two items.
            larger = written(item("waits")) - written(item("invoked"))
            return written(item("waits")) + larger + stored(item("invoked"), CLAIM_DAYS)
        case _:
            return stored(item(fate), CLAIM_DAYS)


def sent(counted: Counted, way: Way) -> Usage:
    """A failure record that Lambda sends to the retry queue, or puts into a bucket, which then sends a notice."""
    message = carried(counted.message_bytes(way))
    if way.mode != "records":
        return message
    record_bytes = counted.record_bytes + way.more_bytes
    return message + Usage({"put": 1, "object_storage": record_bytes * RECORD_DAYS / MONTH_DAYS})


def handled(counted: Counted, fate: str, way: Way) -> Usage:
    """One message's share of receiving, handling, logging and deleting its batch."""
    batch = counted.of(fate, way)
    # AWS doesn't document whether Lambda deletes messages in batches. One request per message is assumed.
    deleted = Usage(sqs_request=0 if fate == "waits" else way.batch)
    calls = (times(number, CALLS[name](batch["largest_requests"][name])) for name, number in batch["calls"].items())
    logged = logged_bytes(counted, fate, way)
    own = {
        "lambda_request": 1,
        "gb_second": billed_ms(counted, fate, way) / 1000 * MEMORY_MB / KIBIBYTE,
        "gb_of_log": logged,
        "log_storage": logged * LOG_DAYS / MONTH_DAYS,
    }
    received = carried(counted.message_bytes(way) * way.batch)
    whole = received + deleted + Usage(own) + sum(calls, Usage())
    return times(1 / way.batch, whole) + kept(counted, fate, way)


def retry(counted: Counted, way: Way) -> Usage:
    """One retry: its failure record is sent, it waits, and the target is invoked."""
    return sent(counted, way) + handled(counted, "waits", way) + handled(counted, "invoked", way)


def back(counted: Counted, way: Way) -> Usage:
    """One message that a consumer could not process, and that is sent back to its queue. SQS moved it to the retry
    queue; AWS lists no charge for that."""
    sends = carried((counted.record_bytes + way.more_bytes) * way.batch)
    return handled(counted, "waits", way) + handled(counted, "invoked", way) + times(1 / way.batch, sends)


def changed(way: Way) -> Usage:
    """One wait of a consumer that changes the visibility timeout of a batch itself, and receives it again."""
    return Usage(sqs_request=2 / way.batch)


def delay(counted: Counted, way: Way) -> Usage:
    """A wait that is kept as a delay: one call sends the batch's messages again, and each is deleted."""
    changed = carried(counted.of("waits", way)["largest_requests"]["ChangeMessageVisibilityBatch"])
    again = carried((counted.record_bytes + way.more_bytes) * way.batch)
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


# The events of a month, how many of them fail, and how often each of those is retried.
EVENTS, FAILING, RETRIES_EACH = MILLION, 0.01, 5


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
