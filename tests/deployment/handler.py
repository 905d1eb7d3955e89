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
import struct
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/bench"))

from cloud import Cloud, response  # noqa: E402
from messages import ACCOUNT, QUEUE_ARN, REGION, Batch, Fate, batches_of  # noqa: E402
from messages import TARGET as FUNCTION  # noqa: E402, F401
from process import Handler, run  # noqa: E402
from table import Table  # noqa: E402

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
        instead |= found(*json.loads(items))
    if refused:
        said = json.dumps({"__type": code, "message": "refused"}).encode()
        instead[refused] = response(status, said, f"x-amzn-ErrorType: {code}\r\n")
    return ran(batches, json.loads(environment), instead)[1]


def ran(
    batches: Sequence[Batch], environment: Mapping[str, str], instead: Mapping[str, bytes], table: Table | None = None
) -> tuple[Cloud, list[dict[str, Any]]]:
    """Runs the handler with these batches, in a cloud with these responses, and with this table if it has one. Returns
    the cloud and the handler's log."""
    handler = Handler("retry-handler", [str(TARGET / "debug/retry-handler")], {**ON_TIME, **environment})

    async def recorded(log: Path) -> Cloud:
        cloud = Cloud(batches, instead, table=table)
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


def found(*items: Mapping[str, Any]) -> dict[str, bytes]:
    """The response to a read of the ledger that finds these items."""
    return {"BatchGetItem": response(200, json.dumps({"Responses": {"ledger": items}, "UnprocessedKeys": {}}).encode())}


RECORDED = ROOT / "tests/deployment/recorded"
LEDGER = {"LEDGER_TABLE": "ledger"}
PROBES = LEDGER | {"PROBE": "true"}
TRANSPARENT = LEDGER | {"TRANSPARENT": "true"}

# A queue whose consumer fails, and the setting that binds the retry queue to it and to the function.
SOURCE_QUEUE_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:imports"
QUEUES = {"QUEUE_TARGETS": json.dumps({QUEUE_ARN.rsplit(":")[-1]: ["orders", "sqs:imports"]})}
OWN_ATTRIBUTES = {
    "tenant": {"StringValue": "blue", "DataType": "String"},
    "key": {"BinaryValue": "AAEC", "DataType": "Binary.key"},
}

# Every wait of a full batch becomes a delay: the message is sent again.
DELAYED = {"IN_FLIGHT_MAX": "1"}


def played(
    batches: Sequence[Batch],
    environment: Mapping[str, str],
    claim: Mapping[str, Any] | None = None,
    instead: Mapping[str, bytes] | None = None,
    table: Table | None = None,
) -> Cloud:
    """Runs the handler with these batches, while many messages are in flight, and this claim is in the ledger. Returns
    the requests that it made."""
    crowd = {"Attributes": {"ApproximateNumberOfMessagesNotVisible": "100000"}}
    answers = {"GetQueueAttributes": response(200, json.dumps(crowd).encode()), **(instead or {})}
    if claim:
        code = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
        answers["UpdateItem"] = response(400, json.dumps({"__type": code, "message": "no", "Item": claim}).encode())
    return ran(batches, environment, answers, table)[0]


def kept(batches: Sequence[Batch], environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The items of the ledger after these batches, in the order of their last writes."""
    table = Table()
    played(batches, environment, table=table)
    return table.items()


def sent(cloud: Cloud) -> dict[str, Any]:
    """The body and the attributes of the first message that was sent."""
    entry = cloud.of("SendMessageBatch")[0]["Entries"][0]
    return {"body": entry["MessageBody"], "attributes": entry.get("MessageAttributes", {})}


def written_now() -> dict[str, Any]:
    """Each format, as this release writes it."""
    now = int(time.time())
    ((_, envelope),) = played(batches_of(Fate.INVOKED, 1, 1), {}).invocations
    (claim,) = kept(batches_of(Fate.INVOKED, 1, 1), LEDGER)
    sent_back = sent(played(moved("no JSON", OWN_ATTRIBUTES, now - 3600), QUEUES))
    failed_again = moved(sent_back["body"], sent_back["attributes"], now, count=10)
    return {
        "recorded_at": now,
        "envelope": json.loads(envelope),
        "sent_again": sent(played(batches_of(Fate.WAITS, 10, 1), DELAYED)),
        "dead_letter": sent(played(batches_of(Fate.GIVEN_UP, 1, 1), {})),
        "claim": claim,
        "queue_message_sent_back": sent_back,
        "queue_message_sent_again": sent(played(failed_again, QUEUES | DELAYED)),
        "queue_dead_letter": sent(played(failed_again, QUEUES | {"MAX_ATTEMPTS": "1"})),
        "circuit": opened_circuit(now),
        "without_envelope": without_envelope(),
    }


def without_envelope() -> dict[str, Any]:
    """What was sent without an envelope, as text, and the ledger's items about it: that of the failure with the call
    that retries it, and the note of the run that the call has started."""
    table = Table()
    cloud = played(batches_of(Fate.INVOKED, 1, 1), TRANSPARENT, table=table)
    ((_, payload),) = cloud.invocations
    held, note = table.items()
    return {"payload": payload.decode(), "held": held, "note": note}


def members(item: Mapping[str, Any]) -> set[str]:
    """The members of an item: those with a fixed name, and those of a call."""
    calls = [json.loads(value["S"]).keys() for name, value in item.items() if name.startswith("call/")]
    return {name for name in item if "/" not in name}.union(*calls)


def failed(payload: str, request_id: str, at: int) -> str:
    """The failure record of a run with this payload that ended at this time."""
    ((record,),) = [json.loads(batch.event)["Records"] for batch in batches_of(Fate.INVOKED, 1, 1)]
    failure = json.loads(record["body"])
    failure["requestContext"]["requestId"] = request_id
    failure["timestamp"] = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    failure["requestPayload"] = "the payload"
    # Its bytes count.
    return json.dumps(failure).replace('"the payload"', payload)


def opened_circuit(now: int) -> dict[str, Any]:
    """The ledger's item of a function after CloudWatch has said that it is down."""
    # More than a fifth of the retries fail, so the next ones are a trial. Two minutes later, CloudWatch is asked.
    (failed,) = circuits(played(batches_of(Fate.WAITS, 40, 1), PROBES))
    (counted,) = circuits(played(batches_of(Fate.INVOKED, 40, 1), PROBES, instead=found(failed)))
    counted = json.loads(later(json.dumps(counted), timedelta(seconds=-150)))
    began = now // 60 * 60 - 120
    told = [{"Id": name, "Timestamps": [Instant(began)], "Values": [100.0]} for name in ("invocations", "errors")]
    answer = response(200, cbor({"MetricDataResults": told}), "smithy-protocol: rpc-v2-cbor\r\n")
    instead = {**found(counted), "GetMetricData": answer}
    *_, opened = circuits(played(batches_of(Fate.INVOKED, 10, 1), PROBES, instead=instead))
    return opened


def circuits(cloud: Cloud) -> list[dict[str, Any]]:
    """The items of functions that were written to the ledger."""
    items = []
    for write in cloud.of("UpdateItem"):
        names, values = write["ExpressionAttributeNames"], write["ExpressionAttributeValues"]
        if "#version" not in names:
            continue
        items.append({**write["Key"], names["#name"]: values[":value"], names["#version"]: values[":next"]})
    return items


class Instant(int):
    """A time in seconds."""


def cbor(value: Any) -> bytes:
    """The CBOR of the values that CloudWatch's answers have."""

    def head(kind: int, length: int) -> bytes:
        return struct.pack(">BI", kind << 5 | 26, length)

    match value:
        case Instant():
            return b"\xc1" + head(0, value)
        case float():
            return struct.pack(">Bd", 0xFB, value)
        case str():
            return head(3, len(value)) + value.encode()
        case list():
            return head(4, len(value)) + b"".join(map(cbor, value))
        case dict():
            return head(5, len(value)) + b"".join(cbor(each) for pair in value.items() for each in pair)
    raise TypeError(f"expected a value of CloudWatch, got {value!r}")


def as_if_recorded(text: str, at: int) -> dict[str, Any]:
    """The formats of a release, with all times moved as if they had been recorded at this time."""
    return json.loads(later(text, timedelta(seconds=at - json.loads(text)["recorded_at"])))


def later(text: str, by: timedelta) -> str:
    """Formats with all their times moved: those of ISO 8601, seconds, and the milliseconds of circuits."""

    def moved_time(time: re.Match[str]) -> str:
        return (datetime.fromisoformat(time[0]) + by).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", moved_time, text)
    seconds = r'((?:initial_timestamp|expires_at)[\\":{\sN]*)(\d+)'
    text = re.sub(seconds, lambda at: at[1] + str(int(at[2]) + int(by.total_seconds())), text)
    milliseconds = r'((?:began|since|until|next_at)\\":)(\d+)'
    return re.sub(milliseconds, lambda at: at[1] + str(int(at[2]) + int(by.total_seconds() * 1000)), text)


def received(body: str, attributes: Mapping[str, Any], at: int, **system: str) -> list[Batch]:
    """A batch of one message with this body and these attributes, sent at this time."""
    ((record,),) = [json.loads(batch.event)["Records"] for batch in batches_of(Fate.INVOKED, 1, 1)]
    record["body"] = body
    record["attributes"] |= {"SentTimestamp": str(at * 1000), **system}
    record["messageAttributes"] = {
        name: {member[0].lower() + member[1:]: value for member, value in each.items()}
        for name, each in attributes.items()
    }
    return [Batch((), json.dumps({"Records": [record]}).encode())]


def moved(body: str, attributes: Mapping[str, Any], at: int, count: int = 1) -> list[Batch]:
    """A batch of messages that SQS has moved from the source queue, whose consumer failed at this time."""
    first = {"ApproximateFirstReceiveTimestamp": str(at * 1000)}
    (batch,) = received(body, attributes, at, DeadLetterQueueSourceArn=SOURCE_QUEUE_ARN, **first)
    (record,) = json.loads(batch.event)["Records"]
    records = [{**record, "messageId": f"{record['messageId'][:-1]}{number}"} for number in range(count)]
    return [Batch((), json.dumps({"Records": records}).encode())]


def main() -> None:
    (version,) = sys.argv[1:]
    (RECORDED / f"{version}.json").write_text(json.dumps(written_now(), indent=1) + "\n")


if __name__ == "__main__":
    main()
