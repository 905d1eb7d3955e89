"""CDK's construct and SAM's application make the same systems: both examples as they are, with every option of both
switched on, and with records in a bucket besides. Needs the output of tests/deployment/run-cdk.

It compares what is stated by hand in both: queues, their policies, the mapping, roles, the handler and its environment,
recursion, the event invoke config and the ledger: all properties except names, the descriptions of functions and the
location of code. Alarms are made from one file, infra/cdk/contract/alarms.json.
"""

import unittest

from system import EXAMPLES, HARDENED, RECORDED

QUEUE = "arn:aws:sqs:us-east-1:111111111111:<retry queue>"

# One fact of each kind, so that the comparison can't lose a kind in both.
KINDS = {
    "retry queue: VisibilityTimeout = 180",
    "mapping: FunctionResponseTypes[] = ReportBatchItemFailures",
    "the handler's environment: MAX_AGE = 86400 s",
    "the handler's role: Allow Service lambda.amazonaws.com sts:AssumeRole",
    f"the handler's role: Allow sqs:ReceiveMessage {QUEUE}",
    f"the target's role: Allow sqs:SendMessage {QUEUE}",
    "makes 1 Lambda::EventSourceMapping",
}


class ParityTest(unittest.TestCase):
    def test_both_make_the_same_systems(self) -> None:
        for systems in (EXAMPLES, HARDENED, RECORDED):
            of_cdk, of_sam = (system.facts() for system in systems.values())
            self.assertEqual(of_cdk, of_sam)
        self.assertNotEqual(EXAMPLES["SAM"].facts(), of_sam)
        self.assertLessEqual(KINDS, EXAMPLES["SAM"].facts())
