"""CDK's construct and SAM's application make the same systems: both examples as they are, and with every option of both
switched on. Needs the output of tests/deployment/run-cdk.

It compares what is stated by hand in both: queues, their policies, the mapping, roles, the handler and its environment,
recursion, the event invoke config and the ledger: all properties except names, the descriptions of functions and the
location of code. Alarms are made from one file, infra/cdk/contract/alarms.json.
"""

import copy
import unittest
from collections.abc import Callable
from typing import Any

import sam
from system import EXAMPLES, HARDENED, System
from template import Template

EXAMPLE = sam.transformed(sam.EXAMPLE)

Change = Callable[[dict[str, Any]], object]

PURGE = {"Effect": "Allow", "Action": ["sqs:PurgeQueue"], "Resource": {"Fn::GetAtt": ["RetryQueue", "Arn"]}}
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
QUEUE = "arn:aws:sqs:us-east-1:111111111111:<retry queue>"

# A resource of SAM's example or of its system, a change, and the facts that are gone and that are new.
CHANGES: list[tuple[str, Change, set[str], set[str]]] = [
    (
        "RetryQueue",
        lambda it: it.update(VisibilityTimeout=30),
        {"retry queue: VisibilityTimeout = 180"},
        {"retry queue: VisibilityTimeout = 30"},
    ),
    (
        "HandlerRole",
        lambda it: it["Policies"][0]["PolicyDocument"]["Statement"].append(PURGE),
        set(),
        {f"the handler's role: Allow sqs:PurgeQueue {QUEUE}"},
    ),
    (
        "OrdersRole",
        lambda it: it["ManagedPolicyArns"].append(ADMINISTRATOR),
        set(),
        {f"the target's role: managed policy {ADMINISTRATOR}"},
    ),
    (
        "OrdersFailures",
        lambda it: it["PolicyDocument"]["Statement"][0].update(Action="sqs:*"),
        {f"the target's role: Allow sqs:SendMessage {QUEUE}"},
        {f"the target's role: Allow sqs:* {QUEUE}"},
    ),
    (
        "HandlerRole",
        lambda it: it["AssumeRolePolicyDocument"]["Statement"][0].update(Principal={"Service": "ec2.amazonaws.com"}),
        {"the handler's role: Allow Service lambda.amazonaws.com sts:AssumeRole"},
        {"the handler's role: Allow Service ec2.amazonaws.com sts:AssumeRole"},
    ),
    (
        "Handler",
        lambda it: it["Environment"]["Variables"].update(MAX_AGE="7d"),
        {"the handler's environment: MAX_AGE = 86400 s"},
        {"the handler's environment: MAX_AGE = 604800 s"},
    ),
    (
        "HandlerRetry",
        lambda it: it.update(FunctionResponseTypes=[]),
        {"mapping: FunctionResponseTypes[] = ReportBatchItemFailures"},
        set(),
    ),
]


def facts(template: Template) -> set[str]:
    return System(list(template.resources())).facts()


class ParityTest(unittest.TestCase):
    """Facts about both systems, and about changed copies of SAM's example."""

    def test_both_make_the_same_systems(self) -> None:
        for systems in (EXAMPLES, HARDENED):
            of_cdk, of_sam = (system.facts() for system in systems.values())
            self.assertEqual(of_cdk, of_sam)
        self.assertNotEqual(EXAMPLES["SAM"].facts(), of_sam)

    def changed(self, resource: str, change: Change) -> set[str]:
        copied = copy.deepcopy(EXAMPLE)
        template = copied if resource in copied.document["Resources"] else copied.nested["Retry"]
        change(template.document["Resources"][resource]["Properties"])
        return facts(copied)

    def test_a_change_is_seen(self) -> None:
        before = facts(EXAMPLE)
        for resource, change, gone, new in CHANGES:
            after = self.changed(resource, change)
            self.assertEqual((before - after, after - before), (gone, new))

    def test_what_cannot_be_compared_is_refused(self) -> None:
        with self.assertRaisesRegex(NotImplementedError, "NotPrincipal"):
            self.changed(
                "DeadLetterQueuePolicy", lambda it: it["PolicyDocument"]["Statement"][0].update(NotPrincipal="*")
            )
        with self.assertRaisesRegex(NotImplementedError, "Fn::Cidr"):
            self.changed("Handler", lambda it: it.update(MemorySize={"Fn::Cidr": ["10.0.0.0/8", 1]}))
        copied = copy.deepcopy(EXAMPLE)
        parts = copied.nested["Retry"].document["Resources"]
        parts["Second"] = parts["HandlerRetry"]
        with self.assertRaisesRegex(ValueError, "expected one AWS::Lambda::EventSourceMapping"):
            facts(copied)


if __name__ == "__main__":
    unittest.main()
