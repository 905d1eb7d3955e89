"""Tests the system that infra/sam makes, with every option."""

import json
import re
import unittest
from collections.abc import Mapping
from typing import Any

import sam
from sam import (
    DEAD_LETTER_QUEUE,
    HANDLER_ROLE,
    HOME,
    INFRA,
    INVOICES,
    KEY,
    LOG_GROUP,
    ORDERS,
    RETRY_QUEUE,
    ROLES,
    SYSTEM,
    TARGET_ALARMS,
    TOPIC,
    of_type,
    resources,
    system,
    system_template,
)
from template import Resource, listed

ALARMS = json.loads((INFRA / "cdk/contract/alarms.json").read_text())


class SystemTest(unittest.TestCase):
    """The system without its optional parts."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.made = system()

    def properties(self, name: str) -> dict[str, Any]:
        return self.made[name].properties

    def test_the_handler_is_the_one_that_scripts_package_makes(self) -> None:
        code = sam.read(SYSTEM)["Resources"]["Handler"]["Properties"]["CodeUri"]
        self.assertEqual((SYSTEM.parent / code).resolve(), INFRA.parent / "dist" / "arm64" / "bootstrap.zip")
        expected = {
            "Runtime": "provided.al2023",
            "Architectures": ["arm64"],
            "Handler": "bootstrap",
            "MemorySize": 128,
            "Timeout": 30,
            "RecursiveLoop": "Allow",
            "Role": HANDLER_ROLE,
            "LoggingConfig": {"LogGroup": "{HandlerLog}"},
            "TracingConfig": {"Mode": "PassThrough"},
        }
        self.assertLessEqual(expected.items(), self.properties("Handler").items())
        self.assertEqual(self.properties("HandlerLog"), {"RetentionInDays": "30"})

    def test_optional_resources_are_made_only_on_request(self) -> None:
        for kind in ("DynamoDB::Table", "IAM::ManagedPolicy", "CloudWatch::Alarm", "CloudWatch::Dashboard", "KMS::Key"):
            with self.subTest(kind):
                self.assertEqual(of_type(self.made, kind), {})


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
        """The denials of a closed queue."""
        return self.ALWAYS | {"sqs:SendMessage": senders} | dict.fromkeys(receiver_only, receivers)

    def test_only_those_whose_part_it_is_send_and_receive(self) -> None:
        """The principals that are named in a policy have no permission by that."""
        operators, redrivers = self.OPERATORS
        handler = self.unless(HANDLER_ROLE)
        for parameters, senders, changers, receivers, movers in (
            ({}, ROLES, (), handler, handler),
            ({"RedrivePrincipals": redrivers}, (*ROLES, redrivers), (), *[self.unless(redrivers)] * 2),
            ({"OperatorPrincipals": operators}, ROLES, (operators,), self.unless(operators), handler),
            (
                {"OperatorPrincipals": operators, "RedrivePrincipals": redrivers},
                (*ROLES, redrivers),
                (operators,),
                self.unless(redrivers, operators),
                self.unless(redrivers),
            ),
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
    """The handler's permissions, which are minimal."""

    LOG = f"arn:aws:logs:{HOME}:log-group:{{HandlerLog}}:*"
    ALWAYS = {
        **dict.fromkeys(["logs:CreateLogStream", "logs:PutLogEvents"], {LOG}),
        **dict.fromkeys(
            ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"],
            {RETRY_QUEUE},
        ),
        "sqs:SendMessage": {RETRY_QUEUE, DEAD_LETTER_QUEUE},
        "lambda:InvokeFunction": {ORDERS, f"{ORDERS}:*", INVOICES, f"{INVOICES}:*"},
    }

    def may(self, **parameters: str) -> dict[str, set[str]]:
        """The resources of each allowed action, in a system with these parameters."""
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

    def test_of_the_smallest_system(self) -> None:
        self.assertEqual(self.may(), self.ALWAYS)

    def test_of_the_optional_parts(self) -> None:
        options = {
            "KeyArn": (KEY, dict.fromkeys(["kms:Decrypt", "kms:GenerateDataKey"], {KEY})),
            "Tracing": ("Active", dict.fromkeys(["xray:PutTraceSegments", "xray:PutTelemetryRecords"], {"*"})),
        }
        for parameter, (value, more) in options.items():
            with self.subTest(parameter):
                self.assertEqual(self.may(**{parameter: value}), self.ALWAYS | more)

    def test_of_a_ledger_with_a_register_and_probes(self) -> None:
        table = f"arn:aws:dynamodb:{HOME}:table/{{LedgerTable}}"
        read, update = {"dynamodb:BatchGetItem": {table}}, {"dynamodb:UpdateItem": {table}}
        metrics = {"cloudwatch:GetMetricData": {"*"}}
        query = {"dynamodb:Query": {f"{table}/index/waiting"}}
        ledger = self.ALWAYS | dict.fromkeys(["dynamodb:PutItem", "dynamodb:DeleteItem"], {table})
        for options, more in (
            ({}, {}),
            ({"Register": "true"}, read),
            ({"Probe": "true"}, read | update | metrics),
            ({"Register": "true", "Probe": "true"}, read | update | metrics | query),
        ):
            with self.subTest(options):
                self.assertEqual(self.may(Ledger="true", **options), ledger | more)


class OperatorTest(unittest.TestCase):
    """The policies for people who view the system, and for people who operate it."""

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
    """The effect of each parameter."""

    def test_register_and_probe_are_variables_and_need_a_ledger(self) -> None:
        for parameter in ("Register", "Probe"):
            with self.subTest(parameter):
                template = system_template(Ledger="true", **{parameter: "true"})
                variables = resources(template)["Handler"].properties["Environment"]["Variables"]
                self.assertEqual(variables[parameter.upper()], "true")
                self.assertEqual(template.refusals(), [])
                refusals = system_template(**{parameter: "true"}).refusals()
                self.assertEqual(refusals, [f"Ledger must be true if {parameter} is"])
        self.assertEqual(system_template().refusals(), [])

    def test_settings_reach_the_handler_unchanged(self) -> None:
        settings = {
            "BaseBackoff": "2s",
            "MaxBackoff": "1h",
            "MaxAge": "7d",
            "MaxAttempts": "50",
            "Jitter": "equal",
            "NonRetryableErrors": "ValidationError,*.NotFound",
            "Policies": '{"orders":{"MAX_AGE":"14d"}}',
            "InFlightMax": "500000",
        }
        variables = system(**settings)["Handler"].properties["Environment"]["Variables"]
        for parameter, value in settings.items():
            with self.subTest(parameter):
                variable = re.sub(r"(?<!^)(?=[A-Z])", "_", parameter).upper()
                self.assertEqual(variables[variable], value)

    def test_queues_of_ones_own_are_named_beside_the_retry_queue(self) -> None:
        own = {"retry-orders": ["orders"], "retry-others": ["invoices", "mails"]}
        made = system(QueueTargets=json.dumps(own))
        self.assertEqual(
            json.loads(made["Handler"].properties["Environment"]["Variables"]["QUEUE_TARGETS"]),
            {"{RetryQueue}": [ORDERS, INVOICES]} | own,
        )

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
            variables = made["Handler"].properties["Environment"]["Variables"]
            self.assertEqual(variables["TARGET_FUNCTIONS"], ",".join(filter(None, [functions, queue])))
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
        bound = system(SourceQueues=queue, QueueTargets='{"retry-others":["mails"]}')["Handler"].properties
        self.assertEqual(
            json.loads(bound["Environment"]["Variables"]["QUEUE_TARGETS"])["{RetryQueue}"], [ORDERS, INVOICES, queue]
        )

    def test_pollers_replace_the_maximum_of_concurrent_batches(self) -> None:
        mapping = system(MaxPollers="9")["HandlerRetry"].properties
        self.assertEqual(mapping["ProvisionedPollerConfig"], {"MinimumPollers": "2", "MaximumPollers": "9"})
        self.assertNotIn("ScalingConfig", mapping)

    def test_the_rest(self) -> None:
        made = system(MaxConcurrency="50", LogRetentionDays="7", Tracing="Active")
        self.assertEqual(made["HandlerRetry"].properties["ScalingConfig"], {"MaximumConcurrency": "50"})
        self.assertEqual(made["HandlerLog"].properties["RetentionInDays"], "7")
        self.assertEqual(made["Handler"].properties["TracingConfig"], {"Mode": "Active"})

    def test_the_handler_follows_the_rules_of_an_organization(self) -> None:
        boundary = "arn:aws:iam::111111111111:policy/boundary"
        signing = f"arn:aws:lambda:{HOME}:code-signing-config:csc-0123456789abcdef0"
        made = system(
            SubnetIds="subnet-0a1b2c3d,subnet-0a1b2c3e",
            SecurityGroupIds="sg-0a1b2c3d",
            ReservedConcurrency="20",
            LogKeyArn=KEY,
            EnvironmentKeyArn=KEY,
            CodeSigningConfigArn=signing,
            PermissionsBoundaryArn=boundary,
        )
        handler = made["Handler"].properties
        network = {"SubnetIds": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"], "SecurityGroupIds": ["sg-0a1b2c3d"]}
        self.assertEqual(handler["VpcConfig"], network)
        self.assertEqual(handler["ReservedConcurrentExecutions"], "20")
        self.assertEqual((handler["KmsKeyArn"], handler["CodeSigningConfigArn"]), (KEY, signing))
        self.assertEqual(made["HandlerLog"].properties["KmsKeyId"], KEY)
        role = made["HandlerRole"].properties
        self.assertEqual(role["PermissionsBoundary"], boundary)
        allowed = json.dumps(role["Policies"])
        for action in ("ec2:CreateNetworkInterface", "kms:Decrypt"):
            self.assertIn(action, allowed)
        without = system()
        names = {"VpcConfig", "ReservedConcurrentExecutions", "KmsKeyArn", "CodeSigningConfigArn"}
        self.assertFalse(names & without["Handler"].properties.keys())

    def test_the_handler_sends_dead_letters_to_a_central_queue(self) -> None:
        central = "arn:aws:sqs:us-east-1:222222222222:letters"
        made = system(CentralDeadLetterQueueArn=central, CentralKeyArn=KEY)
        variables = made["Handler"].properties["Environment"]["Variables"]
        url = "https://sqs.us-east-1.amazonaws.com/222222222222/letters"
        self.assertEqual(variables["DEAD_LETTER_QUEUE_URL"], url)
        self.assertEqual(made["RetryQueue"].properties["RedrivePolicy"]["deadLetterTargetArn"], DEAD_LETTER_QUEUE)
        (policy,) = made["HandlerRole"].properties["Policies"]
        sent_to = {
            each["Resource"]
            for each in policy["PolicyDocument"]["Statement"]
            if {"sqs:SendMessage", "kms:GenerateDataKey"} & set(listed(each["Action"]))
        }
        self.assertEqual(sent_to, {RETRY_QUEUE, central, KEY})

    def test_a_vpc_needs_security_groups(self) -> None:
        for groups, refusals in (("", 1), ("sg-0a1b2c3d", 0)):
            template = system_template(SubnetIds="subnet-0a1b2c3d", SecurityGroupIds=groups)
            self.assertEqual(len(template.refusals()), refusals)

    def test_the_dashboard_is_json_about_this_system(self) -> None:
        body = system(Dashboard="true")["Overview"].properties["DashboardBody"]
        widgets = json.loads(body)["widgets"]
        graphs = [widget["properties"] for widget in widgets if widget["type"] == "metric"]
        self.assertEqual({each["region"] for each in graphs}, {"us-east-1"})
        for name in ("{RetryQueue}", "{DeadLetterQueue}", "{Handler}", "{HandlerLog}"):
            self.assertIn(f'"{name}"', json.dumps(graphs))
        self.assertEqual(len({(each["x"], each["y"]) for each in widgets}), len(widgets))
        # CloudWatch resolves this placeholder, so CloudFormation must leave it unchanged.
        self.assertIn("${PROP('Dim.Target')} re-invoked", body)

    def test_the_dashboard_shows_what_a_ledger_costs(self) -> None:
        for ledger in ("true", "false"):
            body = system(Dashboard="true", Ledger=ledger)["Overview"].properties["DashboardBody"]
            *_, costs = json.loads(body)["widgets"]
            self.assertEqual("{LedgerTable}" in json.dumps(costs), ledger == "true")

    def test_the_outputs_are_those_of_the_named_resources(self) -> None:
        template = system_template(Ledger="true", OperatorPrincipals=ROLES[0])
        url = "https://sqs.us-east-1.amazonaws.com/111111111111"
        self.assertEqual(
            {name: template.output(name) for name in template.document["Outputs"]},
            {
                "RetryQueueArn": RETRY_QUEUE,
                "RetryQueueUrl": f"{url}/{{RetryQueue}}",
                "DeadLetterQueueArn": DEAD_LETTER_QUEUE,
                "DeadLetterQueueUrl": f"{url}/{{DeadLetterQueue}}",
                "HandlerName": "{Handler}",
                "HandlerArn": f"arn:aws:lambda:{HOME}:function:{{Handler}}",
                "HandlerRoleName": "{HandlerRole}",
                "ReadPolicyArn": "{ReadPolicy}",
                "OperatePolicyArn": "{OperatePolicy}",
                "LedgerTableName": "{LedgerTable}",
            },
        )


class AlarmTest(unittest.TestCase):
    """The settings of the alarms."""

    TICKETS = f"arn:aws:sns:{HOME}:tickets"

    def of_system(self, **parameters: str) -> dict[str, dict[str, Any]]:
        """The alarms of a system by name."""
        return self.by_name(system(AlarmTopicArn=TOPIC, **parameters))

    def of_target(self, **parameters: str) -> dict[str, dict[str, Any]]:
        """The alarms of a function by name."""
        needed = {"TargetFunction": "orders", "AlarmTopicArn": TOPIC}
        return self.by_name(resources(sam.transformed(TARGET_ALARMS, needed | parameters)))

    @staticmethod
    def by_name(made: Mapping[str, Resource]) -> dict[str, dict[str, Any]]:
        return {name.removesuffix("Alarm"): alarm for name, alarm in of_type(made, "CloudWatch::Alarm").items()}

    def test_each_can_be_set_and_switched_off(self) -> None:
        everything = {"Ledger": "true", "Probe": "true"}
        self.assertEqual(ALARMS.keys(), self.of_system().keys() | self.of_target(**everything).keys())
        for make, switched_on in ((self.of_system, {}), (self.of_target, everything)):
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

    def test_those_that_can_wait_go_to_a_topic_of_their_own(self) -> None:
        for make in (self.of_system, self.of_target):
            for tickets in ("", self.TICKETS):
                for name, alarm in make(TicketTopicArn=tickets).items():
                    topic = tickets if tickets and ALARMS[name]["severity"] == "ticket" else TOPIC
                    self.assertEqual((alarm["AlarmActions"], alarm["OKActions"]), ([topic], [topic]), name)

    def test_a_queue_has_no_alarms_on_metrics_of_functions(self) -> None:
        made = self.of_target(TargetFunction="sqs:imports", TargetKind="queue", Ledger="true", Probe="true")
        self.assertEqual(made.keys(), {name for name, alarm in ALARMS.items() if alarm["of"] == "target"})
        self.assertEqual(made["Lateness"]["Dimensions"], [{"Name": "Target", "Value": "sqs:imports"}])

    def test_the_share_of_an_events_age_is_that_of_the_functions_maximum(self) -> None:
        self.assertEqual(
            self.of_target(MaxAgeSeconds="3600")["EventsExpire"]["Metrics"][0]["Expression"], "100 * age / 3600"
        )


if __name__ == "__main__":
    unittest.main()
