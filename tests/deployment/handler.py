"""The real handler against an AWS on loopback: its log when a call is refused, and the formats that it writes.

Record the formats once for each release, with its version as the argument:

    cargo build --package retry-handler
    python3 tests/deployment/handler.py VERSION
"""

import asyncio
import functools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
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


@functools.cache
def handler_log(
    fate: Fate,
    refused: str = "",
    error: tuple[int, str] = FORBIDDEN,
    older: int = 0,
    environment: str = "{}",
    items: str = "",
) -> list[dict[str, Any]]:
    """The handler's log for one batch of events. `older` moves their first failure further back, in seconds. The ledger
    has these items of targets."""
    batches = [aged(batch, older) for batch in batches_of(fate, 10, 1)]
    (status, code), instead = error, {}
    if items:
        read = f'{{"Responses":{{"ledger":{items}}},"UnprocessedKeys":{{}}}}'
        instead["BatchGetItem"] = response(200, read.encode())
    if refused:
        said = json.dumps({"__type": code, "message": "refused"}).encode()
        instead[refused] = response(status, said, f"x-amzn-ErrorType: {code}\r\n")
    return ran(batches, json.loads(environment), instead)[1]


def ran(
    batches: Sequence[Batch], environment: Mapping[str, str], instead: Mapping[str, bytes]
) -> tuple[Cloud, list[dict[str, Any]]]:
    """Runs the handler with these batches, in a cloud with these responses. Returns the cloud and the handler's log."""
    handler = Handler("retry-handler", [str(TARGET / "debug/retry-handler")], {**ON_TIME, **environment})

    async def recorded(log: Path) -> Cloud:
        cloud = Cloud(batches, instead)
        await run(handler, batches, log, cloud)
        return cloud

    with tempfile.TemporaryDirectory(prefix="handler-") as folder:
        log = Path(folder) / "log"
        return asyncio.run(recorded(log)), [json.loads(line) for line in log.read_text().splitlines()]


def aged(batch: Batch, older: int) -> Batch:
    event = json.loads(batch.event)
    for record in event["Records"]:
        body = json.loads(record["body"])
        if "_retry_metadata" in body["requestPayload"]:
            body["requestPayload"]["_retry_metadata"]["initial_timestamp"] -= older
        record["body"] = json.dumps(body)
    return replace(batch, event=json.dumps(event).encode())


RECORDED = ROOT / "tests/deployment/recorded"
LEDGER = {"LEDGER_TABLE": "ledger"}


def played(batches: Sequence[Batch], environment: Mapping[str, str], item: Mapping[str, Any] | None = None) -> Cloud:
    """Runs the handler with these batches, while many messages are in flight, and this item is in the ledger. Returns
    the requests that it made."""
    crowd = {"Attributes": {"ApproximateNumberOfMessagesNotVisible": "100000"}}
    instead = {"GetQueueAttributes": response(200, json.dumps(crowd).encode())}
    if item:
        code = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
        instead["PutItem"] = response(400, json.dumps({"__type": code, "message": "no", "Item": item}).encode())
    return ran(batches, environment, instead)[0]


def sent(cloud: Cloud) -> dict[str, Any]:
    """The body and the attributes of the first message that was sent."""
    entry = cloud.of("SendMessageBatch")[0]["Entries"][0]
    return {"body": entry["MessageBody"], "attributes": entry.get("MessageAttributes", {})}


def written_now() -> dict[str, Any]:
    """Each format, as this release writes it."""
    ((_, envelope),) = played(batches_of(Fate.INVOKED, 1, 1), {}).invocations
    *_, claim = played(batches_of(Fate.INVOKED, 1, 1), LEDGER).of("PutItem")
    return {
        "recorded_at": int(time.time()),
        "envelope": json.loads(envelope),
        # Every wait becomes a delay: the message is sent again.
        "sent_again": sent(played(batches_of(Fate.WAITS, 10, 1), {"IN_FLIGHT_MAX": "1"})),
        "dead_letter": sent(played(batches_of(Fate.GIVEN_UP, 1, 1), {})),
        "claim": claim["Item"],
    }


def as_if_recorded(text: str, at: int) -> dict[str, Any]:
    """The formats of a release, with all times moved as if they had been recorded at this time."""
    moved = timedelta(seconds=at - json.loads(text)["recorded_at"])

    def later(found: re.Match[str]) -> str:
        return (datetime.fromisoformat(found[0]) + moved).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", later, text)
    seconds = r'((?:initial_timestamp|expires_at)[\\":{\sN]*)(\d+)'
    text = re.sub(seconds, lambda found: found[1] + str(int(found[2]) + int(moved.total_seconds())), text)
    return json.loads(text)


def received(body: str, attributes: Mapping[str, Any], at: int) -> list[Batch]:
    """A batch of one message with this body and these attributes, sent at this time."""
    ((record,),) = [json.loads(batch.event)["Records"] for batch in batches_of(Fate.INVOKED, 1, 1)]
    record["body"] = body
    record["attributes"]["SentTimestamp"] = str(at * 1000)
    record["messageAttributes"] = {
        name: {"stringValue": each["StringValue"], "dataType": each["DataType"]} for name, each in attributes.items()
    }
    return [Batch((), json.dumps({"Records": [record]}).encode())]


def main() -> None:
    (version,) = sys.argv[1:]
    (RECORDED / f"{version}.json").write_text(json.dumps(written_now(), indent=1) + "\n")


if __name__ == "__main__":
    main()
