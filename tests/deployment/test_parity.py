"""Tests which differences parity.py reports and which it ignores, with changed copies of SAM's example."""

import contextlib
import copy
import io
import re
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import everything
import parity
import sam
from parity import differences
from template import Template

EXAMPLE = sam.transformed(sam.EXAMPLE)

Properties = Callable[[str], dict[str, Any]]


def changed(change: Callable[[Properties, Properties], None]) -> list[str]:
    """The differences after a change to the properties of the example's resources or of the system's."""
    copied = copy.deepcopy(EXAMPLE)

    def properties(template: Template) -> Properties:
        return lambda name: template.document["Resources"][name]["Properties"]

    change(properties(copied), properties(copied.nested["Retry"]))
    return list(differences(EXAMPLE, copied))


def statements(role: dict[str, Any]) -> list[Any]:
    """A role's own statements."""
    return role["Policies"][0]["PolicyDocument"]["Statement"]


class DifferenceTest(unittest.TestCase):
    """Each test makes one change, and checks the reported difference."""

    def differ(self, change: Callable[[Properties, Properties], None], *expected: str) -> None:
        self.assertCountEqual(changed(change), expected)

    def test_an_attribute_of_a_queue(self) -> None:
        self.differ(
            lambda _, system: system("RetryQueue").update(VisibilityTimeout=30),
            "only CDK: retry queue: VisibilityTimeout = 180",
            "only SAM: retry queue: VisibilityTimeout = 30",
        )

    def test_an_attribute_that_is_missing(self) -> None:
        self.differ(
            lambda _, system: system("DeadLetterQueue").pop("SqsManagedSseEnabled"),
            "only CDK: dead-letter queue: SqsManagedSseEnabled = true",
        )

    def test_the_mappings_window(self) -> None:
        self.differ(
            lambda _, system: system("HandlerRetry").update(MaximumBatchingWindowInSeconds=1),
            "only CDK: mapping: MaximumBatchingWindowInSeconds = 0",
            "only SAM: mapping: MaximumBatchingWindowInSeconds = 1",
        )

    def test_an_additional_permission(self) -> None:
        more = {"Effect": "Allow", "Action": ["sqs:PurgeQueue"], "Resource": {"Fn::GetAtt": ["RetryQueue", "Arn"]}}
        self.differ(
            lambda _, system: statements(system("HandlerRole")).append(more),
            "only SAM: the handler's role: Allow sqs:PurgeQueue arn:aws:sqs:us-east-1:111111111111:<retry queue>",
        )

    def test_a_permission_on_everything(self) -> None:
        def widen(_: Properties, system: Properties) -> None:
            (invoke,) = (
                each for each in statements(system("HandlerRole")) if each.get("Action") == "lambda:InvokeFunction"
            )
            invoke["Resource"] = "*"

        function = "arn:aws:lambda:us-east-1:111111111111:function:<target>"
        self.differ(
            widen,
            f"only CDK: the handler's role: Allow lambda:InvokeFunction {function}",
            f"only CDK: the handler's role: Allow lambda:InvokeFunction {function}:*",
            "only SAM: the handler's role: Allow lambda:InvokeFunction *",
        )

    def test_a_managed_policy_and_a_policy_beside_the_role(self) -> None:
        def add(example: Properties, _: Properties) -> None:
            example("OrdersRole")["ManagedPolicyArns"].append("arn:aws:iam::aws:policy/AdministratorAccess")
            example("OrdersFailures")["PolicyDocument"]["Statement"][0]["Action"] = "sqs:*"

        queue = "arn:aws:sqs:us-east-1:111111111111:<retry queue>"
        self.differ(
            add,
            f"only CDK: the target's role: Allow sqs:SendMessage {queue}",
            f"only SAM: the target's role: Allow sqs:* {queue}",
            "only SAM: the target's role: managed policy arn:aws:iam::aws:policy/AdministratorAccess",
        )

    def test_who_may_assume_the_handlers_role(self) -> None:
        self.differ(
            lambda _, system: system("HandlerRole")["AssumeRolePolicyDocument"]["Statement"][0].update(
                Principal={"Service": "ec2.amazonaws.com"}
            ),
            "only CDK: the handler's role: Allow Service lambda.amazonaws.com sts:AssumeRole",
            "only SAM: the handler's role: Allow Service ec2.amazonaws.com sts:AssumeRole",
        )

    def test_the_dead_letter_queues_policy(self) -> None:
        found = changed(lambda _, system: system("DeadLetterQueuePolicy")["PolicyDocument"].update(Statement=[]))
        for action in (
            r"sqs:\* .*aws:SecureTransport",
            r"sqs:SendMessage .*<handler's role>",
            "sqs:PurgeQueue",
            "sqs:DeleteQueue",
        ):
            (_,) = (
                each
                for each in found
                if re.search(rf"^only CDK: the dead-letter queue's policy: Deny \* {action}", each)
            )

    def test_who_may_send(self) -> None:
        def open_up(_: Properties, system: Properties) -> None:
            policy = system("RetryQueuePolicy")["PolicyDocument"]
            policy["Statement"] = [each for each in policy["Statement"] if each.get("Action") != "sqs:SendMessage"]

        (found,) = changed(open_up)
        self.assertRegex(found, r"^only CDK: the retry queue's policy: Deny \* sqs:SendMessage .*<target's role>")

    def test_a_variable(self) -> None:
        self.differ(
            lambda _, system: system("Handler")["Environment"]["Variables"].update(
                MAX_AGE="7d", AWS_RETRY_MODE="adaptive"
            ),
            "only CDK: the handler's environment: MAX_AGE = 86400 s",
            "only SAM: the handler's environment: AWS_RETRY_MODE = adaptive",
            "only SAM: the handler's environment: MAX_AGE = 604800 s",
        )

    def test_a_queue_that_is_bound_to_another_function(self) -> None:
        bound = {"Fn::Sub": '{"${RetryQueue.QueueName}":["payments"]}'}
        self.differ(
            lambda _, system: system("Handler")["Environment"]["Variables"].update(QUEUE_TARGETS=bound),
            "only CDK: the handler's environment: records from <retry queue> may name <target>",
            "only SAM: the handler's environment: records from <retry queue> may name payments",
        )

    def test_recursion_on_either_side(self) -> None:
        self.differ(
            lambda example, system: (example("Orders").pop("RecursiveLoop"), system("Handler").pop("RecursiveLoop")),
            "only CDK: handler: RecursiveLoop = Allow",
            "only CDK: target: RecursiveLoop = Allow",
        )

    def test_the_mappings_response_types(self) -> None:
        self.differ(
            lambda _, system: system("HandlerRetry").update(FunctionResponseTypes=[]),
            "only CDK: mapping: FunctionResponseTypes[] = ReportBatchItemFailures",
        )

    def test_the_handlers_memory(self) -> None:
        self.differ(
            lambda _, system: system("Handler").update(MemorySize=256),
            "only CDK: handler: MemorySize = 128",
            "only SAM: handler: MemorySize = 256",
        )

    def test_the_deletion_policy_of_a_part(self) -> None:
        copied = copy.deepcopy(EXAMPLE)
        policies = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Snapshot"}
        copied.nested["Retry"].document["Resources"]["HandlerLog"].update(policies)
        self.assertCountEqual(
            differences(EXAMPLE, copied),
            [
                f"only {who}: handler's log: {policy} = {value}"
                for policy, changed_to in policies.items()
                for who, value in (("CDK", "Delete"), ("SAM", changed_to))
            ],
        )

    def test_lambdas_own_retries(self) -> None:
        self.differ(
            lambda example, _: example("OrdersEventInvokeConfig").update(MaximumRetryAttempts=2),
            "only CDK: invoke config: MaximumRetryAttempts = 0",
            "only SAM: invoke config: MaximumRetryAttempts = 2",
        )

    def test_a_part_of_another_kind(self) -> None:
        layer = {"Type": "AWS::Lambda::LayerVersion", "Properties": {}}
        copied = copy.deepcopy(EXAMPLE)
        copied.nested["Retry"].document["Resources"]["Layer"] = layer
        self.assertEqual(list(differences(EXAMPLE, copied)), ["only SAM: makes 1 AWS::Lambda::LayerVersion"])

    def test_an_alarm(self) -> None:
        found = changed(lambda _, system: system("UnreadMessagesAlarm").update(Threshold=1, Statistic="Average"))
        self.assert_alarms(
            found,
            "AWS/SQS ApproximateNumberOfMessagesVisible of QueueName <retry queue>",
            CDK=("Minimum", 0),
            SAM=("Average", 1),
        )

    def test_an_alarm_on_a_query(self) -> None:
        def widen(_: Properties, system: Properties) -> None:
            system("DeadLettersNotSentAlarm")["Metrics"][0]["Expression"] = "SELECT 1"

        for found, query in zip(
            sorted(changed(widen)), (r"SELECT SUM\(DeadLettersNotSent\) .*", "SELECT 1"), strict=True
        ):
            self.assertRegex(
                found, f"^only (CDK|SAM): the alarm on {query}: .*, Expression.Period = 300, .*, Threshold = 0, "
            )

    def test_a_metric_in_the_expression_of_an_alarm(self) -> None:
        def change(_: Properties, system: Properties) -> None:
            system("DeadLettersGrowAlarm")["Metrics"][1]["MetricStat"]["Stat"] = "Sum"

        for found, statistic in zip(sorted(changed(change)), ("Maximum", "Sum"), strict=True):
            self.assertRegex(found, rf"the alarm on DIFF\(letters\): .*, letters MetricStat.Stat = {statistic}, ")

    def assert_alarms(self, found: list[str], metric: str, **sides: tuple[str, int]) -> None:
        """Checks that only this differs: each side's alarm on this metric has its own statistic and threshold."""
        for difference, (who, (statistic, threshold)) in zip(sorted(found), sides.items(), strict=True):
            said = f"Statistic = {statistic}, Threshold = {threshold}, "
            self.assertRegex(difference, f"^only {who}: the alarm on {metric}: .* {said}")

    def test_a_ledger(self) -> None:
        def switch_on(example: Properties, _: Properties) -> None:
            example("Retry")["Parameters"]["Ledger"] = "true"

        found = changed(switch_on)
        self.assertIn("only SAM: ledger: BillingMode = PAY_PER_REQUEST", found)
        self.assertIn("only SAM: ledger: TimeToLiveSpecification.AttributeName = expires_at", found)
        self.assertIn("only SAM: the handler's environment: LEDGER_TABLE = <ledger>", found)
        table = "arn:aws:dynamodb:us-east-1:111111111111:table/<ledger>"
        self.assertIn(f"only SAM: the handler's role: Allow dynamodb:PutItem {table}", found)


class SameTest(unittest.TestCase):
    """Differences only in notation are ignored."""

    def same(self, change: Callable[[Properties, Properties], None]) -> None:
        self.assertEqual(changed(change), [])

    def test_a_variable_that_is_empty_or_missing(self) -> None:
        self.same(lambda _, system: system("Handler")["Environment"]["Variables"].pop("POLICIES"))

    def test_functions_that_are_listed_or_bound_to_the_queue(self) -> None:
        target = {"Fn::Select": [0, {"Ref": "TargetFunctions"}]}
        bound = {"Fn::Sub": ['{"${RetryQueue.QueueName}":["${Target}"]}', {"Target": target}]}

        def bind(_: Properties, system: Properties) -> None:
            variables = system("Handler")["Environment"]["Variables"]
            variables |= {"TARGET_FUNCTIONS": "", "QUEUE_TARGETS": bound}

        self.same(bind)

    def test_statements_split_or_merged(self) -> None:
        def split(_: Properties, system: Properties) -> None:
            policy = statements(system("HandlerRole"))
            (receive,) = (each for each in policy if "sqs:ReceiveMessage" in each.get("Action", []))
            policy.remove(receive)
            policy += [{**receive, "Action": action} for action in receive["Action"]]

        self.same(split)

    def test_an_arn_that_is_joined_from_parts(self) -> None:
        def name(_: Properties, system: Properties) -> None:
            parts = "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:${RetryQueue.QueueName}"
            system("HandlerRetry")["EventSourceArn"] = {"Fn::Sub": parts}

        self.same(name)

    def test_a_number_as_a_string(self) -> None:
        self.same(lambda _, system: system("RetryQueue").update(VisibilityTimeout="180"))

    def test_a_mapping_that_is_enabled(self) -> None:
        self.same(lambda _, system: system("HandlerRetry").update(Enabled=True))

    def test_names_and_descriptions(self) -> None:
        self.same(lambda _, system: system("Handler").update(Description="another"))


class UnknownTest(unittest.TestCase):
    """Parts that can't be compared are errors, and are not skipped."""

    def test_a_statement_with_something_unknown(self) -> None:
        with self.assertRaisesRegex(NotImplementedError, "NotResource"):
            changed(lambda _, system: statements(system("HandlerRole"))[0].update(NotResource="*"))

    def test_two_where_one_is_expected(self) -> None:
        copied = copy.deepcopy(EXAMPLE)
        parts = copied.nested["Retry"].document["Resources"]
        parts["Second"] = parts["HandlerRetry"]
        with self.assertRaisesRegex(ValueError, "expected one AWS::Lambda::EventSourceMapping"):
            list(differences(EXAMPLE, copied))

    def test_a_function_of_cloudformation(self) -> None:
        with self.assertRaisesRegex(NotImplementedError, "Fn::Cidr"):
            changed(lambda _, system: system("Handler").update(MemorySize={"Fn::Cidr": ["10.0.0.0/8", 1]}))

    def test_a_parameter(self) -> None:
        with self.assertRaisesRegex(ValueError, "Typo"):
            Template({"Resources": {}}, {"Typo": "1"})


class ProgramTest(unittest.TestCase):
    """The exit status of the program."""

    def test_it_fails_where_either_pair_differs(self) -> None:
        everything_on = sam.transformed_document(everything.switch_on(sam.read(sam.EXAMPLE)), sam.EXAMPLE.parent)
        cases = [((EXAMPLE, everything_on), 0), ((everything_on, everything_on), 1), ((EXAMPLE, EXAMPLE), 1)]
        for synthesised, status in cases:
            with (
                self.subTest(status),
                mock.patch("sys.argv", ["parity.py", "example", "everything"]),
                mock.patch("parity.synthesised", side_effect=synthesised),
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()) as said,
            ):
                self.assertEqual(parity.main(), status)
                self.assertEqual(bool(said.getvalue()), bool(status))


if __name__ == "__main__":
    unittest.main()
