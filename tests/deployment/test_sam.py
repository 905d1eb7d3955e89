"""Tests the system that infra/sam makes, with every option, and its example and pages.

test_parity.py compares the example with CDK's.
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
    DEAD_LETTER_QUEUE,
    EXAMPLE,
    HANDLER_ROLE,
    HOME,
    INFRA,
    INVOICES,
    KEY,
    LOG_GROUP,
    NEEDED,
    ORDERS,
    RETRY_QUEUE,
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


class ClosureTest(unittest.TestCase):
    """The queues' policies hold whatever other permissions exist in the account."""

    RECEIVE = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:PurgeQueue")
    LOOK = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
    MOVE = ("sqs:StartMessageMoveTask", "sqs:CancelMessageMoveTask")
    OPERATORS = ("arn:aws:iam::111111111111:user/operator", "arn:aws:iam::111111111111:role/on-call-*")
    ALWAYS = {
        "sqs:*": {"Bool": {"aws:SecureTransport": "false"}},
        "sqs:DeleteQueue": {"ForAllValues:StringNotEquals": {"aws:CalledVia": "cloudformation.amazonaws.com"}},
    }

    @staticmethod
    def unless(*principals: str) -> dict[str, Any]:
        """The condition that denies everyone except some principals."""
        return {
            "ArnNotEquals": {"aws:PrincipalArn": list(principals)},
            "BoolIfExists": {"aws:PrincipalIsAWSService": "false"},
        }

    def denials(self, queue: str, **parameters: str) -> dict[str, Any]:
        """The denials in a queue's policy and their conditions, in a system with these parameters."""
        policy = system(**parameters)[f"{queue}Policy"].properties
        self.assertEqual(policy["Queues"], [f"https://sqs.us-east-1.amazonaws.com/111111111111/{{{queue}}}"])
        denied = {}
        for statement in policy["PolicyDocument"]["Statement"]:
            self.assertEqual((statement["Effect"], statement["Principal"]), ("Deny", "*"))
            self.assertEqual(statement["Resource"], f"arn:aws:sqs:{HOME}:{{{queue}}}")
            condition = statement["Condition"]
            if named := condition.get("ArnNotEquals"):
                named["aws:PrincipalArn"] = listed(named["aws:PrincipalArn"])
            denied |= dict.fromkeys(listed(statement["Action"]), condition)
        return denied

    def closed(self, senders: Any, receivers: Any, *receiver_only: str) -> dict[str, Any]:
        return self.ALWAYS | {"sqs:SendMessage": senders} | dict.fromkeys(receiver_only, receivers)

    def test_only_those_whose_part_it_is_send_and_receive(self) -> None:
        """The principals that are named in a policy have no permission by that. The examples have both kinds."""
        operators, redrivers = self.OPERATORS
        handler = self.unless(HANDLER_ROLE)
        for parameters, senders, changers, receivers, movers in (
            ({}, ROLES, (), handler, handler),
            ({"RedrivePrincipals": redrivers}, (*ROLES, redrivers), (), *[self.unless(redrivers)] * 2),
            ({"OperatorPrincipals": operators}, ROLES, (operators,), self.unless(operators), handler),
        ):
            with self.subTest(parameters):
                self.assertEqual(
                    self.denials("RetryQueue", **parameters),
                    self.closed(self.unless(HANDLER_ROLE, *senders), handler, *self.RECEIVE)
                    | {"sqs:ChangeMessageVisibility": self.unless(HANDLER_ROLE, *changers)},
                )
                self.assertEqual(
                    self.denials("DeadLetterQueue", **parameters),
                    self.closed(handler, movers, *self.RECEIVE, *self.MOVE) | dict.fromkeys(self.LOOK, receivers),
                )

    def test_deletion_protection_can_be_turned_off(self) -> None:
        for queue in ("RetryQueue", "DeadLetterQueue"):
            self.assertNotIn("sqs:DeleteQueue", self.denials(queue, DeletionProtection="false"))


class RoleTest(unittest.TestCase):
    """The handler's permissions with a ledger. test_parity.py has those without, and those of the other options."""

    def may(self, **parameters: str) -> dict[str, set[str]]:
        role = system(**parameters)["HandlerRole"].properties
        self.assertEqual(role.keys(), {"AssumeRolePolicyDocument", "Policies"})
        (policy,) = role["Policies"]
        allowed: dict[str, set[str]] = {}
        for statement in policy["PolicyDocument"]["Statement"]:
            self.assertEqual(statement.keys(), {"Effect", "Action", "Resource"})
            self.assertEqual(statement["Effect"], "Allow")
            for action in listed(statement["Action"]):
                allowed.setdefault(action, set()).update(listed(statement["Resource"]))
        return allowed

    def test_of_a_ledger_with_a_register_and_probes(self) -> None:
        table = f"arn:aws:dynamodb:{HOME}:table/{{LedgerTable}}"
        metrics = {"cloudwatch:GetMetricData": {"*"}}
        query = {"dynamodb:Query": {table, f"{table}/index/waiting"}}
        on_table = [f"dynamodb:{action}" for action in ("UpdateItem", "DeleteItem", "BatchGetItem", "Query")]
        ledger = self.may() | dict.fromkeys(on_table, {table})
        for options, more in (
            ({}, {}),
            ({"Transparent": "true"}, {}),
            ({"Register": "true"}, {}),
            ({"Probe": "true"}, metrics),
            ({"Register": "true", "Probe": "true"}, metrics | query),
        ):
            with self.subTest(options):
                self.assertEqual(self.may(Ledger="true", **options), ledger | more)


class OperatorTest(unittest.TestCase):
    def test_readers_may_read_the_logs_of_functions(self) -> None:
        made = system(OperatorPrincipals=ROLES[0], TargetLogGroups=LOG_GROUP)
        statements = made["ReadPolicy"].properties["PolicyDocument"]["Statement"]
        (of_logs,) = (each for each in statements if "logs:StartQuery" in listed(each["Action"]))
        self.assertIn(LOG_GROUP, of_logs["Resource"])

    def test_roles_get_both_and_must_be_operators(self) -> None:
        template = system_template(OperatorPrincipals=ROLES[0], OperatorRoles="orders,on-call")
        for name in ("ReadPolicy", "OperatePolicy"):
            self.assertEqual(resources(template)[name].properties["Roles"], ["orders", "on-call"])
        self.assertEqual(template.refusals(), [])
        self.assertNotIn("Roles", system(OperatorPrincipals=ROLES[0])["ReadPolicy"].properties)
        refusals = system_template(OperatorRoles="orders").refusals()
        self.assertEqual(refusals, ["OperatorPrincipals must have the ARNs of OperatorRoles"])


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

    def test_register_probe_and_transparent_need_a_ledger(self) -> None:
        for parameter in ("Register", "Probe", "Transparent"):
            self.assertEqual(system_template(Ledger="true", **{parameter: "true"}).refusals(), [])
            refusals = system_template(**{parameter: "true"}).refusals()
            self.assertEqual(refusals, [f"Ledger must be true if {parameter} is"])
        self.assertEqual(system_template().refusals(), [])

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

    def test_pollers_replace_the_maximum_of_concurrent_batches(self) -> None:
        mapping = system(MaxPollers="9")["HandlerRetry"].properties
        self.assertEqual(mapping["ProvisionedPollerConfig"], {"MinimumPollers": "2", "MaximumPollers": "9"})
        self.assertNotIn("ScalingConfig", mapping)

    def test_the_handler_runs_in_a_vpc_and_its_code_is_signed(self) -> None:
        signing = f"arn:aws:lambda:{HOME}:code-signing-config:csc-0123456789abcdef0"
        subnets, groups = ["subnet-0a1b2c3d", "subnet-0a1b2c3e"], ["sg-0a1b2c3d"]
        parameters = {"SubnetIds": ",".join(subnets), "CodeSigningConfigArn": signing}
        made = system(**parameters, SecurityGroupIds=groups[0])
        handler = made["Handler"].properties
        self.assertEqual(handler["VpcConfig"], {"SubnetIds": subnets, "SecurityGroupIds": groups})
        self.assertEqual(handler["CodeSigningConfigArn"], signing)
        self.assertIn("ec2:CreateNetworkInterface", json.dumps(made["HandlerRole"].properties["Policies"]))
        self.assertFalse({"VpcConfig", "CodeSigningConfigArn"} & system()["Handler"].properties.keys())
        self.assertEqual(len(system_template(**parameters).refusals()), 1)
        self.assertEqual(system_template(**parameters, SecurityGroupIds=groups[0]).refusals(), [])

    def test_the_handler_sends_dead_letters_to_a_central_queue(self) -> None:
        central = "arn:aws:sqs:us-east-1:222222222222:letters"
        made = system(CentralDeadLetterQueueArn=central, CentralKeyArn=KEY)
        url = "https://sqs.us-east-1.amazonaws.com/222222222222/letters"
        self.assertEqual(self.variables(made)["DEAD_LETTER_QUEUE_URL"], url)
        self.assertEqual(made["RetryQueue"].properties["RedrivePolicy"]["deadLetterTargetArn"], DEAD_LETTER_QUEUE)
        (policy,) = made["HandlerRole"].properties["Policies"]
        sent_to = {
            each["Resource"]
            for each in policy["PolicyDocument"]["Statement"]
            if {"sqs:SendMessage", "kms:GenerateDataKey"} & set(listed(each["Action"]))
        }
        self.assertEqual(sent_to, {RETRY_QUEUE, central, KEY})

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

    def test_a_bucket_is_closed_encrypted_and_outlasts_its_events(self) -> None:
        made = system(
            Records="true", KeyArn=KEY, OperatorPrincipals=self.OPERATOR, RedrivePrincipals=self.REDRIVER, MaxAge="5d"
        )
        bucket = made["RecordsBucket"]
        self.assertEqual((bucket.at_deletion, bucket.at_replacement), ("Retain", "Retain"))
        self.assertEqual(f"arn:aws:s3:::{bucket.properties['BucketName']}", self.ARN)
        self.assertEqual(
            bucket.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"],
            [
                {
                    "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY},
                    "BucketKeyEnabled": True,
                }
            ],
        )
        self.assertEqual(set(bucket.properties["PublicAccessBlockConfiguration"].values()), {True})
        (rule,) = bucket.properties["LifecycleConfiguration"]["Rules"]
        days = {"Prefix": self.PREFIX, "ExpirationInDays": "380"}
        self.assertEqual({name: rule[name] for name in days}, days)
        abort = rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
        self.assertEqual(abort, self.CONTRACT["abort_days"])
        tls, put, get = made["RecordsBucketPolicy"].properties["PolicyDocument"]["Statement"]
        self.assertEqual({each["Effect"] for each in (tls, put, get)}, {"Deny"})
        self.assertEqual((tls["Action"], tls["Condition"]), ("s3:*", {"Bool": {"aws:SecureTransport": "false"}}))
        self.assertEqual(tls["Resource"], ["arn:aws:s3:::{RecordsBucket}", "arn:aws:s3:::{RecordsBucket}/*"])
        for closed, part, others in (
            (put, "function", list(ROLES)),
            (get, "handler", [HANDLER_ROLE, self.REDRIVER, self.OPERATOR]),
        ):
            self.assertLessEqual(set(self.CONTRACT[part]["objects"]), set(listed(closed["Action"])))
            self.assertEqual(closed["Condition"], ClosureTest.unless(*others))

    def test_the_days_that_are_the_default_outlast_any_event(self) -> None:
        parameters = sam.parameters_of(SYSTEM)["RecordsDays"]
        # Dead letters are kept for 14 days.
        enough = [
            sam.seconds(age) // 86400 + 14 + self.CONTRACT["slack_days"]
            for setting in [json.loads((INFRA / "cdk/contract/settings.json").read_text())["MAX_AGE"]]
            for age in (setting["max"], setting["default"])
        ]
        self.assertEqual([parameters["Default"], parameters["MinValue"]], enough)

    def test_the_bucket_tells_the_retry_queue_whose_policy_comes_first(self) -> None:
        made = system(Records="true")
        (notification,) = made["RecordsBucket"].properties["NotificationConfiguration"]["QueueConfigurations"]
        (rule,) = notification["Filter"]["S3Key"]["Rules"]
        self.assertEqual((notification["Event"], notification["Queue"]), (self.CONTRACT["event"], RETRY_QUEUE))
        self.assertEqual(rule, {"Name": "prefix", "Value": self.PREFIX})
        self.assertEqual(read(SYSTEM)["Resources"]["RecordsBucket"]["DependsOn"], "RetryQueuePolicy")
        (may,) = self.allowed(made, "RetryQueuePolicy", "sqs:")
        self.assertEqual((may["Principal"], may["Action"]), ({"Service": "s3.amazonaws.com"}, "sqs:SendMessage"))
        self.assertEqual(
            may["Condition"],
            {"ArnEquals": {"aws:SourceArn": [self.ARN]}, "StringEquals": {"aws:SourceAccount": "111111111111"}},
        )

    def test_the_handler_and_operators_read_records_and_nothing_else(self) -> None:
        mine = "arn:aws:s3:::mine"
        for parameters, names, arns in (
            ({"Records": "true"}, "{RecordsBucket}", [self.ARN]),
            ({"RecordsBucketName": "mine"}, "mine", [mine]),
            ({"Records": "true", "RecordsBucketName": "mine"}, "{RecordsBucket},mine", [self.ARN, mine]),
        ):
            with self.subTest(parameters):
                made = system(**parameters, RecordsKeyArn=KEY, OperatorPrincipals=self.OPERATOR)
                self.assertEqual(OptionTest.variables(made)["RECORD_BUCKETS"], names)
                get, list_ = self.allowed(made, "HandlerRole")
                self.assertEqual(get["Resource"], [f"{arn}/{self.PREFIX}*" for arn in arns])
                self.assertEqual(listed(get["Action"]), self.CONTRACT["handler"]["objects"])
                self.assertEqual((list_["Action"], list_["Resource"]), ("s3:ListBucket", arns))
                self.assertEqual([each["Resource"] for each in self.allowed(made, "OperatePolicy")], [get["Resource"]])
                for policy in ("HandlerRole", "OperatePolicy"):
                    self.assertEqual([each["Action"] for each in self.allowed(made, policy, "kms:")], ["kms:Decrypt"])
                (queue,) = self.allowed(made, "RetryQueuePolicy", "sqs:")
                self.assertEqual(queue["Condition"]["ArnEquals"]["aws:SourceArn"], arns)
                self.assertEqual("RecordsBucket" in made, "Records" in parameters)

    def test_records_need_functions_and_a_key_of_a_bucket_its_name(self) -> None:
        queue = {"TargetFunctions": "", "SourceQueues": f"arn:aws:sqs:{HOME}:imports"}
        for parameters, refusals in (
            ({"Records": "true"}, []),
            ({"RecordsBucketName": "mine", "RecordsKeyArn": KEY}, []),
            (
                {"Records": "true"} | queue,
                ["TargetFunctions must be given if Records is true, because queues have no failure records"],
            ),
            (
                {"Records": "true", "RecordsKeyArn": KEY},
                ["RecordsBucketName must be given if RecordsKeyArn is. The key of Records is KeyArn"],
            ),
        ):
            self.assertEqual(system_template(**parameters).refusals(), refusals)

    def test_without_a_bucket_nothing_is_of_s3(self) -> None:
        made = system(OperatorPrincipals=self.OPERATOR)
        self.assertEqual(OptionTest.variables(made)["RECORD_BUCKETS"], "")
        policies = ("HandlerRole", "ReadPolicy", "OperatePolicy")
        self.assertEqual([self.allowed(made, name) for name in policies], [[], [], []])
        self.assertEqual(self.allowed(made, "RetryQueuePolicy", "sqs:"), [])

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
