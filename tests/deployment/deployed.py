"""Both example applications go through CloudFormation into ministack, by the tools that a person uses: there an
event fails, comes back and succeeds, and one that never heals is given up with its reason.

ministack runs functions as processes of this machine, so the handler is the one that was built for it, in place of
arm64's. What it can't show:

- Which errors never heal: its Python functions report every error as the same type.
- That recursion is allowed: a template's `RecursiveLoop` is nothing to it, and its own detection is satisfied with
  as few attempts as are made here. tests/deployment/parity.py looks at the templates for it.
- An event invoke config of a version or an alias. What a template says of `$LATEST` counts for a plain name too, as
  in Lambda, though a question without a qualifier isn't answered.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "conformance"))

import endpoints
from bootstrap import zipped
from stack import Deployed, find
from tools import Tools

# Far longer than the events take: then something is wrong.
PATIENCE_SECONDS = 60

# The examples try again for a day; a test has seconds.
ATTEMPTS_MAX = 3

RECOVERS = {"id": "order-7", "fail": {"attempts": 2, "error": "UpstreamUnavailable"}}
NEVER = {"id": "order-8", "fail": {"error": "UpstreamUnavailable"}}


def deploy_sam(tools: Tools, handler: bytes, folder: Path, _: Path) -> str:
    """Deploys SAM's example from a copy, where its handler lies as scripts/package would put it."""
    for part in ("sam", "example"):
        shutil.copytree(ROOT / "infra" / part, folder / "infra" / part)
    packed = folder / "dist" / "arm64" / "bootstrap.zip"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(handler)
    stack = "sam-example"
    tools.deploy_sam(folder / "infra" / "sam" / "example" / "template.yaml", stack)
    return stack


def deploy_cdk(tools: Tools, handler: bytes, folder: Path, assembly: Path) -> str:
    """Deploys CDK's example from a copy of what was synthesised, with the handler exchanged."""
    copy = folder / "cdk.out"
    shutil.copytree(assembly, copy)
    (stack,) = (path.name.removesuffix(".template.json") for path in copy.glob("*.template.json"))
    template = json.loads((copy / f"{stack}.template.json").read_text())
    (code,) = (
        resource["Properties"]["Code"]["S3Key"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
        and resource["Properties"]["Runtime"].startswith("provided")
    )
    assets = json.loads((copy / f"{stack}.assets.json").read_text())["files"]
    (copy / assets[code.removesuffix(".zip")]["source"]["path"]).write_bytes(handler)
    tools.deploy_cdk(copy, stack)
    return stack


def placed(deployed: Deployed) -> list[dict[str, Any]]:
    """The orders that the target placed, as its log says them."""
    return [json.loads(line) for line in deployed.log(deployed.target) if line.startswith("{")]


def play(deployed: Deployed) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Sends both events, and returns what was placed and what was given up once nothing waits any more.

    Raises:
        TimeoutError: if that does not happen.
    """
    deployed.set_variable("MAX_ATTEMPTS", str(ATTEMPTS_MAX))
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


def faults(deployed: Deployed) -> list[str]:
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
        "given up": ([(NEVER, "max_attempts_exceeded", str(ATTEMPTS_MAX))], given_up),
    }
    return [
        f"{what}: expected {expected}, got {got}"
        for what, (expected, got) in looked_at.items()
        if expected != got
    ]


# How each is deployed; returns the name of its stack.
EXAMPLES: dict[str, Callable[[Tools, bytes, Path, Path], str]] = {"SAM": deploy_sam, "CDK": deploy_cdk}


def main() -> int:
    """Deploys each example and plays with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sam", type=Path, help="SAM's command line")
    parser.add_argument("cdk", type=Path, help="CDK's command line")
    parser.add_argument("assembly", type=Path, help="the synthesised CDK example, cdk.out")
    parser.add_argument("handler", type=Path, help="the retry handler as built for this machine")
    arguments = parser.parse_args()
    handler = zipped(arguments.handler.read_bytes())
    wrong: list[str] = []
    for name, deploy in EXAMPLES.items():
        with endpoints.ministack() as ministack, tempfile.TemporaryDirectory(prefix="deployed-") as folder:
            home = Path(folder) / "home"
            home.mkdir()
            tools = Tools(arguments.sam, arguments.cdk, ministack, home)
            stack = deploy(tools, handler, Path(folder), arguments.assembly)
            found = faults(find(ministack, stack))
        print(f"{name}: an event came back, one was given up, {len(found)} faults")
        wrong += [f"{name}: {fault}" for fault in found]
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
