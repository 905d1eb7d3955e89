"""Runs the handler, the example and the layer in AWS's runtime interface emulator, which is made of Lambda's own code.

The emulator (RIE) comes with SAM CLI. The layer's proxy runs as an extension, in front of AWS's runtime clients. RIE
looks for extensions in /opt only, so a mount namespace puts the layer there. Where the machine allows none, those
checks are left out.

The local cloud runs the same functions. `rie/differences.toml` lists where its APIs and its errors differ from RIE's.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import endpoints
import rie_handler
import rie_layer
from emulator import IS_ROOT, Function, with_folders
from witness import CODE, Witness, envelope, expect

CHECKS_AT_A_TIME = 6


def kit_and_bootstrap(witness: Witness) -> None:
    """The example reads envelopes with the kit. With the proxy as its bootstrap it gets bare payloads."""
    alone = witness.example
    proxied = Function([str(witness.bootstrap)], {"COMEBACK_BOOTSTRAP": alone.command[0]})
    for function, attempt in ((alone, 2), (proxied, 0)):
        with witness.running(function._replace(timeout=2)) as rie:
            for fail, wanted in (
                ({"error": "Busy", "message": "503"}, "Busy: 503"),
                ({"by": "crash"}, "Runtime.ExitError: RequestId: <id> Error: Runtime exited with error: exit status 1"),
                ({"by": "hang"}, "Task timed out after 2.00 seconds"),
            ):
                expect(str(fail), rie.invoke(envelope(json.dumps({"fail": fail}))).error, wanted)
                got = rie.invoke(envelope('{"id":7}')).value
                expect("the next event", got, {"id": 7, "attempt": attempt})
                rie.freeze(timedelta())


def differs_as_listed(witness: Witness) -> None:
    """The local cloud's APIs and errors differ from RIE's only where `differences.toml` says why."""
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


ALWAYS: tuple[Callable[[Witness], None], ...] = (kit_and_bootstrap, rie_handler.handler, differs_as_listed)


def complaint(check: Callable[[Witness], None], witness: Witness) -> str | None:
    try:
        check(witness)
    except Exception as error:
        named = check.func.__name__ + str(check.keywords) if isinstance(check, partial) else check.__name__
        return f"{named}: {error!r}\n" + "\n".join(getattr(error, "__notes__", ()))
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=Path, help="the folder of the built binaries")
    parser.add_argument("sam", type=Path, help="an interpreter with SAM CLI")
    parser.add_argument("python", type=Path, help="an interpreter with awslambdaric")
    parser.add_argument("node", type=Path, help="a node_modules with aws-lambda-ric")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rie-") as folder,
        endpoints.local(arguments.binaries.resolve() / "comeback-local") as local,
        ThreadPoolExecutor(CHECKS_AT_A_TIME) as pool,
    ):
        witness = Witness(arguments, local, Path(folder))
        allowed = subprocess.run(with_folders(witness.layer, "true"), capture_output=True, text=True)
        checks, left_out = [*ALWAYS], {}
        if allowed.returncode:
            left_out["the layer"] = f"no folder can be put over /opt here: {allowed.stderr.strip()}"
        else:
            checks += rie_layer.CHECKS
            if IS_ROOT:
                checks.append(rie_layer.many_at_once)
            else:
                left_out["Managed Instances"] = "RIE runs their processes as another user, so it must be root"
        complaints = [each for each in pool.map(lambda check: complaint(check, witness), checks) if each]
    for each in complaints:
        print(each, end="\n\n", file=sys.stderr)
    print(f"{len(checks)} checks in AWS's runtime interface emulator, {len(complaints)} complaints")
    for what, why in left_out.items():
        print(f"left out {what}: {why}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
