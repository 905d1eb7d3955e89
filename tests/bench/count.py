"""What one message takes, counted: calls by operation, bytes of the log, metrics.

The retry handler is run as the bench runs it, against endpoints on loopback, once for each kind of
batch: messages that wait, that are invoked and that are given up; alone and in a full batch;
without a ledger and with one. Nothing is timed, so a debug build does.

A full batch of dead letters is counted without a ledger only: with one they are sent as their
claims come in, so how many share a call is chance.

What it prints is `infra/cost/counted.json`, of which `infra/cost` makes dollars.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cloud import NotMeasured
from messages import BATCH_SIZE, Batch, Fate, batches_of
from process import Handler, run

# Enough of them that first failures and retries are as many, whatever the size.
BATCHES = 8

LEDGER = {"LEDGER_TABLE": "ledger"}


async def counted(bootstrap: Path) -> dict[str, Any]:
    """All that is counted, in the order of the table."""
    with tempfile.TemporaryDirectory(prefix="count-") as folder:
        log = Path(folder) / "log"
        kinds = [
            await _kind(bootstrap, fate, size, environment, log)
            for fate in Fate
            for size in (1, BATCH_SIZE)
            for environment in ({}, LEDGER)
            if (fate, size, environment) != (Fate.GIVEN_UP, BATCH_SIZE, LEDGER)
        ]
    return {"message": _sizes(batches_of(Fate.INVOKED, BATCH_SIZE, BATCHES)), "batches": kinds}


async def _kind(bootstrap: Path, fate: Fate, size: int, environment: Mapping[str, str], log: Path) -> dict[str, Any]:
    """One line of the table: what one batch of this kind takes."""
    handler = Handler("retry-handler", [str(bootstrap.resolve())], environment)
    done = await run(handler, batches_of(fate, size, BATCHES), log)
    # The messages in flight are counted every quarter of a minute at most, however many batches there are.
    requests = [(name, sizes) for name, sizes in sorted(done.requests.items()) if name != "GetQueueAttributes"]
    lines = log.read_text().splitlines()
    return {
        "fate": fate.value,
        "messages": size,
        "ledger": bool(environment),
        "calls": {name: _each(len(sizes)) for name, sizes in requests},
        "largest_request_bytes": {name: max(size) for name, size in requests},
        "log_lines": _each(len(lines)),
        "log_bytes": -(-sum(len(line.encode()) for line in lines) // BATCHES),
        "metrics": sorted({metric for line in lines for metric in _metrics(json.loads(line))}),
    }


def _each(count: int) -> int:
    """The share of each batch; they are alike, so all have the same.

    Raises:
        NotMeasured: if they have not.
    """
    each, rest = divmod(count, BATCHES)
    if rest:
        raise NotMeasured(f"expected the same of each of {BATCHES} batches, got {count} in all")
    return each


def _metrics(line: dict[str, Any]) -> list[str]:
    """The metrics that CloudWatch makes of a line: one for each name in each set of dimensions."""
    return [
        " ".join([metric["Name"], "by", *dimensions])
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", [])
        for metric in directive["Metrics"]
        for dimensions in directive["Dimensions"]
    ]


def _sizes(batches: list[Batch]) -> dict[str, int]:
    """How large the messages are on average."""
    records = [record for batch in batches for record in json.loads(batch.event)["Records"]]
    bodies = [record["body"] for record in records]
    errors = [json.dumps(json.loads(body)["responsePayload"]) for body in bodies]
    payloads = [json.dumps(message.payload) for batch in batches for message in batch.messages]

    def mean(texts: list[str]) -> int:
        return round(sum(len(text.encode()) for text in texts) / len(texts))

    return {
        "payload_bytes": mean(payloads),
        "record_bytes": mean(bodies),
        "error_bytes": mean(errors),
    }


def main() -> int:
    """Counts, and prints what was counted."""
    parser = argparse.ArgumentParser(description="What one message takes.")
    parser.add_argument("bootstrap", type=Path, help="the retry handler, any build")
    arguments = parser.parse_args()
    try:
        print(json.dumps(asyncio.run(counted(arguments.bootstrap)), indent=1))
    except (NotMeasured, OSError) as error:
        print(f"could not count: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
