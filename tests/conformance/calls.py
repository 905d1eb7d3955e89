"""Checks every call of the handler and of the program `comeback`, and every answer, against AWS's models.

Both use a local cloud, through a server that looks at the bytes. The policy that `comeback doctor --policy` prints for
a command must allow the calls of the command, and the handler's role in SAM's template those of the handler: a
simulator of IAM decides. parliament reads the policies, and knows AWS's actions and resources. The trace of an event
must be one for OpenTelemetry.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import endpoints
import otlp
import parliament
from loop import KINDS, PATIENCE_SECONDS, TARGET, Loop
from models import Permission

EVENTS_OF_A_KIND = 4

COMMANDS = (
    "status", "doctor", "dead list", "trace 0000", "dead redrive --yes", f"pause {TARGET}", "waiting",
    "waiting retry-now --yes", "waiting cancel --all --yes", f"resume {TARGET}", f"attach {TARGET} --yes",
    f"detach {TARGET} --yes", "dead purge --all --yes",
)  # fmt: skip

# The exit code of a command whose arguments are wrong. Otherwise it has made its calls, whatever it found.
USAGE = 2


def play(loop: Loop) -> dict[str, str]:
    """Lets events of each kind fail until they succeed or are given up. Returns the id of one of each."""
    events = {}
    for kind in KINDS:
        for payload in kind.payloads()[:EVENTS_OF_A_KIND]:
            sent = loop.functions.invoke(FunctionName=TARGET, InvocationType="Event", Payload=json.dumps(payload))
            events[kind.name] = sent["ResponseMetadata"]["RequestId"]
    failures = EVENTS_OF_A_KIND * sum(kind.runs if kind.reason else kind.runs - 1 for kind in KINDS)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (done := loop.claim_count()) < failures:
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {PATIENCE_SECONDS} s {done} of {failures} failures are done")
        # Returns when a letter is there, or after a second.
        loop.sqs.receive_message(QueueUrl=loop.dead_letter_queue, WaitTimeSeconds=1, VisibilityTimeout=1)
    return events


def of_the_handlers_role() -> dict[str, Any]:
    """A policy of the actions that SAM's template allows the handler. test_parity.py holds the others to it."""
    template = (Path(__file__).parents[2] / "infra/sam/template.yaml").read_text()
    role = template[template.index("\n  HandlerRole:") : template.index("\n  LedgerTable:")]
    actions = re.findall(r"\b[a-z0-9]+:[A-Z]\w+", role)
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}


def of_the_command(program: str, command: str) -> dict[str, Any]:
    words = [word for word in command.split() if word.replace("-", "").isalpha() and word != TARGET]
    name = "-".join(word for word in words if not word.startswith("-"))
    policy = subprocess.check_output([program, "doctor", "--policy", name], text=True)
    findings = parliament.analyze_policy_string(policy).findings
    if findings:
        raise ValueError(f"expected parliament to find nothing in the policy of {name}, got {findings}")
    return json.loads(policy)


def simulate(calls: Sequence[tuple[str, dict[str, Any], set[Permission]]], modules: Path) -> str:
    """Asks IAM's simulator about calls and the policies that must allow them. Returns the number of its decisions."""
    asked = [{"who": who, "policy": policy, "calls": sorted(seen)} for who, policy, seen in calls]
    program = ["node", str(Path(__file__).with_name("iam") / "simulate.mjs"), str(modules)]
    *complaints, decisions = subprocess.check_output(program, input=json.dumps(asked), text=True).splitlines()
    if complaints:
        raise ValueError("\n".join(complaints))
    return decisions


def main() -> int:
    # The folder of the built binaries, and the packages of the folder iam.
    binaries, modules = (Path(argument).resolve() for argument in sys.argv[1:])
    program = str(binaries / "comeback")
    seen: set[Permission] = set()
    calls: list[tuple[str, dict[str, Any], set[Permission]]] = []
    with (
        endpoints.local(binaries / "comeback", arguments=["local", "--empty", "--port", "0"]) as local,
        endpoints.between(local, seen) as url,
    ):
        loop = Loop.of(local, binaries, with_ledger=True, settings={"AWS_ENDPOINT_URL": url, "REGISTER": "true"})
        events = play(loop)
        calls.append(("the handler", of_the_handlers_role(), set(seen)))
        # Without a mapping the handler makes no calls that could be taken for those of a command.
        for mapping in loop.functions.list_event_source_mappings()["EventSourceMappings"]:
            loop.functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        trace = [program, "trace", events["recovers"], "--otlp", f"--local={url}"]
        spans = otlp.check(subprocess.check_output(trace, text=True))
        for command in COMMANDS:
            seen.clear()
            done = subprocess.run([program, *command.split(), f"--local={url}"], capture_output=True, text=True)
            if done.returncode == USAGE:
                raise ValueError(f"expected comeback {command} to run, got {done.stderr}")
            calls.append((f"comeback {command}", of_the_command(program, command), set(seen)))
    print(f"{simulate(calls, modules)} decisions of IAM, all as expected")
    actions = sorted({action for *_, each in calls for action, _ in each})
    print(f"{spans} spans of a trace, all as OpenTelemetry has them")
    print(f"{len(actions)} actions of our programs, all allowed and as AWS has them: {', '.join(actions)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
