"""Deploys the example from a release into ministack: with CDK's packages, with SAM's application, and from the zips.

One event fails, comes back and succeeds; another one is given up. CDK and SAM are tried as in deployed.py.
"""

import sys
from functools import partial
from pathlib import Path

import commands
import endpoints
import loop
from deployed import Trial, never_given_up, of_one, play, run_all, try_out
from inputs import zipped
from stack import Deployed, given_up

# The examples set this maximum, so that the test doesn't take a day.
ATTEMPTS_MAX = 5


def sam(program: Path, folder: Path) -> commands.Example:
    """SAM's example, deployed in the unpacked archive without a build."""
    settings = ["env", f"AWS_DEFAULT_REGION={endpoints.REGION}", "SAM_CLI_TELEMETRY=0"]
    return commands.Example(commands.SAM_STACK, folder, [[*settings, str(program), "deploy"]])


def from_zips(handler: Path, orders: Path) -> list[str]:
    """Deploys the zips with AWS's API, like tools without support for Comeback. Returns the faults."""
    target = {
        "Runtime": "python3.13",
        "Handler": "app.handler",
        "Code": {"ZipFile": zipped({orders.name: orders.read_bytes()})},
    }
    with endpoints.ministack() as ministack:
        ministack.client("iam").create_role(RoleName="example", AssumeRolePolicyDocument="{}")
        made = loop.Loop(ministack, handler.read_bytes(), target, settings={"MAX_ATTEMPTS": str(ATTEMPTS_MAX)})
        deployed = Deployed(ministack, loop.TARGET, loop.HANDLER, made.retry_queue_arn, "example")
        placed, dead_letters = play(deployed)
    got = (placed, list(map(given_up, dead_letters)))
    expected = ([{"placed": "order-7", "attempt": 2}], never_given_up(ATTEMPTS_MAX))
    print("zips: events came back, one was given up", flush=True)
    return [] if got == expected else [f"zips: expected {expected}, got {got}"]


def main() -> int:
    # The folder of the release; its unpacked archives, and the example's cdk.out as npm; both command lines.
    release, work, sam_cli, cdk_cli = map(Path, sys.argv[1:])
    (application,) = work.glob("comeback-sam-*")
    (comeback,) = work.glob("comeback-*-linux-x86_64/comeback")
    (handler,) = release.glob("comeback-handler-*-x86_64.zip")
    tried = partial(of_one, ATTEMPTS_MAX, comeback)
    example = application / "infra" / "sam" / "example"
    trials = [
        Trial("SAM's application", lambda _: sam(sam_cli, example), tried),
        # That from pip makes the same template: run-released has compared them.
        Trial("CDK's package from npm", lambda _: commands.cdk(cdk_cli, work / "npm"), tried),
    ]
    orders = application / "infra" / "example" / "orders" / "app.py"
    return run_all([*(partial(try_out, trial) for trial in trials), partial(from_zips, handler, orders)])


if __name__ == "__main__":
    sys.exit(main())
