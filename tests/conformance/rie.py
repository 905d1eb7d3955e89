"""Runs the handler and the example in AWS's runtime interface emulator, which is made of Lambda's own code.

The emulator (RIE) comes with SAM CLI. The local cloud runs the same functions. `rie/differences.toml` lists where its
Runtime API and its errors differ from RIE's.
"""

import argparse
import json
import sys
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import endpoints
import rie_handler
from emulator import Function
from witness import CODE, Witness, envelope, expect


def kit(witness: Witness) -> None:
    """The example reads envelopes with the kit, also after a failure and after it was stopped."""
    with witness.running(witness.example._replace(timeout=2)) as rie:
        for fail, wanted in (
            ({"error": "Busy", "message": "503"}, "Busy: 503"),
            ({"by": "crash"}, "Runtime.ExitError: RequestId: <id> Error: Runtime exited with error: exit status 1"),
            ({"by": "hang"}, "Task timed out after 2.00 seconds"),
        ):
            expect(str(fail), rie.invoke(envelope(json.dumps({"fail": fail}))).error, wanted)
            expect("the next event", rie.invoke(envelope('{"id":7}')).value, {"id": 7, "attempt": 2})
            rie.freeze(timedelta())


def differs_as_listed(witness: Witness) -> None:
    """The local cloud's Runtime API and errors differ from RIE's only where `differences.toml` says why."""
    hang = {"id": 7, "fail": {"by": "hang"}}
    functions = {
        "probe": (witness.probe, [{}, {}]),
        "example": (witness.example._replace(timeout=1), [{"fail": {"by": "crash"}}, hang, {"id": 7}]),
        "bad settings": (Function([str(witness.binaries / "retry-handler")]), [{}]),
    }
    found: dict[str, dict[str, str]] = {}
    for name, (function, sent) in functions.items():
        in_local_cloud = witness.in_local_cloud(name.replace(" ", "-"), function)
        with witness.running(function) as rie:
            theirs, ours = (
                [invoke(json.dumps(each).encode()) for each in sent] for invoke in (rie.invoke, in_local_cloud)
            )
        if name == "probe":
            pairs = {step: (ours[-1].value[step], answer) for step, answer in theirs[-1].value.items()}
        else:
            steps = (f"{name}: {json.dumps(event)}" for event in sent)
            pairs = {step: (own.error, other.error) for step, own, other in zip(steps, ours, theirs, strict=True)}
        found |= {step: {"local": own, "rie": other} for step, (own, other) in pairs.items() if own != other}
    table = tomllib.loads((CODE / "differences.toml").read_text())["difference"]
    listed = {step: answers for entry in table for step, answers in entry["answers"].items()}
    for step in sorted(found.keys() | listed.keys()):
        expect(f"{step} in differences.toml", listed.get(step), found.get(step))


CHECKS: tuple[Callable[[Witness], None], ...] = (kit, rie_handler.handler, differs_as_listed)


def complaint(check: Callable[[Witness], None], witness: Witness) -> str | None:
    try:
        check(witness)
    except Exception as error:
        return f"{check.__name__}: {error!r}\n" + "\n".join(getattr(error, "__notes__", ()))
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=Path, help="the folder of the built binaries")
    parser.add_argument("sam", type=Path, help="an interpreter with SAM CLI")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rie-") as folder,
        endpoints.local(arguments.binaries.resolve() / "comeback-local") as local,
        ThreadPoolExecutor(len(CHECKS)) as pool,
    ):
        witness = Witness(arguments, local, Path(folder))
        complaints = [each for each in pool.map(lambda check: complaint(check, witness), CHECKS) if each]
    for each in complaints:
        print(each, end="\n\n", file=sys.stderr)
    print(f"{len(CHECKS)} checks in AWS's runtime interface emulator, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
