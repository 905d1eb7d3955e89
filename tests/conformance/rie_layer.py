"""Checks of the layer: its proxy in front of AWS's runtime clients for Python and Node.js."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from emulator import CLOCK_CAN_SHIFT, PATIENCE_SECONDS, Answer, Function
from witness import CODE, FREEZES, LONG, METADATA, ORDER, Witness, envelope, expect

MIB = 1 << 20


def comes_unwrapped(witness: Witness, runtime: str) -> None:
    """Envelopes come unwrapped, other events as they are, again and again, and the tenant is passed on."""
    number = "1.2345678901234568e+28" if runtime == "Node.js" else "12345678901234567890123456789"
    order = json.loads(ORDER.replace("12345678901234567890123456789", number))
    tenant = "Tenant-7/a b"
    with witness.running(witness.runtimes[runtime]) as rie:
        for _ in range(3):
            got = rie.invoke(envelope(ORDER), X_Amz_Tenant_Id=tenant).value
            expect("an envelope", got, {"event": order, "told": json.loads(METADATA), "tenant": tenant})
            got = rie.invoke(b'{"plain":1}').value
            expect("an event that is no envelope", got["event"], {"plain": 1})
            expect("its metadata and tenant", (got["told"], got["tenant"] or None), (None, None))


def large_events(witness: Witness, runtime: str) -> None:
    """Envelopes of 1 MiB, the longest there are, come unwrapped. What is longer passes as it is."""
    with witness.running(witness.runtimes[runtime]) as rie:
        for length, is_unwrapped in ((MIB, True), (6_000_000, False)):
            text = "x" * (length - len(envelope('{"text":""}')))
            sent = envelope(f'{{"text":"{text}"}}')
            got = rie.invoke(sent).value["event"]
            expect(f"an envelope of {length}", got, {"text": text} if is_unwrapped else json.loads(sent))


def failures(witness: Witness, runtime: str) -> None:
    """An error, a crash and a time-out are reported as without the proxy, and the next event is unwrapped again."""
    with witness.running(witness.runtimes[runtime]._replace(timeout=5)) as rie:
        for do, wanted in (
            ("raise", r"(Connection)?Error: the upstream is down"),
            ("exit", r"Runtime\.ExitError: RequestId: <id> Error: Runtime exited with error: exit status 3"),
            ("hang", r"Task timed out after 5\.00 seconds"),
        ):
            got = rie.invoke(envelope(f'{{"do":"{do}"}}')).error
            assert re.fullmatch(wanted, got), f"expected {wanted!r}, got {got!r}"
            expect("the next event", rie.invoke(envelope(ORDER)).value["told"], json.loads(METADATA))


def failed_starts(witness: Witness, runtime: str) -> None:
    """An error in the initialisation reaches the caller, and a crash ends only the environment."""
    function = witness.runtimes[runtime]
    with witness.running(function.with_variables(START="error")) as rie:
        for _ in range(2):
            error = rie.invoke(envelope(ORDER)).error
            assert error.endswith("Error: no settings"), error
    with witness.running(function.with_variables(START="crash")) as rie:
        expect("a crash at the start", rie.invoke(envelope(ORDER)), Answer(502, b""))


def slow_start(witness: Witness) -> None:
    """A function that starts for longer than the 10 s of Lambda's initialisation gets its events unwrapped."""
    with witness.running(witness.runtimes["Python"].with_variables(START="10.5")) as rie:
        expect("the first event", rie.invoke(envelope(ORDER)).value["told"], json.loads(METADATA))


def ends_when_told(witness: Witness, runtime: str) -> None:
    """SIGTERM ends RIE after the proxy, which is told of the shutdown, and leaves no process."""
    with witness.running(witness.runtimes[runtime]) as rie:
        rie.invoke(envelope(ORDER))
        rie.process.terminate()
        rie.process.wait(PATIENCE_SECONDS)
        assert "Killing it" not in rie.told(), "expected the runtime and the extension to end before RIE kills them"
        expect("processes left", rie.processes(), [])


def thaws(witness: Witness, runtime: str) -> None:
    """An environment handles an event after it was stopped for no time, for minutes, and past the event's deadline."""
    with witness.running(witness.runtimes[runtime]._replace(timeout=900, can_freeze=True)) as rie:
        rie.invoke(envelope(ORDER))
        for ahead in FREEZES:
            rie.freeze(ahead)
            expect("an event", rie.invoke(envelope(ORDER)).value["told"], json.loads(METADATA))
            rest = rie.invoke(envelope('{"do":"rest"}')).value
            expect("whether its time is up", rest <= 0, CLOCK_CAN_SHIFT and ahead == LONG)


def many_at_once(witness: Witness) -> None:
    """A Managed Instance: 16 events at the same time in one environment, each with its own metadata."""
    count = 16
    layer = shutil.copytree(witness.layer, witness.folder / "instance")
    # RIE starts no other program, and not as the owner of our files.
    bootstrap = layer / "opt/bootstrap"
    bootstrap.write_text("#!/bin/sh\nexec /opt/comeback-exec /mnt/bin/python3 -m awslambdaric app.handler\n")
    bootstrap.chmod(0o755)
    meeting = witness.folder / "meeting"
    meeting.touch()
    meeting.chmod(0o666)
    witness.folder.chmod(0o755)
    packages = witness.python.parents[1] / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    variables = {"AWS_LAMBDA_MAX_CONCURRENCY": str(count), "PYTHONPATH": f"{packages}:{CODE}"}
    variables["AWS_LAMBDA_EXEC_WRAPPER"] = "/opt/comeback-exec"
    with witness.running(Function([], variables, layer)) as rie, ThreadPoolExecutor(count) as pool:
        metadata = [{**json.loads(METADATA), "attempt": 1 + each, "request_id": f"id-{each}"} for each in range(count)]
        payload = {"do": "meet", "at": str(meeting), "count": count}
        sent = [{"_retry_metadata": told, "_original_payload": {**payload, "it": told["attempt"]}} for told in metadata]

        def invoke(event: Any) -> Any:
            # RIE refuses an event while fewer workers of the runtime are ready.
            while "Runtime.Unavailable" in (got := rie.invoke(json.dumps(event).encode())).error:
                assert not rie.ended_within(0.02), "expected RIE to run, it ended"
            return got.value

        got = list(pool.map(invoke, sent))
        expect("the metadata", [each["told"] for each in got], metadata)
        expect("the payloads", [each["event"]["it"] for each in got], [told["attempt"] for told in metadata])


CHECKS: tuple[Callable[[Witness], None], ...] = (
    slow_start,
    *(
        partial(check, runtime=runtime)
        for check in (comes_unwrapped, large_events, failures, failed_starts, ends_when_told, thaws)
        for runtime in ("Python", "Node.js")
    ),
)
