"""An asynchronous function that places orders, and fails as long as its order says so:

{"id": "order-7", "fail": {"attempts": 2, "error": "UpstreamUnavailable"}}

fails in the first invocation and in the attempts below 2. Without `attempts` it always fails.
"""

import json
import sys
from typing import Any


def is_number(value: Any) -> bool:
    """Whether this is a JSON number. In Python, a bool is an int too."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def unwrap(event: Any) -> tuple[Any, dict[str, Any]]:
    """The payload and the retry metadata. A first invocation gets the bare payload, and no metadata."""
    retry = event.get("_retry_metadata") if isinstance(event, dict) else None
    if isinstance(retry, dict) and "_original_payload" in event:
        attempt, since = retry.get("attempt"), retry.get("initial_timestamp")
        if is_number(attempt) and is_number(since) and attempt >= 1 and attempt % 1 == 0:
            return event["_original_payload"], retry
    return event, {}


def handler(event: Any, context: Any) -> dict[str, Any]:
    """Places one order."""
    order, retry = unwrap(event)
    return place(order, int(retry.get("attempt", 0)))


def place(order: dict[str, Any], attempt: int) -> dict[str, Any]:
    """Does your own work here, or fails."""
    fail = order.get("fail")
    if fail is not None and attempt < fail.get("attempts", float("inf")):
        # Lambda reports the name of an exception's class as the error's type.
        raise type(fail.get("error", "UpstreamUnavailable"), (Exception,), {})(fail.get("message", ""))
    placed = {"id": order["id"], "attempt": attempt}
    print(json.dumps({"placed": placed["id"], "attempt": attempt}))
    return placed
