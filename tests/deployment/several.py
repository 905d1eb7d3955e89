"""Several functions with a retry queue each, deployed from several.js: the failures of each are retried through its own
queue, a record in one function's queue can't invoke another function, and a redrive reaches every function.
"""

import json
import time
from datetime import UTC, datetime
from typing import Any

from stack import Deployed

# Far longer than the backoffs of all attempts. If it isn't done by then, something is wrong.
PATIENCE_SECONDS = 120

FORGED = {"id": "forged"}
REDRIVEN = {"id": "redriven"}


def faults(deployed: list[Deployed], redrive_queue_arn: str) -> list[str]:
    """The differences from the expected result."""
    one, other = deployed
    for each in deployed:
        each.invoke({"id": "own", "fail": {"attempts": 2, "error": "UpstreamUnavailable"}})
    one.send_as_operator(one.retry_queue_arn, json.dumps(_record(other, FORGED)))
    one.send_as_operator(redrive_queue_arn, json.dumps(REDRIVEN), Reason="max_attempts_exceeded", FunctionArn=other.arn)
    own, redriven = {"placed": "own", "attempt": 2}, {"placed": "redriven", "attempt": 1}
    expected = ([own], [redriven, own], [(FORGED, "target_not_allowed")])
    given_up: list[tuple[Any, str]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        given_up += [
            (json.loads(letter["Body"]), letter["MessageAttributes"]["Reason"]["StringValue"])
            for letter in one.dead_letters()
        ]
        got = (one.placed(), sorted(other.placed(), key=lambda placed: placed["attempt"]), given_up)
        if got == expected:
            return []
        if time.monotonic() > deadline:
            return [f"placed by one and the other, and given up: expected {expected}, got {got}"]


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
