"""The example of infra/sam, its function, and their README."""

import contextlib
import io
import json
import re
import sys
import tomllib
import unittest
from types import SimpleNamespace
from typing import Any

import sam
from sam import EXAMPLE, HOME, INFRA, SYSTEM, of_type, resources

sys.path.append(str(INFRA / "example" / "orders"))

import app


class ExampleTest(unittest.TestCase):
    """The example, and how it attaches its function."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.made = resources(sam.transformed(EXAMPLE))

    def test_failures_go_to_the_retry_queue_at_once(self) -> None:
        queue = f"arn:aws:sqs:{HOME}:{{Retry.RetryQueue}}"
        self.assertEqual(
            self.made["OrdersEventInvokeConfig"].properties,
            {
                "FunctionName": "{Orders}",
                "Qualifier": "$LATEST",
                "MaximumRetryAttempts": 0,
                "DestinationConfig": {"OnFailure": {"Destination": queue}},
            },
        )
        policy = self.made["OrdersFailures"].properties
        self.assertEqual(policy["Roles"], ["{OrdersRole}"])
        self.assertEqual(
            policy["PolicyDocument"]["Statement"], [{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": queue}]
        )
        # Lambda refuses a destination to which the role may not send.
        self.assertEqual(sam.read(EXAMPLE)["Resources"]["OrdersEventInvokeConfig"]["DependsOn"], "OrdersFailures")

    def test_both_sides_allow_the_loop(self) -> None:
        loops = {name: each["RecursiveLoop"] for name, each in of_type(self.made, "Lambda::Function").items()}
        self.assertEqual(loops, {"Orders": "Allow", "Retry.Handler": "Allow"})

    def test_alarms_go_to_a_topic_that_cloudwatch_can_use(self) -> None:
        topic = f"arn:aws:sns:{HOME}:{{Alarms}}"
        actions = {json.dumps(alarm["AlarmActions"]) for alarm in of_type(self.made, "CloudWatch::Alarm").values()}
        self.assertEqual(actions, {json.dumps([topic])})
        publish = {"Action": "sns:Publish", "Resource": topic}
        ours, tls = self.made["AlarmsPolicy"].properties["PolicyDocument"]["Statement"]
        self.assertEqual(
            ours,
            publish
            | {
                "Sid": "AlarmsPublish",
                "Effect": "Allow",
                "Principal": {"Service": "cloudwatch.amazonaws.com"},
                "Condition": {"StringEquals": {"aws:SourceAccount": "111111111111"}},
            },
        )
        self.assertEqual(
            tls,
            publish
            | {
                "Sid": "TlsOnly",
                "Effect": "Deny",
                "Principal": "*",
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        )

    def test_its_outputs_are_those_of_the_named_resources(self) -> None:
        template = sam.transformed(EXAMPLE)
        self.assertEqual(
            {name: template.output(name) for name in template.document["Outputs"]},
            {
                "OrdersName": "{Orders}",
                "OrdersLogName": "{OrdersLog}",
                "DeadLetterQueueUrl": "https://sqs.us-east-1.amazonaws.com/111111111111/{Retry.DeadLetterQueue}",
                "OperatorArn": "arn:aws:iam::111111111111:role/{Operator}",
                "AlarmTopicArn": f"arn:aws:sns:{HOME}:{{Alarms}}",
            },
        )

    def test_sam_deploys_it_without_options(self) -> None:
        settings = tomllib.loads((EXAMPLE.parent / "samconfig.toml").read_text())
        self.assertEqual(
            settings["default"]["deploy"]["parameters"],
            {
                "stack_name": "comeback-example",
                "resolve_s3": True,
                "capabilities": "CAPABILITY_IAM CAPABILITY_AUTO_EXPAND",
                "fail_on_empty_changeset": False,
            },
        )


class OrdersTest(unittest.TestCase):
    """The example's function."""

    RETRY = {"attempt": 2, "initial_timestamp": 1643667670, "request_id": "first"}

    def place(self, event: Any) -> tuple[Any, str]:
        """Invokes the function. Returns its answer and its log."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            answer = app.handler(event, SimpleNamespace(aws_request_id="id"))
        return answer, said.getvalue()

    def test_it_fails_until_the_attempt_that_its_order_names(self) -> None:
        order = {"id": "order-7", "fail": {"attempts": 2, "error": "UpstreamUnavailable"}}
        first = {"_retry_metadata": self.RETRY | {"attempt": 1}, "_original_payload": order}
        for event in (order, first):
            with self.assertRaises(Exception) as raised:
                self.place(event)
            self.assertEqual(type(raised.exception).__name__, "UpstreamUnavailable")
        answer, said = self.place({"_retry_metadata": self.RETRY, "_original_payload": order})
        self.assertEqual(answer, {"id": "order-7", "attempt": 2})
        self.assertEqual(said, '{"placed": "order-7", "attempt": 2}\n')

    def test_an_order_without_attempts_always_fails(self) -> None:
        late = {"_retry_metadata": self.RETRY | {"attempt": 1000}, "_original_payload": {"id": 1, "fail": {}}}
        with self.assertRaises(Exception) as raised:
            self.place(late)
        self.assertEqual(type(raised.exception).__name__, "UpstreamUnavailable")

    def test_an_order_that_does_not_ask_to_fail_is_placed_at_once(self) -> None:
        self.assertEqual(self.place({"id": "order-1"})[0], {"id": "order-1", "attempt": 0})

    def test_only_envelopes_are_taken_off(self) -> None:
        payload = {"id": "order-1"}
        envelope = {"_retry_metadata": self.RETRY, "_original_payload": payload}
        self.assertEqual(app.unwrap(envelope), (payload, self.RETRY))
        bad_attempts = [0, -1, 1.5, True, "1", None, float("inf")]
        lookalikes: list[Any] = [
            payload,
            "_retry_metadata",
            None,
            {"_retry_metadata": self.RETRY},
            {"_original_payload": payload},
            envelope | {"_retry_metadata": []},
            envelope | {"_retry_metadata": {"attempt": 1, "initial_timestamp": "now"}},
            *(envelope | {"_retry_metadata": self.RETRY | {"attempt": attempt}} for attempt in bad_attempts),
        ]
        for event in lookalikes:
            with self.subTest(event):
                self.assertEqual(app.unwrap(event), (event, {}))


class ReadmeTest(unittest.TestCase):
    """The README of infra/sam and the page of its parameters, compared with the templates."""

    README = (INFRA / "sam" / "README.md").read_text()
    PARAMETERS = (INFRA.parent / "docs/deploy/sam-parameters.md").read_text()

    def rows(self, heading: str) -> dict[str, list[str]]:
        """The first table below a heading, by the names in its first column."""
        below = self.PARAMETERS.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        rows = (re.split(r" *(?<!\\)\| *", line.strip("| ")) for line in below.splitlines() if line.startswith("| `"))
        return {name.strip("`"): rest for name, *rest in rows}

    def test_all_outputs_are_listed(self) -> None:
        self.assertEqual(self.rows("Outputs").keys(), sam.read(SYSTEM)["Outputs"].keys())

    def test_its_snippets_are_the_examples(self) -> None:
        example = EXAMPLE.read_text() + EXAMPLE.with_name("queue.yaml").read_text()
        snippets = re.findall(r"```yaml\n(.*?)```", self.README, re.DOTALL)
        self.assertTrue(snippets)
        for snippet in snippets:
            with self.subTest(snippet.splitlines()[0]):
                self.assertIn(snippet, example)


if __name__ == "__main__":
    unittest.main()
