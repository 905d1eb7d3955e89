"""Checks every call of the handler and of the program `comeback`, and every answer, against AWS's models.

Both use a local cloud, through a server that looks at the bytes. The calls of each command are compared with the policy
that `comeback doctor --policy` prints for it, and the calls of the handler with its role in SAM's template. parliament
reads the policies, and knows AWS's actions and resources. The trace of an event must be one for OpenTelemetry.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path

import endpoints
import otlp
import parliament
from loop import KINDS, PATIENCE_SECONDS, TARGET, Loop
from models import Permission

EVENTS_OF_A_KIND = 4

COMMANDS = (
    "status", "doctor", "dead list", "trace 0000", "dead redrive --yes", f"pause {TARGET}", "waiting",
    "waiting retry-now --yes", "waiting cancel --yes", f"resume {TARGET}", f"attach {TARGET} --yes",
    f"detach {TARGET} --yes", "dead purge --yes",
)  # fmt: skip

# The exit code of a command whose arguments are wrong. Otherwise it has made its calls, whatever it found.
USAGE = 2


def play(loop: Loop) -> dict[str, str]:
    """Lets events of each kind fail until they succeed or are given up. Returns the id of one of each.

    Raises:
        TimeoutError: if that does not happen.
    """
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


def of_the_handlers_role() -> set[Permission]:
    """The actions that SAM's template allows the handler, with any resource. test_parity.py holds CDK's role to it."""
    template = (Path(__file__).parents[2] / "infra/sam/template.yaml").read_text()
    role = template[template.index("\n  HandlerRole:") : template.index("\n  LedgerTable:")]
    return {(action, "*") for action in re.findall(r"\b[a-z0-9]+:[A-Z]\w+", role)}


def of_the_policy(program: str, command: str) -> set[Permission]:
    """The actions and resources in the policy that the program prints for a command.

    Raises:
        ValueError: if parliament finds a fault in the policy.
    """
    words = [word for word in command.split() if word.replace("-", "").isalpha() and word != TARGET]
    name = "-".join(word for word in words if not word.startswith("-"))
    policy = subprocess.check_output([program, "doctor", "--policy", name], text=True)
    findings = parliament.analyze_policy_string(policy).findings
    if findings:
        raise ValueError(f"expected parliament to find nothing in the policy of {name}, got {findings}")
    statements = json.loads(policy)["Statement"]
    return {(action, statement["Resource"]) for statement in statements for action in statement["Action"]}


def check(who: str, seen: set[Permission], allowed: set[Permission]) -> None:
    """Checks calls against what is allowed.

    Raises:
        ValueError: if there are others, or none.
    """
    wrong = [
        call for call in seen if not any(call[0] == action and fnmatchcase(call[1], where) for action, where in allowed)
    ]
    if not seen or wrong:
        raise ValueError(f"expected only calls that {who} is allowed, got {sorted(wrong) or 'none'}")


def main() -> int:
    """Runs the loop and the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=Path, help="the folder of the built binaries")
    binaries = parser.parse_args().binaries.resolve()
    program = str(binaries / "comeback")
    seen: set[Permission] = set()
    everything: set[Permission] = set()
    with (
        endpoints.local(binaries / "comeback", arguments=["local", "--empty", "--port", "0"]) as local,
        endpoints.between(local, seen) as url,
    ):
        loop = Loop.of(local, binaries, with_ledger=True, settings={"AWS_ENDPOINT_URL": url, "REGISTER": "true"})
        events = play(loop)
        check("the handler", seen, of_the_handlers_role())
        # Without a mapping the handler makes no calls that could be taken for those of a command.
        for mapping in loop.functions.list_event_source_mappings()["EventSourceMappings"]:
            loop.functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        trace = [program, "trace", events["recovers"], "--otlp", f"--local={url}"]
        spans = otlp.check(subprocess.check_output(trace, text=True))
        for command in COMMANDS:
            everything |= seen
            seen.clear()
            done = subprocess.run([program, *command.split(), f"--local={url}"], capture_output=True, text=True)
            if done.returncode == USAGE:
                raise ValueError(f"expected comeback {command} to run, got {done.stderr}")
            check(f"comeback {command}", seen, of_the_policy(program, command))
    everything |= seen
    actions = sorted({action for action, _ in everything})
    print(f"{spans} spans of a trace, all as OpenTelemetry has them")
    print(f"{len(actions)} actions of our programs, all allowed and as AWS has them: {', '.join(actions)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
