"""parity.py must report what differs, ignore differences of notation, and refuse what it can't compare.

Each test changes a copy of SAM's example, and compares it with the example.
"""

import contextlib
import copy
import io
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import everything
import parity
import sam

EXAMPLE = sam.transformed(sam.EXAMPLE)

Change = Callable[[dict[str, Any]], object]


def changed(resource: str, change: Change) -> list[str]:
    """The differences after a change to a resource of the example or of the system."""
    copied = copy.deepcopy(EXAMPLE)
    template = copied if resource in copied.document["Resources"] else copied.nested["Retry"]
    change(template.document["Resources"][resource]["Properties"])
    return list(parity.differences(EXAMPLE, copied))


def statements(role: dict[str, Any]) -> list[dict[str, Any]]:
    """A role's own statements."""
    own: list[dict[str, Any]] = role["Policies"][0]["PolicyDocument"]["Statement"]
    return own


PURGE = {"Effect": "Allow", "Action": ["sqs:PurgeQueue"], "Resource": {"Fn::GetAtt": ["RetryQueue", "Arn"]}}
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
EC2 = {"Service": "ec2.amazonaws.com"}
QUEUE = "arn:aws:sqs:us-east-1:111111111111:<retry queue>"
BOUND = {"Fn::Sub": ['{"${RetryQueue.QueueName}":["${T}"]}', {"T": {"Fn::Select": [0, {"Ref": "TargetFunctions"}]}}]}

# The resource, its change, and the reported differences.
DIFFERENT: list[tuple[str, Change, list[str]]] = [
    (
        "RetryQueue",
        lambda it: it.update(VisibilityTimeout=30),
        ["only CDK: retry queue: VisibilityTimeout = 180", "only SAM: retry queue: VisibilityTimeout = 30"],
    ),
    (
        "DeadLetterQueue",
        lambda it: it.pop("SqsManagedSseEnabled"),
        ["only CDK: dead-letter queue: SqsManagedSseEnabled = true"],
    ),
    (
        "HandlerRole",
        lambda it: statements(it).append(PURGE),
        [f"only SAM: the handler's role: Allow sqs:PurgeQueue {QUEUE}"],
    ),
    (
        "OrdersRole",
        lambda it: it["ManagedPolicyArns"].append(ADMINISTRATOR),
        [f"only SAM: the target's role: managed policy {ADMINISTRATOR}"],
    ),
    (
        "OrdersFailures",
        lambda it: it["PolicyDocument"]["Statement"][0].update(Action="sqs:*"),
        [
            f"only CDK: the target's role: Allow sqs:SendMessage {QUEUE}",
            f"only SAM: the target's role: Allow sqs:* {QUEUE}",
        ],
    ),
    (
        "HandlerRole",
        lambda it: it["AssumeRolePolicyDocument"]["Statement"][0].update(Principal=EC2),
        [
            "only CDK: the handler's role: Allow Service lambda.amazonaws.com sts:AssumeRole",
            "only SAM: the handler's role: Allow Service ec2.amazonaws.com sts:AssumeRole",
        ],
    ),
    (
        "Handler",
        lambda it: it["Environment"]["Variables"].update(MAX_AGE="7d"),
        [
            "only CDK: the handler's environment: MAX_AGE = 86400 s",
            "only SAM: the handler's environment: MAX_AGE = 604800 s",
        ],
    ),
    ("Handler", lambda it: it.pop("RecursiveLoop"), ["only CDK: handler: RecursiveLoop = Allow"]),
    (
        "HandlerRetry",
        lambda it: it.update(FunctionResponseTypes=[]),
        ["only CDK: mapping: FunctionResponseTypes[] = ReportBatchItemFailures"],
    ),
]

# Changes of notation only: an empty variable, functions that are bound to a queue or listed, a statement that is split,
# a number as a text, a default that is stated, and a description.
SAME: list[tuple[str, Change]] = [
    ("Handler", lambda it: it["Environment"]["Variables"].pop("POLICIES")),
    ("Handler", lambda it: it["Environment"]["Variables"].update(TARGET_FUNCTIONS="", QUEUE_TARGETS=BOUND)),
    (
        "HandlerRole",
        lambda it: statements(it).extend(
            {**each, "Action": action}
            for each in list(statements(it))
            if "sqs:ReceiveMessage" in each.get("Action", [])
            for action in each["Action"]
        ),
    ),
    ("RetryQueue", lambda it: it.update(VisibilityTimeout="180")),
    ("HandlerRetry", lambda it: it.update(Enabled=True)),
    ("Handler", lambda it: it.update(Description="another")),
]


class ParityTest(unittest.TestCase):
    """One change at a time."""

    def test_what_differs_is_reported(self) -> None:
        for resource, change, expected in DIFFERENT:
            self.assertCountEqual(changed(resource, change), expected)

    def test_a_queue_without_its_policy_is_reported(self) -> None:
        found = changed("DeadLetterQueuePolicy", lambda it: it["PolicyDocument"].update(Statement=[]))
        self.assertTrue(all(each.startswith("only CDK: the dead-letter queue's policy: Deny * sqs:") for each in found))
        self.assertGreater(len(found), 4)

    def test_differences_of_notation_are_ignored(self) -> None:
        for resource, change in SAME:
            self.assertEqual(changed(resource, change), [], resource)

    def test_what_cannot_be_compared_is_refused(self) -> None:
        with self.assertRaisesRegex(NotImplementedError, "NotResource"):
            changed("HandlerRole", lambda it: statements(it)[0].update(NotResource="*"))
        with self.assertRaisesRegex(NotImplementedError, "Fn::Cidr"):
            changed("Handler", lambda it: it.update(MemorySize={"Fn::Cidr": ["10.0.0.0/8", 1]}))
        copied = copy.deepcopy(EXAMPLE)
        parts = copied.nested["Retry"].document["Resources"]
        parts["Second"] = parts["HandlerRetry"]
        with self.assertRaisesRegex(ValueError, "expected one AWS::Lambda::EventSourceMapping"):
            list(parity.differences(EXAMPLE, copied))

    def test_the_program_fails_where_either_pair_differs(self) -> None:
        everything_on = sam.transformed_document(everything.switch_on(sam.read(sam.EXAMPLE)), sam.EXAMPLE.parent)
        for synthesised, status in (((EXAMPLE, everything_on), 0), ((everything_on,) * 2, 1), ((EXAMPLE,) * 2, 1)):
            with (
                mock.patch("sys.argv", ["parity.py", "example", "everything"]),
                mock.patch("parity.synthesised", side_effect=synthesised),
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                self.assertEqual(parity.main(), status)


if __name__ == "__main__":
    unittest.main()
