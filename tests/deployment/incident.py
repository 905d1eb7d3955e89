"""The log of the real handler in an incident: the handler runs against an AWS that refuses one operation."""

import asyncio
import functools
import json
import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/bench"))

from cloud import Cloud, response  # noqa: E402
from messages import TARGET as FUNCTION  # noqa: E402, F401
from messages import Batch, Fate, batches_of  # noqa: E402
from process import Handler, run  # noqa: E402

TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")

# The due messages failed an hour ago, so with these settings their retries are on time.
ON_TIME = {"BASE_BACKOFF": "3590", "MAX_BACKOFF": "3590"}

# The status and the code of a refusal.
FORBIDDEN = (403, "AccessDeniedException")
THROTTLED = (429, "TooManyRequestsException")


@dataclass
class Refusing(Cloud):
    """An AWS that refuses one operation."""

    operation: str = ""
    status: int = 0
    error: str = ""
    # The items in the ledger.
    items: str = "[]"

    def answer(self, method: str, path: str, target: str, body: bytes) -> bytes | None:
        """Returns the response to a request, or `None` if the request must wait forever."""
        is_refused = (
            path.endswith("/invocations") if self.operation == "Invoke" else target.endswith(f".{self.operation}")
        )
        if is_refused:
            said = json.dumps({"__type": self.error, "message": "refused"}).encode()
            return response(self.status, said, headers=f"x-amzn-ErrorType: {self.error}\r\n")
        if target.endswith(".BatchGetItem") and self.items != "[]":
            read = f'{{"Responses":{{"ledger":{self.items}}},"UnprocessedKeys":{{}}}}'
            return response(200, read.encode(), "application/x-amz-json-1.0")
        return super().answer(method, path, target, body)

    def check(self) -> None:
        """Checks nothing, because an incident has no expected requests."""


@functools.cache
def handler_log(
    fate: Fate,
    refused: str = "-",
    error: tuple[int, str] = FORBIDDEN,
    older: int = 0,
    environment: str = "{}",
    items: str = "[]",
) -> list[dict[str, Any]]:
    """The handler's log for one batch of events. `older` moves their first failure further back, in seconds."""
    batches = [aged(batch, older) for batch in batches_of(fate, 10, 1)]
    handler = Handler("retry-handler", [str(TARGET / "debug/retry-handler")], ON_TIME | json.loads(environment))

    async def recorded(log: Path) -> None:
        cloud = Refusing(batches, operation=refused, status=error[0], error=error[1], items=items)
        await run(handler, batches, log, cloud)

    with tempfile.TemporaryDirectory(prefix="alarms-") as folder:
        log = Path(folder) / "log"
        asyncio.run(recorded(log))
        return [json.loads(line) for line in log.read_text().splitlines()]


def aged(batch: Batch, older: int) -> Batch:
    """A batch whose retries have an earlier first failure."""
    event = json.loads(batch.event)
    for record in event["Records"]:
        body = json.loads(record["body"])
        if "_retry_metadata" in body["requestPayload"]:
            body["requestPayload"]["_retry_metadata"]["initial_timestamp"] -= older
        record["body"] = json.dumps(body)
    return replace(batch, event=json.dumps(event).encode())
