"""Counts the AWS calls, log bytes and metrics that the retry handler needs for one batch.

It runs the handler as the bench does, against endpoints on loopback, once for each kind of batch: messages that wait,
are invoked or are given up; one message or a full batch; in each mode (`MODES`). Nothing is timed, so a debug build is
enough.

A full batch of dead letters is counted only without a ledger. With a ledger the handler sends each dead letter when its
claim is confirmed, so the number that share a call varies from run to run. A register and probes concern only events
that wait or are invoked.

The output is stored as `infra/cost/counted.json`. `infra/cost` computes the costs from it.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from cloud import Cloud, NotMeasured
from messages import BATCH_SIZE, Batch, Fate, batches_of
from process import Handler, run
from recorded import BUCKET, recorded

# With this number, every batch size has as many first failures as retries.
BATCHES = 8

# A handler reads and writes a circuit at most once a second. A batch that runs in a second of its own makes one call.
SHARED = ("BatchGetItem", "UpdateItem")

# The two transactions of a retry have different sizes, so their average is counted.
AVERAGED = ("TransactWriteItems",)

# The optional parts that are switched on. Each mode includes the ones before it, but `transparent` only the ledger, and
# `records` none.
MODES = {
    "plain": {},
    "ledger": {"LEDGER_TABLE": "ledger"},
    "register": {"LEDGER_TABLE": "ledger", "REGISTER": "true"},
    "probes": {"LEDGER_TABLE": "ledger", "REGISTER": "true", "PROBE": "true"},
    "transparent": {"LEDGER_TABLE": "ledger", "TRANSPARENT": "true"},
    "records": {"RECORD_BUCKETS": BUCKET},
}


async def counted(bootstrap: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="count-") as folder:
        log = Path(folder) / "log"
        kinds = [
            await _kind(bootstrap, fate, size, mode, log)
            for fate in Fate
            for size in (1, BATCH_SIZE)
            for mode in MODES
            if fate is not Fate.GIVEN_UP or mode == "plain" or (mode, size) == ("ledger", 1)
        ]
    return {"message": _sizes(batches_of(Fate.INVOKED, BATCH_SIZE, BATCHES)), "batches": kinds}


async def _kind(bootstrap: Path, fate: Fate, size: int, mode: str, log: Path) -> dict[str, Any]:
    handler = Handler("retry-handler", [str(bootstrap.resolve())], MODES[mode])
    batches, objects = batches_of(fate, size, BATCHES), {}
    if mode == "records":
        batches, objects = recorded(batches)
    cloud = Cloud(batches, objects=objects)
    done = await run(handler, batches, log, cloud)
    cloud.check()
    # GetQueueAttributes is left out: the handler asks for the messages in flight at intervals, not for each batch.
    requests = [(name, sizes) for name, sizes in sorted(done.requests.items()) if name != "GetQueueAttributes"]
    lines = log.read_text().splitlines()
    return {
        "fate": fate.value,
        "messages": size,
        "mode": mode,
        "calls": {name: 1 if mode == "probes" and name in SHARED else _each(len(sizes)) for name, sizes in requests},
        "largest_requests": {name: sum(size) / len(size) if name in AVERAGED else max(size) for name, size in requests},
        "log_lines": _each(len(lines)),
        "log_bytes": -(-sum(len(line.encode()) for line in lines) // BATCHES),
        "metrics": sorted({metric for line in lines for metric in _metrics(json.loads(line))}),
    }


def _each(count: int) -> int:
    """The count for one batch. All batches are of the same kind, so their counts must be equal."""
    each, rest = divmod(count, BATCHES)
    if rest:
        raise NotMeasured(f"expected the same of each of {BATCHES} batches, got {count} in all")
    return each


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
        print(json.dumps(asyncio.run(counted(Path(sys.argv[1]))), indent=1))
    except (NotMeasured, OSError) as error:
        print(f"could not count: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
