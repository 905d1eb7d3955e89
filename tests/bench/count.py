"""Counts the AWS calls, DynamoDB's units, log bytes and metrics that the retry handler needs for one batch.

It runs the handler as the bench does, against endpoints on loopback, once for each kind of batch: messages that wait,
are invoked or are given up; one message or a full batch; in each mode (`MODES`). Nothing is timed, so a debug build is
enough. The same events wait first and are invoked then, with what the handler has written into the ledger.

A full batch of dead letters is counted only without a ledger. With a ledger the handler sends each dead letter when its
claim is confirmed, so the number that share a call varies from run to run. A register and probes concern only events
that wait or are invoked.

Without an envelope, a retry may take only so much of the ledger (`checked`): otherwise nothing is counted.

The output is stored as `infra/cost/counted.json`. `infra/cost` computes the costs from it.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cloud import OF_TABLE, Cloud, NotMeasured
from messages import BATCH_SIZE, RETRIES_EACH, Batch, Events, Fate, batches_of, beginnings, run_of
from process import Handler, run
from recorded import BUCKET, recorded
from table import Table

# With this number, every batch size has each kind of failure as often as an event has.
BATCHES = 2 * RETRIES_EACH


class Mode(NamedTuple):
    environment: Mapping[str, str]
    events: Events = Events.ENVELOPED

    @property
    def is_recorded(self) -> bool:
        return "RECORD_BUCKETS" in self.environment

    @property
    def is_probed(self) -> bool:
        return "PROBE" in self.environment


LEDGER = {"LEDGER_TABLE": "ledger"}
REGISTER = LEDGER | {"REGISTER": "true"}
PROBES = REGISTER | {"PROBE": "true"}
DROP_IN = LEDGER | {"TRANSPARENT": "true"}
RECORDS = {"RECORD_BUCKETS": BUCKET}

# What is switched on, and the events. `everything` is all that README promises together.
MODES = {
    "plain": Mode({}),
    "ledger": Mode(LEDGER),
    "register": Mode(REGISTER),
    "probes": Mode(PROBES),
    "records": Mode(RECORDS),
    "drop_in": Mode(DROP_IN, Events.MIXED),
    "drop_in_first": Mode(DROP_IN, Events.FIRST),
    "drop_in_later": Mode(DROP_IN, Events.LATER),
    "drop_in_records": Mode(DROP_IN | RECORDS, Events.MIXED),
    "everything": Mode(PROBES | DROP_IN | RECORDS, Events.MIXED),
}

# The modes in which each dead letter is counted alone.
WITH_LETTERS = ("ledger", "drop_in")


# What a retry may take of the ledger at most: of an event's first failure, and of a later one. So an event that fails
# twice stays within two units of each. Nothing may be sent to the ledger that has to be atomic.
LIMITS = {"writes": 2, "write units": 2, "transactions": 0}
WITHIN_LIMITS = {
    "ledger": LIMITS | {"read units": 0},
    "drop_in_first": LIMITS | {"read units": 3},
    "drop_in_later": LIMITS | {"read units": 1},
}
READS = ("BatchGetItem", "Query")


async def counted(bootstrap: Path, modes: Iterable[str] = MODES) -> dict[str, Any]:
    places = asyncio.Semaphore(os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="count-") as folder:

        async def life(name: str, size: int) -> list[dict[str, Any]]:
            async with places:
                return await _life(bootstrap, name, size, Path(folder) / f"{name}-{size}")

        lives = await asyncio.gather(*(life(name, size) for name in modes for size in (1, BATCH_SIZE)))
    of_message = _sizes(batches_of(Fate.INVOKED, BATCH_SIZE, BATCHES))
    return {"message": of_message, "batches": [kind for kinds in lives for kind in kinds]}


async def _life(bootstrap: Path, name: str, size: int, log: Path) -> list[dict[str, Any]]:
    """Counts the fates of a mode's batches of this size."""
    mode = MODES[name]
    handler = Handler("retry-handler", [str(bootstrap.resolve())], mode.environment)
    table = await noted(handler, batches_of(Fate.WAITS, size, BATCHES, mode.events), log)
    before = table.stored_bytes()
    kinds = [await _kind(handler, fate, name, size, table, before, log) for fate in (Fate.WAITS, Fate.INVOKED)]
    if name == "plain" or (size == 1 and name in WITH_LETTERS):
        table = await noted(handler, batches_of(Fate.GIVEN_UP, size, BATCHES, mode.events), log)
        kinds.append(await _kind(handler, Fate.GIVEN_UP, name, size, table, before, log))
    return kinds


async def noted(handler: Handler, batches: Sequence[Batch], log: Path) -> Table:
    """The ledger before these batches: with a note of each later failure that has no envelope."""
    firsts = beginnings(batches)
    messages = [message for batch in (*batches, *firsts) for message in batch.messages]
    orders = [message.payload["order"] for message in messages]
    runs = {run_of(each) for each in orders} | {run_of(run_of(each)) for each in orders}
    # A circuit that opens would change what becomes of the events, so it is not kept.
    is_probed = "PROBE" in handler.environment
    table = Table(runs | {message.request_id for message in messages} if is_probed else ())
    if firsts:
        cloud = Cloud(firsts, table=table, run_id=lambda payload, _: run_of(json.loads(payload)["order"]))
        await run(handler, firsts, log, cloud)
        cloud.check()
    return table


def _run_id(payload: bytes, _: int) -> str:
    """The request id of another run of this order."""
    document = json.loads(payload)
    return run_of(run_of(document.get("_original_payload", document)["order"]))


async def _kind(
    handler: Handler, fate: Fate, name: str, size: int, table: Table, before: int, log: Path
) -> dict[str, Any]:
    mode = MODES[name]
    batches, objects = batches_of(fate, size, BATCHES, mode.events), {}
    if mode.is_recorded:
        batches, objects = recorded(batches)
    # A handler reads and writes a circuit at most once a second. With a process each, all batches need it.
    runs = [[batch] for batch in batches] if mode.is_probed else [batches]
    sizes: dict[str, list[float]] = {}
    text = ""
    for part in runs:
        cloud = Cloud(part, objects=objects, table=table, run_id=_run_id)
        done = await run(handler, part, log, cloud)
        cloud.check()
        text += log.read_text()
        for operation, own in done.requests.items():
            sizes.setdefault(operation, []).extend(own)
    # The handler asks for the messages in flight at intervals, not for each batch.
    sizes.pop("GetQueueAttributes", None)
    lines = [json.loads(line) for line in text.splitlines()]
    _check_attempts(batches, lines)
    return {
        "fate": fate.value,
        "messages": size,
        "mode": name,
        "calls": {operation: _each(len(own), mode) for operation, own in sorted(sizes.items())},
        # The bytes of the largest request, and DynamoDB's units of a call on average.
        "sizes": {
            operation: _whole(sum(own) / len(own)) if operation in OF_TABLE else int(max(own))
            for operation, own in sorted(sizes.items())
        },
        # The bytes that the table has gained for each event since before it waited.
        "stored_bytes": round((table.stored_bytes() - before) / (size * BATCHES)),
        "log_lines": _each(len(lines), mode),
        "log_bytes": -(-len(text.encode()) // BATCHES),
        "metrics": sorted({metric for line in lines for metric in _metrics(line)}),
    }


def _check_attempts(batches: Sequence[Batch], lines: Sequence[Mapping[str, Any]]) -> None:
    """Checks that the handler knows of which attempt each failure is. Without an envelope only its log tells."""
    messages = [each for batch in batches for each in batch.messages if each.fate is not Fate.GIVEN_UP]
    expected = {each.request_id: each.next_attempt for each in messages}
    found = {line["request_id"]: line["attempt"] for line in lines if "attempt" in line}
    if found != expected:
        raise NotMeasured(f"expected the attempts {expected}, got {found}")


def _each(count: int, mode: Mode) -> float:
    """The count for one batch. Those of equal failures have equal counts, but circuits matter to some failures only."""
    if count % BATCHES and mode.events is not Events.MIXED and not mode.is_probed:
        raise NotMeasured(f"expected the same of each of {BATCHES} batches, got {count} in all")
    return _whole(count / BATCHES)


def _whole(number: float) -> float:
    return int(number) if number == int(number) else round(number, 4)


def of_a_retry(document: Mapping[str, Any], mode: str, size: int) -> Counter[str]:
    """What one retry takes of the ledger: it waits, and is invoked."""
    total: Counter[str] = Counter()
    for batch in document["batches"]:
        if (batch["mode"], batch["messages"]) != (mode, size) or batch["fate"] == Fate.GIVEN_UP.value:
            continue
        for operation, calls in batch["calls"].items():
            if operation not in OF_TABLE:
                continue
            units = calls * batch["sizes"][operation] / size
            is_read = operation in READS
            total["read units" if is_read else "write units"] += units
            total["transactions" if operation == "TransactWriteItems" else "reads" if is_read else "writes"] += (
                calls / size
            )
    return total


def over_limits(document: Mapping[str, Any]) -> Iterator[str]:
    """What a retry takes of the ledger that it may not."""
    for mode, limits in WITHIN_LIMITS.items():
        for size in (1, BATCH_SIZE):
            taken = of_a_retry(document, mode, size)
            if any(round(taken[what], 6) > most for what, most in limits.items()):
                yield f"{mode}, batches of {size}: expected at most {limits}, got {dict(taken)}"


def checked(document: dict[str, Any]) -> dict[str, Any]:
    """The counted figures.

    Raises:
        NotMeasured: if a retry takes more of the ledger than it may.
    """
    if over := list(over_limits(document)):
        raise NotMeasured("\n".join(over))
    return document


def _metrics(line: dict[str, Any]) -> list[str]:
    """The metrics that CloudWatch extracts from a log line: one for each name in each set of dimensions."""
    return [
        " ".join([metric["Name"], "by", *dimensions])
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", [])
        for metric in directive["Metrics"]
        for dimensions in directive["Dimensions"]
    ]


def _sizes(batches: list[Batch]) -> dict[str, int]:
    records = [record for batch in batches for record in json.loads(batch.event)["Records"]]
    bodies = [record["body"] for record in records]
    errors = [json.dumps(json.loads(body)["responsePayload"]) for body in bodies]
    payloads = [json.dumps(message.payload) for batch in batches for message in batch.messages]

    def mean(texts: list[str]) -> int:
        return round(sum(len(text.encode()) for text in texts) / len(texts))

    notices = [record["body"] for batch in recorded(batches)[0] for record in json.loads(batch.event)["Records"]]
    return {
        "payload_bytes": mean(payloads),
        "record_bytes": mean(bodies),
        "error_bytes": mean(errors),
        "notice_bytes": mean(notices),
    }


def main() -> int:
    try:
        print(json.dumps(checked(asyncio.run(counted(Path(sys.argv[1])))), indent=1))
    except (NotMeasured, OSError) as error:
        print(f"could not count: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
