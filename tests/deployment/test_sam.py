"""Tests the system that infra/sam makes, with every option."""

import json
import re
import unittest
from collections.abc import Mapping
from typing import Any

import sam
from sam_templates import (
    DAY,
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


def tags(role: str) -> list[dict[str, str]]:
    """The tags of a part of the system."""
    return [{"Key": "comeback:system", "Value": "stack"}, {"Key": "comeback:role", "Value": role}]


class SystemTest(unittest.TestCase):
    """The system without its optional parts."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.made = system()

    def properties(self, name: str) -> dict[str, Any]:
        return self.made[name].properties

    def test_messages_wait_for_fourteen_days_and_survive_a_thousand_receives(self) -> None:
        self.assertEqual(
            self.properties("RetryQueue"),
            {
                "MessageRetentionPeriod": 14 * DAY,
                "VisibilityTimeout": 6 * self.properties("Handler")["Timeout"],
                "RedrivePolicy": {"deadLetterTargetArn": DEAD_LETTER_QUEUE, "maxReceiveCount": 1000},
                "RedriveAllowPolicy": {"redrivePermission": "denyAll"},
                "SqsManagedSseEnabled": True,
                "Tags": tags("retry-queue"),
            },
        )

    def test_dead_letters_wait_for_fourteen_days(self) -> None:
        self.assertEqual(
            self.properties("DeadLetterQueue"),
            {"MessageRetentionPeriod": 14 * DAY, "SqsManagedSseEnabled": True, "Tags": tags("dead-letter-queue")},
        )

    def test_the_handler_is_tagged_too(self) -> None:
        self.assertLessEqual(
            {each["Key"]: each["Value"] for each in tags("handler")}.items(),
            {each["Key"]: each["Value"] for each in self.properties("Handler")["Tags"]}.items(),
        )

    def test_the_mapping_has_no_window_and_reports_waiting_messages(self) -> None:
        self.assertEqual(
            of_type(self.made, "Lambda::EventSourceMapping"),
            {
                "HandlerRetry": {
                    "EventSourceArn": RETRY_QUEUE,
                    "FunctionName": "{Handler}",
                    "BatchSize": 10,
                    "MaximumBatchingWindowInSeconds": 0,
                    "FunctionResponseTypes": ["ReportBatchItemFailures"],
                    "ScalingConfig": {"MaximumConcurrency": "10"},
                }
            },
        )

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

    def test_an_unset_parameter_is_an_empty_variable(self) -> None:
        self.assertEqual(
            self.properties("Handler")["Environment"]["Variables"],
            {
                "DEAD_LETTER_QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/111111111111/{DeadLetterQueue}",
                "BASE_BACKOFF": "1s",
                "MAX_BACKOFF": "12h",
                "MAX_AGE": "1d",
                "MAX_ATTEMPTS": "",
                "JITTER": "full",
                "NON_RETRYABLE_ERRORS": "",
                "TARGET_FUNCTIONS": f"{ORDERS},{INVOICES}",
                "QUEUE_TARGETS": "",
                "IN_FLIGHT_MAX": "",
                "POLICIES": "",
                "LEDGER_TABLE": "",
                "REGISTER": "false",
                "PROBE": "false",
            },
        )

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

    def test_operators_change_when_events_come_back_and_take_dead_letters(self) -> None:
        operators, redrivers = self.OPERATORS
        handler = self.unless(HANDLER_ROLE)
        parameters = {"OperatorPrincipals": operators}
        self.assertEqual(
            self.denials("RetryQueue", **parameters),
            self.closed(self.unless(HANDLER_ROLE, *ROLES), handler, *self.RECEIVE)
            | {"sqs:ChangeMessageVisibility": self.unless(HANDLER_ROLE, operators)},
        )
        for more, receivers, movers in (
            ({}, self.unless(operators), handler),
            ({"RedrivePrincipals": redrivers}, self.unless(redrivers, operators), self.unless(redrivers)),
        ):
            with self.subTest(more):
                self.assertEqual(
                    self.denials("DeadLetterQueue", **parameters, **more),
                    self.closed(handler, movers, *self.RECEIVE, *self.MOVE) | dict.fromkeys(self.LOOK, receivers),
                )

    def test_only_targets_send_failures_and_only_the_handler_receives_them_and_sends_them_again(self) -> None:
        expected = self.closed(self.unless(HANDLER_ROLE, *ROLES), self.unless(HANDLER_ROLE), *self.RECEIVE)
        self.assertEqual(self.denials("RetryQueue"), expected)

    def test_only_the_handler_sends_dead_letters_and_nobody_receives_them(self) -> None:
        # The principal that is named here has no permission to receive.
        handler = self.unless(HANDLER_ROLE)
        self.assertEqual(self.denials("DeadLetterQueue"), self.closed(handler, handler, *self.RECEIVE, *self.MOVE))

    def test_redrive_principals_receive_dead_letters_and_send_failures(self) -> None:
        parameters = {"RedrivePrincipals": ",".join(self.OPERATORS)}
        handler, operators = self.unless(HANDLER_ROLE), self.unless(*self.OPERATORS)
        self.assertEqual(
            self.denials("RetryQueue", **parameters),
            self.closed(self.unless(HANDLER_ROLE, *ROLES, *self.OPERATORS), handler, *self.RECEIVE),
        )
        self.assertEqual(
            self.denials("DeadLetterQueue", **parameters), self.closed(handler, operators, *self.RECEIVE, *self.MOVE)
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

    def test_of_one_function(self) -> None:
        self.assertEqual(self.may(TargetFunctions=ORDERS)["lambda:InvokeFunction"], {ORDERS, f"{ORDERS}:*"})

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

    def test_only_lambda_assumes_the_role(self) -> None:
        (statement,) = system()["HandlerRole"].properties["AssumeRolePolicyDocument"]["Statement"]
        self.assertEqual(
            statement,
            {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"},
        )


class OperatorTest(unittest.TestCase):
    """The policies for people who view the system, and for people who operate it."""

    TABLE = f"arn:aws:dynamodb:{HOME}:table/{{LedgerTable}}"
    FUNCTIONS = frozenset({ORDERS, f"{ORDERS}:*", INVOICES, f"{INVOICES}:*"})
    READ = {
        **dict.fromkeys(
            [
                "lambda:ListEventSourceMappings",
                "lambda:ListFunctions",
                "logs:GetQueryResults",
                "cloudwatch:GetMetricData",
                "tag:GetResources",
            ],
            {"*"},
        ),
        **dict.fromkeys(["sqs:GetQueueAttributes", "sqs:GetQueueUrl"], {RETRY_QUEUE, DEAD_LETTER_QUEUE}),
        **dict.fromkeys(
            [
                "lambda:GetFunctionConfiguration",
                "lambda:GetFunctionConcurrency",
                "lambda:GetFunctionEventInvokeConfig",
                "lambda:GetFunctionRecursionConfig",
                "lambda:GetPolicy",
                "lambda:ListFunctionEventInvokeConfigs",
                "lambda:ListTags",
            ],
            FUNCTIONS | {f"arn:aws:lambda:{HOME}:function:{{Handler}}"},
        ),
        **dict.fromkeys(
            ["logs:FilterLogEvents", "logs:StartQuery"], {f"arn:aws:logs:{HOME}:log-group:{{HandlerLog}}:*"}
        ),
    }
    OPERATE = {
        "sqs:ChangeMessageVisibility": {RETRY_QUEUE, DEAD_LETTER_QUEUE},
        **dict.fromkeys(["sqs:ReceiveMessage", "sqs:DeleteMessage"], {DEAD_LETTER_QUEUE}),
        "lambda:InvokeFunction": FUNCTIONS,
    }

    def policies(self, **parameters: str) -> list[dict[str, set[str]]]:
        """The resources of each action of both policies, with their conditions."""
        made = system(OperatorPrincipals=ROLES[0], **parameters)
        found = []
        for name in ("ReadPolicy", "OperatePolicy"):
            allowed: dict[str, set[str]] = {}
            for statement in made[name].properties["PolicyDocument"]["Statement"]:
                self.assertEqual(statement["Effect"], "Allow")
                condition = f" if {json.dumps(statement['Condition'])}" if "Condition" in statement else ""
                for action in listed(statement["Action"]):
                    resources_of = {f"{resource}{condition}" for resource in listed(statement["Resource"])}
                    allowed.setdefault(action, set()).update(resources_of)
            found.append(allowed)
        return found

    def test_of_the_smallest_system(self) -> None:
        self.assertEqual(self.policies(), [self.READ, self.OPERATE])

    def test_of_a_ledger_and_a_register(self) -> None:
        only_targets = f'{self.TABLE} if {{"ForAllValues:StringLike": {{"dynamodb:LeadingKeys": "target/*"}}}}'
        read = self.READ | dict.fromkeys(["dynamodb:GetItem", "dynamodb:BatchGetItem"], {self.TABLE})
        operate = self.OPERATE | {"dynamodb:UpdateItem": {self.TABLE}, "dynamodb:DeleteItem": {only_targets}}
        self.assertEqual(self.policies(Ledger="true"), [read, operate])
        query = dict.fromkeys(["dynamodb:Query", "dynamodb:Scan"], {f"{self.TABLE}/index/waiting"})
        self.assertEqual(self.policies(Ledger="true", Register="true"), [read | query, operate])

    def test_of_a_key(self) -> None:
        operate = self.OPERATE | dict.fromkeys(["kms:Decrypt", "kms:GenerateDataKey"], {KEY})
        self.assertEqual(self.policies(KeyArn=KEY), [self.READ, operate])
        read, _ = self.policies(KeyArn=KEY, Ledger="true")
        self.assertEqual(read["kms:Decrypt"], {KEY})

    def test_of_log_groups(self) -> None:
        read, _ = self.policies(TargetLogGroups=LOG_GROUP)
        for action in ("logs:FilterLogEvents", "logs:StartQuery"):
            self.assertEqual(read[action], self.READ[action] | {LOG_GROUP})

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

    def test_a_ledger_has_the_keys_that_the_handler_writes(self) -> None:
        made = system(Ledger="true")
        self.assertEqual(
            made["LedgerTable"].properties,
            {
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "expires_at"},
                "Tags": tags("ledger"),
            },
        )
        self.assertEqual(made["Handler"].properties["Environment"]["Variables"]["LEDGER_TABLE"], "{LedgerTable}")

    def test_a_register_is_an_index_of_the_ledger(self) -> None:
        made = system(Ledger="true", Register="true")
        ledger = made["LedgerTable"].properties
        self.assertEqual(
            ledger["AttributeDefinitions"],
            [
                {"AttributeName": "id", "AttributeType": "S"},
                {"AttributeName": "target", "AttributeType": "S"},
                {"AttributeName": "due_at", "AttributeType": "N"},
            ],
        )
        self.assertEqual(
            ledger["GlobalSecondaryIndexes"],
            [
                {
                    "IndexName": "waiting",
                    "KeySchema": [
                        {"AttributeName": "target", "KeyType": "HASH"},
                        {"AttributeName": "due_at", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        )

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

    def test_a_key_encrypts_queues_and_ledger(self) -> None:
        made = system(KeyArn=KEY, Ledger="true")
        for queue in ("RetryQueue", "DeadLetterQueue"):
            self.assertEqual(made[queue].properties["KmsMasterKeyId"], KEY)
            self.assertNotIn("SqsManagedSseEnabled", made[queue].properties)
        self.assertEqual(
            made["LedgerTable"].properties["SSESpecification"],
            {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY},
        )

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
        sums = (
            "Waited",
            "Invoked",
            "DeadLettered",
            "ConfigurationFaults",
            "DeadLettersNotSent",
            "Throttled",
            "LedgerFaults",
            "Probes",
            "BroughtForward",
        )
        self.assertCountEqual(
            re.findall(r"""SEARCH\('{(.*?),[\w,]+} MetricName=\\"(\w+)\\"', '(\w+)', 300\)""", body),
            [
                *(("Comeback", name, "Sum") for name in sums),
                ("Comeback", "InvokeLateness", "p99"),
                ("Comeback", "EventAge", "Maximum"),
                ("Comeback", "CircuitOpen", "Maximum"),
                ("AWS/Lambda", "DestinationDeliveryFailures", "Sum"),
                ("AWS/Lambda", "RecursiveInvocationsDropped", "Sum"),
            ],
        )
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
    """The alarms and their settings. test_parity.py compares the metrics that they watch with CDK's."""

    TICKETS = f"arn:aws:sns:{HOME}:tickets"
    OF_SYSTEM = {
        "DeadLettersNotSent",
        "EventsGivenUp",
        "DeadLetters",
        "DeadLettersGrow",
        "DeadLettersExpire",
        "HandlerErrors",
        "HandlerThrottles",
        "HandlerRecursionStopped",
        "HandlerSilent",
        "UnreadMessages",
        "Backlog",
    }
    OF_TARGET = {
        "UndeliveredFailures",
        "RecursionStopped",
        "ConfigurationFaults",
        "ThrottledRetries",
        "EventsExpire",
        "Lateness",
    }
    CAN_WAIT = {"DeadLetters", "DeadLettersGrow", "HandlerThrottles", "Backlog", "Lateness"}

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

    def test_there_are_those_of_what_is_switched_on(self) -> None:
        self.assertEqual(self.of_system().keys(), self.OF_SYSTEM)
        for switched_on, more in (
            ({}, set()),
            ({"Ledger": "true"}, {"LedgerFaults"}),
            ({"Probe": "true"}, {"CircuitOpen"}),
        ):
            self.assertEqual(self.of_target(**switched_on).keys(), self.OF_TARGET | more)

    def test_each_can_be_set_and_switched_off(self) -> None:
        everything = {"Ledger": "true", "Probe": "true"}
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
                    topic = tickets if tickets and name in self.CAN_WAIT else TOPIC
                    self.assertEqual((alarm["AlarmActions"], alarm["OKActions"]), ([topic], [topic]), name)

    def test_the_share_of_an_events_age_is_that_of_the_functions_maximum(self) -> None:
        self.assertEqual(
            self.of_target(MaxAgeSeconds="3600")["EventsExpire"]["Metrics"][0]["Expression"], "100 * age / 3600"
        )


if __name__ == "__main__":
    unittest.main()
