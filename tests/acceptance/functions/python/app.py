"""A function that fails as its event says, or invokes itself in a loop:

{"id": "a", "seconds": 1, "fail": {"attempts": 2, "by": "crash", "error": "PermanentFailure"}}

It fails in the first invocation and in the attempts below 2. Without that limit it always fails.
"""

import json
import os
import time
from typing import Any

INFINITY = float("inf")


def handler(event: Any, context: Any) -> Any:
    """Follows the instructions in the event. A retried event has them in its envelope."""
    retry = event.get("_retry_metadata", {})
    order = event["_original_payload"] if retry else event
    attempt = retry.get("attempt", 0)
    time.sleep(order.get("seconds", 0))
    if order.get("do") == "loop":
        return loop(order, context)
    fail = order.get("fail")
    if fail is not None and attempt < fail.get("attempts", INFINITY):
        print(json.dumps({"failing": order["id"], "trace": os.environ.get("_X_AMZN_TRACE_ID", "")}), flush=True)
        if fail.get("by") == "crash":
            os._exit(1)
        # Lambda reports the class name of an exception as the error's type. The message identifies the event.
        raise type(fail.get("error", "UpstreamUnavailable"), (Exception,), {})(order["id"])
    print(json.dumps({"placed": order["id"], "attempt": attempt}), flush=True)
    return order["id"]


def loop(order: dict[str, Any], context: Any) -> None:
    import boto3
    from botocore.exceptions import ClientError

    turn = order.get("turn", 0) + 1
    try:
        boto3.client("lambda").invoke(
            FunctionName=context.function_name,
            InvocationType="Event",
            Payload=json.dumps({**order, "turn": turn}).encode(),
        )
    except ClientError as error:
        # The function must not fail with this error: its record would look like that of the stopped invocation.
        print(json.dumps({"stopped": order["id"], "turn": turn, "error": error.response["Error"]["Code"]}), flush=True)
