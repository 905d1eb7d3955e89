"""Several functions and a queue with a retry queue each, deployed from several.js: the failures of each are retried
through its own queue, a record in one function's queue can't invoke another function, and a redrive reaches every
function. A message that is received from the queue and not deleted returns to it with its attributes.
"""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from stack import Deployed

# Far longer than the backoffs of all attempts. If it isn't done by then, something is wrong.
PATIENCE_SECONDS = 120

FORGED = {"id": "forged"}
REDRIVEN = {"id": "redriven"}
IMPORT = {"id": "import"}
# The name of the attached queue.
SOURCE = "imports"


def faults(deployed: list[Deployed], redrive_queue_arn: str) -> list[str]:
    """The differences from the expected result."""
    one, other = deployed
    queues = one.endpoint.client("sqs")
    source = queues.get_queue_url(QueueName=SOURCE)["QueueUrl"]
    tenant = {"DataType": "String", "StringValue": "blue"}
    queues.send_message(QueueUrl=source, MessageBody=json.dumps(IMPORT), MessageAttributes={"tenant": tenant})
    for each in deployed:
        each.invoke({"id": "own", "fail": {"attempts": 2, "error": "UpstreamUnavailable"}})
    one.send_as_operator(one.retry_queue_arn, json.dumps(_record(other, FORGED)))
    one.send_as_operator(redrive_queue_arn, json.dumps(REDRIVEN), Reason="max_attempts_exceeded", FunctionArn=other.arn)
    own, redriven = {"placed": "own", "attempt": 2}, {"placed": "redriven", "attempt": 1}
    # The consumer fails at the first and at the second delivery.
    received = [(IMPORT, "blue", attempt) for attempt in (None, 1, 2)]
    expected = ([own], [redriven, own], [(FORGED, "target_not_allowed")], received)
    given_up: list[tuple[Any, str]] = []
    consumed: list[tuple[Any, str, int | None]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        given_up += [
            (json.loads(letter["Body"]), letter["MessageAttributes"]["Reason"]["StringValue"])
            for letter in one.dead_letters()
        ]
        consumed += _consume(queues, source)
        got = (one.placed(), sorted(other.placed(), key=lambda placed: placed["attempt"]), given_up, consumed)
        if got == expected:
            return []
        if time.monotonic() > deadline:
            return [f"placed by one and the other, given up and consumed: expected {expected}, got {got}"]


def _consume(queues: Any, source: str) -> Iterator[tuple[Any, str, int | None]]:
    """Receives from the source queue, and deletes what came back twice. SQS moves a message only when it is polled."""
    for message in queues.receive_message(QueueUrl=source, MessageAttributeNames=["All"]).get("Messages", []):
        attributes = {name: it["StringValue"] for name, it in message["MessageAttributes"].items()}
        attempt = json.loads(attributes.get("_retry_metadata", "{}")).get("attempt")
        if attempt == 2:
            queues.delete_message(QueueUrl=source, ReceiptHandle=message["ReceiptHandle"])
        yield json.loads(message["Body"]), attributes["tenant"], attempt


def _record(target: Deployed, payload: Any) -> dict[str, Any]:
    """A failure record that names this function."""
    return {
        "version": "1.0",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "requestContext": {
            "requestId": "e4b46cbf-b738-4880-8880-a18cdf61200e",
            "functionArn": target.arn,
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 1,
        },
        "requestPayload": payload,
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorType": "UpstreamUnavailable", "errorMessage": ""},
    }
