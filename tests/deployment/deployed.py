"""Deploys the examples with every option switched on into ministack, through CloudFormation and with Terraform where it
is installed, with the commands that a user would type; released.py deploys them as they are. One event fails, is
retried and succeeds; another one always fails and is given up with its reason. IAM is enforced.

ministack runs functions as processes of this machine, so the handler is built for this machine, not for arm64.
docs/design/tests.md lists what each cloud lacks. Some more things can't be tested in ministack:

- Lambda's own use of roles: ministack sends failures to the queue and receives from it without checking permissions.
- Permanent errors: all errors of its Python functions have the same type.
- Allowed recursion: ministack ignores a template's `RecursiveLoop`, and its own loop detection permits the few
  attempts of this test. test_parity.py checks the setting in the templates.
- That only CloudFormation can delete the queues: ministack does not check CloudFormation's own calls with IAM.
- That the operator may use `comeback status` and `comeback trace`: ministack takes the list of event invoke configs for
  another operation, and can't match a log group's ARN that ends with `:*`. Here both run with all permissions.
- An event invoke config of a version or an alias. A template's config for `$LATEST` also applies to the plain name, as
  in Lambda, although ministack doesn't return it without a qualifier.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import commands
import endpoints
import sam
from inputs import failure_record
from loop import consume
from stack import Deployed, empty_buckets, find, given_up, life_of_failing, listed, remove, retry_queue

# Far longer than the backoffs of all attempts. If it isn't done by then, something is wrong.
PATIENCE_SECONDS = 150

RECOVERS = {"id": "order-7", "fail": {"attempts": 2, "error": "UpstreamUnavailable"}}
NEVER = {"id": "order-8", "fail": {"error": "UpstreamUnavailable"}}
FORGED = {"id": "forged"}
REDRIVEN = {"id": "redriven"}

# The queues' policies let the operator redrive and delete dead letters, and bring waiting events forward.
OPERATE = {
    "receive_message: dead letters",
    "change_message_visibility: dead letters",
    "send_message: failures",
    "change_message_visibility: failures",
}
PURGE = {"purge_queue: dead letters"}
# The payload of a large dead letter is still in the bucket.
READ_RECORDS, DELETE_RECORDS = {"get_object: records"}, {"delete_object: records"}

# What the handler does only under load, if Lambda refuses an invocation, or if its function is down for minutes.
RARE = (
    "sqs:GetQueueAttributes on a retry queue",
    "sqs:SendMessage on a retry queue",
    "dynamodb:DeleteItem on ",
    "cloudwatch:GetMetricData on *",
    "dynamodb:Query on ",
    # S3 asks for it if a record is gone.
    "s3:ListBucket on ",
)


def play(deployed: Deployed) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Sends both events. Returns the placed orders and the dead letters, once nothing waits any more."""
    for payload in (RECOVERS, NEVER):
        deployed.invoke(payload)
    dead_letters: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        dead_letters += deployed.dead_letters()
        if dead_letters and deployed.placed() and deployed.waiting_count() == 0:
            return deployed.placed(), dead_letters
    raise TimeoutError(
        f"after {PATIENCE_SECONDS} s {len(deployed.placed())} orders placed, {len(dead_letters)} dead letters, "
        f"{deployed.waiting_count()} messages waiting; the log of the handler:\n"
        + "\n".join(deployed.log(deployed.handler))
    )


# ministack ignores a template's `RecursiveLoop`.
PROBLEMS = ("handler_loop_stopped", "loop_stopped")


def faults(
    deployed: Deployed,
    attempts_max: int,
    comeback: Path,
    problems: Sequence[str] = PROBLEMS,
    sources: Sequence[str] = (),
) -> list[str]:
    """The differences from the expected result. `sources` are the ARNs of attached queues."""
    of_sources = [fault for arn in sources for fault in faults_of_queue(deployed.endpoint, arn)]
    orders, dead_letters = play(deployed)
    event_ids = [letter["MessageAttributes"]["RequestId"]["StringValue"] for letter in dead_letters]
    failures = 2 + 1 + attempts_max
    operate, purge, looked_at = OPERATE, PURGE, {}
    if deployed.bucket:
        operate, purge = OPERATE | READ_RECORDS, PURGE | DELETE_RECORDS
        looked_at["records"] = (failures, len(deployed.records()))
    looked_at |= {
        "placed": ([{"placed": "order-7", "attempt": 2}], orders),
        "given up": (never_given_up(attempts_max), list(map(given_up, dead_letters))),
        "what a stranger can do": (set(), deployed.stranger_operations()),
        "what the operator can do": (operate, deployed.possible(deployed.operators_key)),
        "what the operator can do with all permissions": (operate | purge, deployed.operations()),
        "permissions that the handler didn't use": (
            [],
            [each for each in deployed.unused_permissions() if not each.startswith(RARE)],
        ),
        "comeback trace": (
            [life_of_failing(attempts_max)],
            [_trace(deployed, comeback, event_id) for event_id in event_ids],
        ),
    }
    # A handler that may not make a call, such as those about delays and of the register, goes on and logs that.
    lines = (json.loads(line) for line in deployed.log(deployed.handler) if line.startswith("{"))
    denied = {line["error"] for line in lines if "AccessDenied" in line.get("error", "")}
    looked_at["denied calls"] = (set(), denied)
    if deployed.variables().get("LEDGER_TABLE"):
        # The failures of both events, and two of each queue's message.
        looked_at["claims"] = (["done"] * (failures + 2 * len(sources)), deployed.claims())
    status = deployed.comeback(comeback, "status")
    (system,) = deployed.comeback(comeback, "doctor")["systems"]
    bad = [finding["name"] for finding in system["findings"] if finding["verdict"] == "bad"]
    looked_at["comeback status"] = ([deployed.arn, *sources], [each["function"] for each in status["functions"]])
    looked_at["comeback doctor"] = (list(problems), bad)
    if deployed.variables().get("REGISTER") == "true":
        listed = deployed.comeback(comeback, "waiting", as_operator=True)
        looked_at["comeback waiting"] = (("register", 0), (listed["source"], listed["looked_at"]))
    wrong = [
        f"{what}: expected {expected}, got {got}" for what, (expected, got) in looked_at.items() if expected != got
    ]
    return wrong + of_sources


def never_given_up(attempts_max: int) -> list[tuple[str, str, str]]:
    """The one dead letter that there must be."""
    return [("max_attempts_exceeded", str(attempts_max), json.dumps(NEVER))]


def _trace(deployed: Deployed, comeback: Path, event_id: str) -> tuple[list[str], dict[str, str]]:
    """The life of an event, without its waits: an event that the handler receives only when it is due has none."""
    life = deployed.comeback(comeback, "trace", event_id)
    return [step["what"] for step in life["steps"] if step["what"] != "waits"], life["next"]


def faults_of_queue(endpoint: endpoints.Endpoint, source: str) -> list[str]:
    """Sends a message to the queue that this text ends with, whose consumer fails."""
    queues = endpoint.client("sqs")
    return consume(queues, queues.get_queue_url(QueueName=source.rsplit(":", 1)[-1])["QueueUrl"])


def destroy(endpoint: endpoints.Endpoint, example: commands.Example, home: Path) -> list[str]:
    empty_buckets(endpoint)
    replace(example, commands=[["terraform", "destroy", "-auto-approve", "-no-color"]]).deploy(endpoint, home)
    return [*listed(endpoint), *(each["Name"] for each in endpoint.client("s3").list_buckets()["Buckets"])]


class Trial(NamedTuple):
    name: str
    # Makes the example in a folder that no other trial uses.
    make: Callable[[Path], commands.Example]
    faults: Callable[[endpoints.Endpoint, str], list[str]]
    # Removes what is no stack, and returns what is left.
    remove: Callable[[endpoints.Endpoint, commands.Example, Path], list[str]] | None = None


def of_one(attempts_max: int, comeback: Path, endpoint: endpoints.Endpoint, stack: str) -> list[str]:
    """Tests an example with one target, with this maximum of attempts and the operator's program."""
    (deployed,) = find(endpoint, stack)
    return faults(deployed, attempts_max, comeback)


def of_terraform(comeback: Path, endpoint: endpoints.Endpoint, _: str) -> list[str]:
    # All names begin with that of the module in the complete example.
    target, handler, operator = (f"comeback-complete-{part}" for part in ("orders", "handler", "operator"))
    queue = retry_queue(endpoint, target)
    deployed = Deployed(endpoint, target, handler, queue, operator)
    # Version 5 of the provider makes queues that take only messages of 256 KiB.
    problems = ["messages_small"] * 4 if commands.has_provider_5() else []
    source = queue.replace("-retry-orders", "-imports")
    return faults(deployed, sam.ATTEMPTS_MAX, comeback, problems, [source])


def of_several(endpoint: endpoints.Endpoint, stack: str) -> list[str]:
    """Tests the application with several functions and a queue.

    The failures of each are retried through its own queue, a record in one function's queue can't invoke another
    function, and a redrive reaches every function.
    """
    one, other = find(endpoint, stack)
    bound = json.loads(one.variables()["QUEUE_TARGETS"])
    (source,) = {name for names in bound.values() for name in names if name.startswith("sqs:")}
    # All others are bound to one target.
    (redrive_queue,) = (queue for queue, names in bound.items() if len(names) > 1)
    of_source = faults_of_queue(endpoint, source)
    for each in (one, other):
        each.invoke({"id": "own", "fail": {"attempts": 2, "error": "UpstreamUnavailable"}})
    one.send_as_operator(one.retry_queue_name, json.dumps(failure_record(other.arn, FORGED)))
    one.send_as_operator(redrive_queue, json.dumps(REDRIVEN), Reason="max_attempts_exceeded", FunctionArn=other.arn)
    own, redriven = {"placed": "own", "attempt": 2}, {"placed": "redriven", "attempt": 1}
    expected = ([own], [redriven, own], [("target_not_allowed", "0", json.dumps(FORGED))])
    dead: list[tuple[str, str, str]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        dead += map(given_up, one.dead_letters())
        got = (one.placed(), sorted(other.placed(), key=lambda placed: placed["attempt"]), dead)
        if got == expected:
            return of_source
        if time.monotonic() > deadline:
            return [*of_source, f"placed by one and the other, and given up: expected {expected}, got {got}"]


def try_out(trial: Trial) -> list[str]:
    """Deploys an example, tests it and removes it. Returns the faults."""
    with endpoints.ministack(with_iam=True) as ministack, tempfile.TemporaryDirectory(prefix="deployed-") as temporary:
        home, folder = Path(temporary) / "home", Path(temporary) / "example"
        home.mkdir()
        example = trial.make(folder)
        example.deploy(ministack, home)
        wrong = trial.faults(ministack, example.stack)
        left = trial.remove(ministack, example, home) if trial.remove else remove(ministack, example.stack)
        wrong += [f"left over: {each}" for each in left]
    print(f"{trial.name}: what had failed came back, {len(wrong)} faults", flush=True)
    return [f"{trial.name}: {fault}" for fault in wrong]


def run_all(runs: Sequence[Callable[[], list[str]]]) -> int:
    """Makes all runs at the same time, because they mostly wait, and prints their faults. Returns the exit code."""
    with ThreadPoolExecutor(max_workers=len(runs)) as pool:
        wrong = [fault for found in pool.map(lambda run: run(), runs) for fault in found]
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    # CDK's command line, the output of examples.js with this handler, the handler's zip, and the operator's program.
    cdk, applications, handler, comeback = (Path(argument).resolve() for argument in sys.argv[1:])
    with_everything = sam.with_records(sam.with_everything())
    all_on = partial(of_one, sam.ATTEMPTS_MAX, comeback)
    trials = [
        Trial("SAM with everything", lambda folder: commands.sam(handler, folder, with_everything), all_on),
        Trial(
            "SAM with a queue",
            lambda folder: commands.sam_with_a_queue(handler, folder),
            lambda endpoint, _: faults_of_queue(endpoint, "sqs:imports"),
        ),
        Trial("CDK with everything", lambda _: commands.cdk(cdk, applications / "recorded"), all_on),
        Trial("CDK with several functions", lambda _: commands.cdk(cdk, applications / "several"), of_several),
    ]
    plugins = commands.terraform_plugins()
    if plugins is not None:
        make = lambda folder: commands.terraform(handler, folder, plugins)  # noqa: E731
        trials.append(Trial("Terraform with everything", make, partial(of_terraform, comeback), destroy))
    else:
        print("Terraform with everything: left out, because Terraform or its AWS provider is not installed")
    return run_all([partial(try_out, trial) for trial in trials])


if __name__ == "__main__":
    sys.exit(main())
