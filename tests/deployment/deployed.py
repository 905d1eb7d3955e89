"""Both examples, as they are and with everything switched on, go through CloudFormation into ministack, by the
commands that a person gives: there an event fails, comes back and succeeds, and one that never heals is given up with
its reason. IAM is asked: the handler has no more than its role allows, both queues are closed to strangers, and who may
redrive can do with them what it takes, and no more. Then all is removed.

ministack runs functions as processes of this machine, so the handler is the one that was built for it, in place of
arm64's. What it can't show:

- What Lambda itself does with roles: it sends failures to the queue and receives from it without asking.
- Which errors never heal: its Python functions report every error as the same type.
- That recursion is allowed: a template's `RecursiveLoop` is nothing to it, and its own detection is satisfied with
  as few attempts as are made here. tests/deployment/parity.py looks at the templates for it.
- That a function is made transparent: it has no wrappers. The end-to-end tests run the layer in the local cloud.
- SQS's redrive, which it lacks. On AWS it is for each step as if who started it took it.
- That CloudFormation deletes queues that nobody else may: it asks IAM for none of its own calls.
- An event invoke config of a version or an alias. What a template says of `$LATEST` counts for a plain name too, as
  in Lambda, though ministack doesn't say so when it is asked without a qualifier.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1] / "conformance"))

import commands
import endpoints
import everything
import sam
from stack import Deployed, find, remove

# Far longer than the backoffs of all attempts: then something is wrong.
PATIENCE_SECONDS = 150

# How often the examples try again; they say so that one needn't wait for a day.
ATTEMPTS_MAX = 5

RECOVERS = {"id": "order-7", "fail": {"attempts": 2, "error": "UpstreamUnavailable"}}
NEVER = {"id": "order-8", "fail": {"error": "UpstreamUnavailable"}}


# What a redrive does, and what it takes to throw dead letters away.
REDRIVE = ["receive_message: dead letters", "purge_queue: dead letters", "send_message: failures"]


def placed(deployed: Deployed) -> list[dict[str, Any]]:
    """The orders that the target placed, as its log says them."""
    return [json.loads(line) for line in deployed.log(deployed.target) if line.startswith("{")]


def play(deployed: Deployed) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Sends both events, and returns what was placed and what was given up once nothing waits any more.

    Raises:
        TimeoutError: if that does not happen.
    """
    for payload in (RECOVERS, NEVER):
        deployed.invoke(payload)
    dead_letters: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        dead_letters += deployed.dead_letters()
        if dead_letters and placed(deployed) and deployed.waiting_count() == 0:
            return placed(deployed), dead_letters
    raise TimeoutError(
        f"after {PATIENCE_SECONDS} s {len(placed(deployed))} orders placed, {len(dead_letters)} dead letters, "
        f"{deployed.waiting_count()} messages waiting; the log of the handler:\n"
        + "\n".join(deployed.log(deployed.handler))
    )


def faults(deployed: Deployed, attempts_max: int) -> list[str]:
    """What is not as it must be."""
    orders, dead_letters = play(deployed)
    given_up = [
        (
            json.loads(letter["Body"]),
            letter["MessageAttributes"]["Reason"]["StringValue"],
            letter["MessageAttributes"]["Attempts"]["StringValue"],
        )
        for letter in dead_letters
    ]
    looked_at = {
        "placed": ([{"placed": "order-7", "attempt": 2}], orders),
        "given up": ([(NEVER, "max_attempts_exceeded", str(attempts_max))], given_up),
        "what a stranger can do": ([], deployed.trespasses()),
        "what the operator can do": (REDRIVE, deployed.operations()),
    }
    if deployed.variables().get("LEDGER_TABLE"):
        # Each failure of either event.
        looked_at["claims"] = (["done"] * (2 + 1 + attempts_max), deployed.claims())
    return [f"{what}: expected {expected}, got {got}" for what, (expected, got) in looked_at.items() if expected != got]


class Trial(NamedTuple):
    """One example, and how often its target is re-invoked at most."""

    name: str
    attempts_max: int
    # In a folder that it may fill.
    make: Callable[[Path], commands.Example]


def try_out(trial: Trial) -> list[str]:
    """Deploys an example, plays with it and removes it; says what was wrong."""
    with endpoints.ministack(with_iam=True) as ministack, tempfile.TemporaryDirectory(prefix="deployed-") as temporary:
        home, folder = Path(temporary) / "home", Path(temporary) / "example"
        home.mkdir()
        example = trial.make(folder)
        example.deploy(ministack, home)
        wrong = faults(find(ministack, example.stack), trial.attempts_max)
        wrong += [f"left over: {each}" for each in remove(ministack, example.stack)]
    print(f"{trial.name}: an event came back, one was given up, {len(wrong)} faults", flush=True)
    return [f"{trial.name}: {fault}" for fault in wrong]


def main() -> int:
    """Tries all, each in an account of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cdk", type=Path, help="CDK's command line")
    parser.add_argument("example", type=Path, help="the synthesised CDK example, cdk.out, with this handler")
    parser.add_argument("everything", type=Path, help="what everything.js synthesises, with this handler")
    parser.add_argument("handler", type=Path, help="the retry handler for this machine, as a zip")
    arguments = parser.parse_args()
    example = sam.read(sam.EXAMPLE)
    with_everything = everything.switch_on(sam.read(sam.EXAMPLE))
    trials = [
        Trial("SAM", ATTEMPTS_MAX, lambda folder: commands.sam(arguments.handler, folder, example)),
        Trial("CDK", ATTEMPTS_MAX, lambda _: commands.cdk(arguments.cdk, arguments.example)),
        Trial(
            "SAM with everything",
            everything.ATTEMPTS_MAX,
            lambda folder: commands.sam(arguments.handler, folder, with_everything),
        ),
        Trial(
            "CDK with everything",
            everything.ATTEMPTS_MAX,
            lambda _: commands.cdk(arguments.cdk, arguments.everything),
        ),
    ]
    # They wait more than they compute.
    with ThreadPoolExecutor(max_workers=2) as pool:
        wrong = [fault for found in pool.map(try_out, trials) for fault in found]
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
