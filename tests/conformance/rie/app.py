"""A function in Python without code for envelopes. It does what its event says."""

import json
import os
import time
from pathlib import Path
from typing import Any

START = os.environ.get("START", "")
if START == "error":
    raise RuntimeError("no settings")
if START == "crash":
    os._exit(3)
time.sleep(float(START or 0))


def handler(event: Any, context: Any) -> Any:
    """Returns the event as it came, with the retry metadata and the tenant that the context told."""
    do = event.get("do")
    if do == "raise":
        raise ConnectionError("the upstream is down")
    if do == "exit":
        os._exit(3)
    if do == "hang":
        time.sleep(3600)
    if do == "rest":
        return context.get_remaining_time_in_millis()
    if do == "meet":
        meet(Path(event["at"]), event["count"])
    told = json.loads(context.client_context.custom["comeback"]) if context.client_context else None
    return {"event": event, "told": told, "tenant": context.tenant_id}


def meet(place: Path, count: int) -> None:
    """Returns when so many invocations are here at the same time."""
    with place.open("a") as guests:
        guests.write(".")
    while place.stat().st_size < count:
        time.sleep(0.01)
