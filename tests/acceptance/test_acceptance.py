"""Tests the acceptance run against ministack with IAM: it passes there, refuses bad input, and leaves nothing behind,
however it ends.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / part) for part in ("conformance", "deployment")]

import endpoints  # noqa: E402
from aws import Account, Refused, Stack  # noqa: E402
from play import CANT, ROWS, sentence  # noqa: E402
from questions import QUESTIONS  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402
from stack import listed  # noqa: E402

# Longer than a whole run. A run that hangs is killed.
PATIENCE_SECONDS = 280


def inventory(endpoint: endpoints.Endpoint) -> list[str]:
    """Everything in the account that could be left over from a run."""
    logs, s3, cloudwatch = endpoint.client("logs"), endpoint.client("s3"), endpoint.client("cloudwatch")
    stacks = endpoint.client("cloudformation").describe_stacks()["Stacks"]
    return sorted(
        [
            *listed(endpoint),
            *endpoint.client("dynamodb").list_tables()["TableNames"],
            *(each["RoleName"] for each in endpoint.client("iam").list_roles()["Roles"]),
            *(each["AlarmName"] for each in cloudwatch.describe_alarms()["MetricAlarms"]),
            *(each["logGroupName"] for each in logs.describe_log_groups()["logGroups"]),
            *(each["Name"] for each in s3.list_buckets()["Buckets"]),
            *(each["StackName"] for each in stacks if each["StackStatus"] != "DELETE_COMPLETE"),
            *(each["TopicArn"] for each in endpoint.client("sns").list_topics()["Topics"]),
        ]
    )


class AcceptanceTest(unittest.TestCase):
    """All tests share an emulator. Each compares the emulator's inventory before and after."""

    zips: Path
    comeback: Path
    endpoint: endpoints.Endpoint
    local: tuple[Path, Path] | None
    localstack: str | None
    localemu: str | None

    def setUp(self) -> None:
        self.before = inventory(self.endpoint)
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="acceptance-")))

    def tearDown(self) -> None:
        """Nothing is left, however a run ended."""
        self.assertEqual(inventory(self.endpoint), self.before)

    def start(
        self, *arguments: str, environment: Mapping[str, str] | None = None, of_emulator: bool = True
    ) -> subprocess.Popen[str]:
        """Starts the script with all permissions, or with the given variables."""
        emulator = ["--endpoint-url", self.endpoint.url] if of_emulator else []
        program = [ROOT / "scripts" / "acceptance", "--zips", self.zips, "--comeback", self.comeback]
        return subprocess.Popen(
            [*program, *emulator, *arguments],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], **(environment or self.endpoint.environment())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_to_end(self, *arguments: str, **options: Any) -> tuple[int, str, str]:
        process = self.start(*arguments, **options)
        printed, told = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, printed, told

    def assert_refuses(self, expected: str, *arguments: str, status: int = 1, **options: Any) -> None:
        got, _, told = self.run_to_end(*arguments, **options)
        self.assertEqual(got, status, told)
        self.assertIn(expected, told)

    def run_until(self, text: str, number: signal.Signals, *arguments: str) -> tuple[int, str, str]:
        """Runs the script, and sends it a signal once it prints `text`. Returns its exit status and its output."""
        process = self.start(*arguments)
        told = ""
        for line in process.stderr:
            told += line
            if text in line:
                process.send_signal(number)
                break
        printed, rest = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, printed, told + rest

    def test_it_is_green_and_says_what_it_skips(self) -> None:
        self.assert_green("ministack", "--name", "whole", "--endpoint-url", self.endpoint.url)

    def assert_green(self, emulator: str, *arguments: str) -> None:
        status, printed, told = self.run_to_end("--emulator", emulator, "--json", "green.json", *arguments)
        self.assertEqual(status, 0, f"{printed}\n{told}")
        document: dict[str, Any] = json.loads((self.folder / "green.json").read_text())
        results = {each["name"]: each for each in [*document["results"], *document["answers"]]}
        skipped = {name: each["said"] for name, each in results.items() if each["result"] == "skipped"}
        self.assertEqual(skipped, CANT[emulator])
        others = {each["result"] for each in results.values()} - {"skipped"}
        self.assertEqual(others, {"passed", "answered"})
        self.assertGreaterEqual(sum(each["result"] == "passed" for each in results.values()), 10)
        for each in document["results"]:
            self.assertIn(f"| {each['name']} | {each['result']} |", printed)
        verdict, answers = printed.split(f"What {emulator} answered, which is no part of the verdict:")
        for each in document["answers"]:
            self.assertIn(f"| {each['name']} | ", answers)
            self.assertNotIn(f"| {each['name']} | ", verdict)
        self.assertTrue(document["verdict"].startswith("passed: "), document["verdict"])
        # The report can be attached to an issue, so it must not name the account.
        self.assertEqual((self.folder / "green.md").read_text(), printed)
        self.assertNotRegex(printed + json.dumps(document), r"\b0{12}\b")
        self.assertTrue(0 < document["dollars"] < 1, document["costs"])

    def test_a_scenario_that_fails_says_why(self) -> None:
        status, printed, _ = self.run_to_end("--name", "failing", "--only", "program lists", "--comeback", "/bin/false")
        self.assertEqual(status, 1)
        self.assertIn("| the program lists dead letters | failed |", printed)
        self.assertIn("expected JSON of comeback dead list", printed)

    def test_a_stack_that_cannot_be_made_says_why(self) -> None:
        """A nested stack whose template is missing. Its error contains Lambda's message for a region without arm64."""
        missing = f'{self.endpoint.url}/bucket/Architecture "arm64" is not supported in {endpoints.REGION}.'
        template = {
            "Resources": {"Odd": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": missing}}}
        }
        variables = self.endpoint.environment() | {"AWS_DEFAULT_REGION": endpoints.REGION}
        self.enterContext(unittest.mock.patch.dict(os.environ, variables))
        stack = Stack(Account(self.endpoint.url, "ministack"), "broken")
        stack.make_bucket()
        _, _, url = stack.upload("template.json", json.dumps(template).encode())
        advice = f"Lambda has no arm64 in {endpoints.REGION}: pass --arch x86_64, or use another region"
        with self.assertRaisesRegex(Refused, f"(?s)the stack is .*Odd: .*Architecture .*\n{advice}"):
            stack.make(url)
        self.assertTrue(stack.remove())

    def test_it_leaves_nothing_behind_when_a_signal_ends_it(self) -> None:
        """At each step: while code is uploaded, while the stack is made, in the scenarios, and during the removal."""
        whens = {
            "upload": ("account ", signal.SIGINT),
            "deploy": ("deploying", signal.SIGINT),
            "played": ("playing", signal.SIGTERM),
            "skipped": ("skipped", signal.SIGHUP),
            "removal": ("removing", signal.SIGINT),
        }

        def ended(name: str) -> tuple[int, str, str]:
            # In the last case, the only scenario is skipped, so the run ends by itself after the deployment.
            only = ["--only", "alarm"] if name == "removal" else []
            return self.run_until(*whens[name], "--name", f"ended-{name}", *only)

        with ThreadPoolExecutor(len(whens)) as pool:
            statuses = dict(zip(whens, pool.map(ended, whens), strict=True))
        for name, (status, printed, told) in statuses.items():
            if name == "removal":
                self.assertEqual(status, 0, told)
                self.assertIn("| an alarm goes off | skipped |", printed)
            else:
                # If the signal comes before the script has set its handlers, Python ends by itself.
                self.assertIn((status, printed), [(130, ""), (-whens[name][1].value, "")], told)

    def test_what_a_killed_run_left_can_be_removed(self) -> None:
        self.run_until("playing", signal.SIGKILL, "--name", "killed")
        self.assertNotEqual(inventory(self.endpoint), self.before)
        self.assertEqual(self.run_to_end("--name", "killed")[0], 1)
        for expected in ("killed is removed\n", "there is nothing of killed\n"):
            status, printed, told = self.run_to_end("--clean", "killed")
            self.assertEqual((status, printed), (0, expected), told)

    def test_a_stack_of_the_same_name_is_left_alone(self) -> None:
        cloudformation = self.endpoint.client("cloudformation")
        queue = json.dumps({"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
        cloudformation.create_stack(StackName="taken", TemplateBody=queue)
        cloudformation.get_waiter("stack_create_complete").wait(StackName="taken", WaiterConfig={"Delay": 1})
        self.addCleanup(cloudformation.delete_stack, StackName="taken")
        with_stack = inventory(self.endpoint)
        self.assert_refuses("there is a stack taken already", "--name", "taken")
        self.assert_refuses("no run has made it", "--clean", "taken")
        # scripts/deploy would replace the stack, and scripts/destroy would remove it.
        account = [sys.executable, str(ROOT / "scripts" / "account"), "--stack", "taken"]
        variables = self.endpoint.environment() | {"AWS_DEFAULT_REGION": endpoints.REGION}
        done = subprocess.run(account, env=variables, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the stack taken is not the example of scripts/deploy", done.stderr)
        self.assertEqual(inventory(self.endpoint), with_stack)
        cloudformation.delete_stack(StackName="taken")
        cloudformation.get_waiter("stack_delete_complete").wait(StackName="taken", WaiterConfig={"Delay": 1})

    def test_a_missing_permission_is_named(self) -> None:
        """With an empty bucket, and with all code in it."""
        iam = self.endpoint.client("iam")
        iam.create_user(UserName="limited")
        key = iam.create_access_key(UserName="limited")["AccessKey"]
        secret = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        for action in ("s3:PutObject", "cloudformation:CreateStack"):
            statements = [
                {"Effect": "Allow", "Action": "*", "Resource": "*"},
                {"Effect": "Deny", "Action": action, "Resource": "*"},
            ]
            policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
            iam.put_user_policy(UserName="limited", PolicyName="all-but-one", PolicyDocument=policy)
            limited = self.endpoint.environment() | secret
            self.assert_refuses(f"the caller may not {action}", "--name", "limited", environment=limited)

    def test_without_what_it_needs_it_does_nothing(self) -> None:
        none = {"HOME": str(self.folder), "AWS_EC2_METADATA_DISABLED": "true"}
        self.assert_refuses("a region", environment=none)
        self.assert_refuses("credentials", environment={**none, "AWS_REGION": "us-east-1"})
        self.assert_refuses("scripts/package --arch arm64 makes it", "--zips", str(self.folder))
        self.assert_refuses("expected 4 to 30 lower-case letters", "--name", "Upper", status=2)
        # No emulator is named, so the script believes that this is AWS, and asks before it spends money.
        self.assert_refuses("expected --yes, since nobody can be asked", of_emulator=False)

    def test_it_is_green_in_the_local_cloud(self) -> None:
        """Takes a minute, so scripts/test leaves it out."""
        if self.local is None:
            self.skipTest("no local cloud was given")
        program, python = self.local
        settings = {"PATH": f"{python.absolute().parent}:{os.environ['PATH']}"}
        with endpoints.local(program, settings) as cloud:
            self.assert_green("local", "--name", "local", "--endpoint-url", cloud.url)
            self.assertEqual(listed(cloud), [])

    def test_it_is_green_in_localstack(self) -> None:
        self.assert_green_in("localstack", self.localstack)

    def test_it_is_green_in_localemu(self) -> None:
        self.assert_green_in("localemu", self.localemu)

    def assert_green_in(self, package: str, python: str | None) -> None:
        """Takes a minute, so scripts/test leaves it out."""
        if python is None:
            self.skipTest(f"no Python with {package} was given")
        with endpoints.localstack(python, package) as cloud:
            self.assert_green(package, "--name", package, "--endpoint-url", cloud.url)
            self.assertEqual(listed(cloud), [])

    def test_the_page_has_all_scenarios_and_questions(self) -> None:
        self.assertCountEqual([row[0] for row in ROWS], [sentence(each) for each in (*SCENARIOS, *QUESTIONS)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zips", type=Path, help="the folder with ARCH/bootstrap.zip")
    parser.add_argument("comeback", type=Path, help="the operator's program")
    parser.add_argument(
        "--local",
        nargs=2,
        type=Path,
        metavar=("PROGRAM", "PYTHON"),
        help="comeback-local, and a Python with awslambdaric",
    )
    parser.add_argument("--localstack", help="a Python with LocalStack")
    parser.add_argument("--localemu", help="a Python with LocalEmu")
    parser.add_argument("tests", nargs="*", help="only these tests")
    arguments = parser.parse_args()
    AcceptanceTest.zips, AcceptanceTest.comeback = arguments.zips.resolve(), arguments.comeback.resolve()
    AcceptanceTest.local = arguments.local
    AcceptanceTest.localstack, AcceptanceTest.localemu = arguments.localstack, arguments.localemu
    # Stacks are removed while their functions run, which ministack reports as errors of its own.
    with endpoints.ministack(with_iam=True, log_level="CRITICAL") as AcceptanceTest.endpoint:
        result = unittest.main(argv=[sys.argv[0], "--quiet", *arguments.tests], exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    # A shell lets what runs in the background ignore Ctrl-C, and the runs of these tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
