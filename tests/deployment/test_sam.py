"""Tests what only infra/sam has: its own options, its alarms, its example and its pages.

test_parity.py has the options that CDK and Terraform have as well, and compares the example with CDK's.
test_refusals.py has what is refused.
"""

import json
import re
import runpy
import unittest
from collections.abc import Mapping
from typing import Any

import sam
from sam import (
    ALARMS,
    EXAMPLE,
    HOME,
    INFRA,
    INVOICES,
    KEY,
    NEEDED,
    ORDERS,
    ROLES,
    SYSTEM,
    TARGET_ALARMS,
    TOPIC,
    WITH_RECORDS,
    of_type,
    resources,
    system,
    system_template,
)
from template import Resource, listed, read

ORDER = runpy.run_path(str(INFRA / "example/orders/app.py"))


class OptionTest(unittest.TestCase):
    def test_optional_resources_are_made_only_on_request(self) -> None:
        kinds = {each.type for each in system().values()}
        optional = {
            "DynamoDB::Table",
            "IAM::ManagedPolicy",
            "CloudWatch::Alarm",
            "CloudWatch::Dashboard",
            "KMS::Key",
            "S3::Bucket",
            "S3::BucketPolicy",
        }
        self.assertEqual(kinds & optional, set())

    @staticmethod
    def variables(made: Mapping[str, Resource]) -> dict[str, str]:
        return made["Handler"].properties["Environment"]["Variables"]

    def test_roles_get_what_operators_need_and_must_be_operators(self) -> None:
        made = system(OperatorPrincipals=ROLES[0], OperatorRoles="orders,on-call")
        for name in ("ReadPolicy", "OperatePolicy"):
            self.assertEqual(made[name].properties["Roles"], ["orders", "on-call"])
        self.assertNotIn("Roles", system(OperatorPrincipals=ROLES[0])["ReadPolicy"].properties)
        refusals = system_template(OperatorRoles="orders").refusals()
        self.assertEqual(refusals, ["OperatorPrincipals must have the ARNs of OperatorRoles"])

    def test_queues_of_ones_own_are_named_beside_the_retry_queue(self) -> None:
        own = {"retry-orders": ["orders"], "retry-others": ["invoices", "mails"]}
        made = system(QueueTargets=json.dumps(own))
        targets = json.loads(self.variables(made)["QUEUE_TARGETS"])
        self.assertEqual(targets, {"{RetryQueue}": [ORDERS, INVOICES]} | own)

    def test_source_queues_are_bound_to_the_retry_queue_and_only_they_move_messages_there(self) -> None:
        queue = f"arn:aws:sqs:{HOME}:imports"
        for functions in ("", ORDERS):
            made = system(
                TargetFunctions=functions,
                TargetRoles="",
                SourceQueues=queue,
                SourceKeys=KEY,
                OperatorPrincipals="arn:aws:iam::111111111111:role/operator",
            )
            self.assertEqual(
                made["RetryQueue"].properties["RedriveAllowPolicy"],
                {"redrivePermission": "byQueue", "sourceQueueArns": [queue]},
            )
            self.assertEqual(self.variables(made)["TARGET_FUNCTIONS"], ",".join(filter(None, [functions, queue])))
            allowed = made["HandlerRole"].properties["Policies"][0]["PolicyDocument"]["Statement"]
            resources = {action: each["Resource"] for each in allowed for action in listed(each["Action"])}
            self.assertEqual((resources["sqs:SendMessage"], resources["kms:Decrypt"]), ([queue], [KEY]))
            self.assertEqual("lambda:InvokeFunction" in resources, bool(functions))
            (send,) = (
                each["Resource"]
                for each in made["OperatePolicy"].properties["PolicyDocument"]["Statement"]
                if each["Action"] == "sqs:SendMessage"
            )
            self.assertEqual(send, [queue])
        bound = self.variables(system(SourceQueues=queue, QueueTargets='{"retry-others":["mails"]}'))
        self.assertEqual(json.loads(bound["QUEUE_TARGETS"])["{RetryQueue}"], [ORDERS, INVOICES, queue])

    def test_batches_of_streams_are_kept_read_and_told_beside_failure_records(self) -> None:
        for streams, prefix in (("false", "aws/lambda/async/"), ("true", "aws/lambda/")):
            made = system(Records="true", RecordsBucketName="mine", Streams=streams, OperatorPrincipals=ROLES[0])
            bucket = made["RecordsBucket"].properties
            (told,) = bucket["NotificationConfiguration"]["QueueConfigurations"]
            self.assertEqual(told["Filter"]["S3Key"]["Rules"], [{"Name": "prefix", "Value": prefix}])
            self.assertEqual(bucket["LifecycleConfiguration"]["Rules"][0]["Prefix"], prefix)
            policies = (
                made["HandlerRole"].properties["Policies"][0]["PolicyDocument"],
                made["OperatePolicy"].properties["PolicyDocument"],
            )
            for policy in policies:
                (read,) = (each["Resource"] for each in policy["Statement"] if each["Action"] == "s3:GetObject")
                self.assertEqual([arn.partition("/")[2] for arn in read], [f"{prefix}*"] * 2)

    def test_the_retry_queue_is_bound_to_its_targets_if_rules_or_schedules_send_to_it(self) -> None:
        rule, role = f"arn:aws:events:{HOME}:rule/placed", "arn:aws:iam::111111111111:role/nightly"
        for given in ({"SourceRules": rule}, {"ScheduleRoles": role}):
            for own in ({}, {"retry-others": ["mails"]}):
                made = system(**given, QueueTargets=json.dumps(own) if own else "")
                targets = json.loads(self.variables(made)["QUEUE_TARGETS"])
                self.assertEqual(targets, {"{RetryQueue}": [ORDERS, INVOICES]} | own)

    def test_the_dashboard_shows_what_a_ledger_costs_and_leaves_placeholders_to_cloudwatch(self) -> None:
        for ledger in ("true", "false"):
            body = system(Dashboard="true", Ledger=ledger)["Overview"].properties["DashboardBody"]
            *_, costs = json.loads(body)["widgets"]
            self.assertEqual("{LedgerTable}" in json.dumps(costs), ledger == "true")
            self.assertIn("${PROP('Dim.Target')} re-invoked", body)

    def test_an_output_is_of_the_resource_whose_name_it_has(self) -> None:
        made = system_template(Ledger="true", Records="true", OperatorPrincipals=ROLES[0])
        for template in (made, sam.transformed(EXAMPLE), sam.transformed(WITH_RECORDS)):
            for name in template.document["Outputs"]:
                resource = re.sub("(Arn|Url|Name)$", "", name).replace("AlarmTopic", "Alarms")
                value = template.output(name)
                self.assertRegex(value, rf"{{(Retry\.)?{resource}}}$")
                self.assertEqual(value.startswith("https:"), name.endswith("Url"), name)


class RecordsTest(unittest.TestCase):
    """The bucket of failure records, and a bucket of the user's."""

    CONTRACT = json.loads((INFRA / "cdk/contract/records.json").read_text())
    PREFIX = CONTRACT["prefix"]
    # The name is made of the stack's id.
    ARN = "arn:aws:s3:::comeback-records-11111111-2222-3333-4444-555555555555"
    OPERATOR, REDRIVER = (f"arn:aws:iam::111111111111:role/{name}" for name in ("operator", "redriver"))

    @staticmethod
    def allowed(made: Mapping[str, Resource], name: str, service: str = "s3:") -> list[dict[str, Any]]:
        """What a role's or a queue's policy allows with actions of a service."""
        properties = made[name].properties
        document = properties.get("PolicyDocument") or properties["Policies"][0]["PolicyDocument"]
        allowed = [each for each in document["Statement"] if each["Effect"] == "Allow"]
        return [each for each in allowed if listed(each["Action"])[0].startswith(service)]

    def test_the_days_that_are_the_default_outlast_any_event(self) -> None:
        parameters = sam.parameters_of(SYSTEM)["RecordsDays"]
        # Dead letters are kept for 14 days.
        enough = [
            sam.seconds(age) // 86400 + 14 + self.CONTRACT["slack_days"]
            for setting in [json.loads((INFRA / "cdk/contract/settings.json").read_text())["MAX_AGE"]]
            for age in (setting["max"], setting["default"])
        ]
        self.assertEqual([parameters["Default"], parameters["MinValue"]], enough)

    def test_the_buckets_name_is_known_before_it_is_made_after_the_policy_that_names_it(self) -> None:
        name = system(Records="true")["RecordsBucket"].properties["BucketName"]
        # It is made of the stack's id.
        self.assertEqual(name, "comeback-records-11111111-2222-3333-4444-555555555555")
        self.assertEqual(read(SYSTEM)["Resources"]["RecordsBucket"]["DependsOn"], "RetryQueuePolicy")

    def test_the_example_puts_records_into_the_bucket_of_its_account(self) -> None:
        made = resources(sam.transformed(WITH_RECORDS))
        destination = made["OrdersEventInvokeConfig"].properties["DestinationConfig"]["OnFailure"]["Destination"]
        self.assertEqual(destination, "arn:aws:s3:::{Retry.RecordsBucket}")
        (put,) = self.allowed(made, "OrdersFailures")
        self.assertEqual(put["Action"], [*self.CONTRACT["function"]["objects"], *self.CONTRACT["function"]["bucket"]])
        self.assertEqual(put["Resource"], [destination, f"{destination}/*"])
        self.assertEqual(put["Condition"], {"StringEquals": {"s3:ResourceAccount": "111111111111"}})
        self.assertEqual(read(WITH_RECORDS)["Resources"]["OrdersEventInvokeConfig"]["DependsOn"], "OrdersFailures")


class AlarmTest(unittest.TestCase):
    TICKETS = f"arn:aws:sns:{HOME}:tickets"

    def of_system(self, **parameters: str) -> dict[str, dict[str, Any]]:
        return self.by_name(system(AlarmTopicArn=TOPIC, **parameters))

    def of_target(self, **parameters: str) -> dict[str, dict[str, Any]]:
        needed = {"TargetFunction": "orders", "AlarmTopicArn": TOPIC}
        return self.by_name(resources(sam.transformed(TARGET_ALARMS, needed | parameters)))

    @staticmethod
    def by_name(made: Mapping[str, Resource]) -> dict[str, dict[str, Any]]:
        return {name.removesuffix("Alarm"): alarm for name, alarm in of_type(made, "CloudWatch::Alarm").items()}

    def test_each_can_be_set_and_switched_off(self) -> None:
        everything = {"Ledger": "true", "Probe": "true", "Register": "true"}
        self.assertEqual(ALARMS.keys(), self.of_system(**everything).keys() | self.of_target(**NEEDED).keys())
        for make, switched_on in ((self.of_system, everything), (self.of_target, NEEDED)):
            names = list(make(**switched_on))
            triggers = {f"{name}Trigger": f"above {at}.5 in 2 of 5 periods of 900 s" for at, name in enumerate(names)}
            for name, alarm in make(**switched_on, **triggers).items():
                with self.subTest(name):
                    numbers = [alarm[each] for each in ("Threshold", "DatapointsToAlarm", "EvaluationPeriods")]
                    self.assertEqual(numbers, [f"{names.index(name)}.5", "2", "5"])
                    parts = [part.get("MetricStat", part) for part in alarm.get("Metrics", [alarm])]
                    self.assertEqual({part["Period"] for part in parts if "Period" in part}, {"900"})
            for off in (names[::2], names[1::2]):
                made = make(**switched_on, **{f"{name}Trigger": "off" for name in off})
                self.assertEqual(made.keys(), set(names) - set(off))

    def test_one_that_needs_something_to_be_switched_on_is_made_only_with_it(self) -> None:
        for on in ("", *NEEDED):
            made = self.of_system(**({on: "true"} if on else {})) | self.of_target(**({on: "true"} if on else {}))
            needing = {name: sam.parameter(alarm.get("only_with", "")) for name, alarm in ALARMS.items()}
            self.assertEqual(made.keys(), {name for name, needed in needing.items() if needed in ("", on)}, on)

    def test_those_that_can_wait_go_to_a_topic_of_their_own(self) -> None:
        for make in (self.of_system, self.of_target):
            for tickets in ("", self.TICKETS):
                for name, alarm in make(TicketTopicArn=tickets).items():
                    topic = tickets if tickets and ALARMS[name]["severity"] == "ticket" else TOPIC
                    self.assertEqual((alarm["AlarmActions"], alarm["OKActions"]), ([topic], [topic]), name)

    def test_a_queue_has_no_alarms_on_metrics_of_functions(self) -> None:
        made = self.of_target(TargetFunction="sqs:imports", TargetKind="queue", **NEEDED)
        self.assertEqual(made.keys(), {name for name, alarm in ALARMS.items() if alarm["of"] == "target"})
        self.assertEqual(made["Lateness"]["Dimensions"], [{"Name": "Target", "Value": "sqs:imports"}])

    def test_the_share_of_an_events_age_is_that_of_the_functions_maximum(self) -> None:
        self.assertEqual(
            self.of_target(MaxAgeSeconds="3600")["EventsExpire"]["Metrics"][0]["Expression"], "100 * age / 3600"
        )


class ExampleTest(unittest.TestCase):
    def test_lambda_refuses_a_destination_to_which_the_role_may_not_send(self) -> None:
        self.assertEqual(read(EXAMPLE)["Resources"]["OrdersEventInvokeConfig"]["DependsOn"], "OrdersFailures")

    def test_alarms_go_to_a_topic_that_cloudwatch_can_use(self) -> None:
        made = resources(sam.transformed(EXAMPLE))
        topic = f"arn:aws:sns:{HOME}:{{Alarms}}"
        for alarm in of_type(made, "CloudWatch::Alarm").values():
            self.assertEqual(alarm["AlarmActions"], [topic])
        ours, tls = made["AlarmsPolicy"].properties["PolicyDocument"]["Statement"]
        self.assertEqual((ours["Effect"], ours["Action"], ours["Resource"]), ("Allow", "sns:Publish", topic))
        self.assertEqual(ours["Principal"], {"Service": "cloudwatch.amazonaws.com"})
        self.assertEqual(ours["Condition"], {"StringEquals": {"aws:SourceAccount": "111111111111"}})
        self.assertEqual((tls["Effect"], tls["Action"], tls["Resource"]), ("Deny", "sns:Publish", topic))
        self.assertEqual(tls["Condition"], {"Bool": {"aws:SecureTransport": "false"}})

    def test_its_function_takes_off_envelopes_and_nothing_else(self) -> None:
        for case in json.loads((INFRA.parent / "shared/core/fixtures/envelopes.json").read_text()):
            event = case["event"]
            if case["is_envelope"]:
                self.assertEqual(ORDER["unwrap"](event), (event["_original_payload"], event["_retry_metadata"]))
            else:
                self.assertEqual(ORDER["unwrap"](event), (event, {}))

    def test_an_order_that_names_no_attempt_always_fails_with_the_error_that_it_names(self) -> None:
        with self.assertRaises(Exception) as raised:
            ORDER["place"]({"id": "order-7", "fail": {"error": "Busy"}}, 1000)
        self.assertEqual(type(raised.exception).__name__, "Busy")


class PageTest(unittest.TestCase):
    def test_all_outputs_are_listed(self) -> None:
        page = (INFRA.parent / "docs/deploy/sam-parameters.md").read_text()
        below = page.split("\n## Outputs\n")[1].split("\n## ")[0]
        self.assertEqual(set(re.findall(r"^\| `(\w+)`", below, re.MULTILINE)), read(SYSTEM)["Outputs"].keys())

    def test_the_snippets_are_the_examples(self) -> None:
        example = "".join(path.read_text() for path in sorted(EXAMPLE.parent.glob("*.yaml")))
        snippets = re.findall(r"```yaml\n(.*?)```", (INFRA / "sam" / "README.md").read_text(), re.DOTALL)
        self.assertTrue(snippets)
        for snippet in snippets:
            self.assertIn(snippet, example)
