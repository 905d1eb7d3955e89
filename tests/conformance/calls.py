"""Checks every call of the handler and of the program `comeback`, and every answer, against AWS's models.

Both use a local cloud, through a server that looks at the bytes.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import endpoints
from loop import KINDS, PATIENCE_SECONDS, TARGET, Loop

EVENTS_OF_A_KIND = 4

COMMANDS = (
    "status", "doctor", "dead list", "trace 0000", "dead redrive --yes", f"pause {TARGET}", "waiting",
    "waiting retry-now --yes", "waiting cancel --yes", f"resume {TARGET}", f"attach {TARGET} --yes",
    f"detach {TARGET} --yes", "dead purge --yes",
)  # fmt: skip

# The exit code of a command whose arguments are wrong. Otherwise it has made its calls, whatever it found.
USAGE = 2


def play(loop: Loop) -> None:
    """Lets events of each kind fail until they succeed or are given up.

    Raises:
        TimeoutError: if that does not happen.
    """
    for kind in KINDS:
        for payload in kind.payloads()[:EVENTS_OF_A_KIND]:
            loop.functions.invoke(FunctionName=TARGET, InvocationType="Event", Payload=json.dumps(payload))
    failures = EVENTS_OF_A_KIND * sum(kind.runs if kind.reason else kind.runs - 1 for kind in KINDS)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (done := loop.claim_count()) < failures:
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {PATIENCE_SECONDS} s {done} of {failures} failures are done")
        # Returns when a letter is there, or after a second.
        loop.sqs.receive_message(QueueUrl=loop.dead_letter_queue, WaitTimeSeconds=1, VisibilityTimeout=1)


def main() -> int:
    """Runs the loop and the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=Path, help="the folder of the built binaries")
    binaries = parser.parse_args().binaries.resolve()
    program = str(binaries / "comeback")
    seen: set[str] = set()
    with (
        endpoints.local(binaries / "comeback", "local", "--empty", "--port", "0") as local,
        endpoints.between(local, seen) as url,
    ):
        play(Loop(local, binaries, with_ledger=True, settings={"AWS_ENDPOINT_URL": url, "REGISTER": "true"}))
        for command in COMMANDS:
            done = subprocess.run([program, *command.split(), f"--local={url}"], capture_output=True, text=True)
            if done.returncode == USAGE:
                raise ValueError(f"expected comeback {command} to run, got {done.stderr}")
    print(f"{len(seen)} operations of our programs, as AWS's models have them: {', '.join(sorted(seen))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
