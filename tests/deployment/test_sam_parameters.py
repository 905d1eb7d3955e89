"""Tests that the parameters of infra/sam accept all values that the system accepts, and none of another form."""

import json
import re
import unittest
from pathlib import Path

from sam import HOME, INFRA, KEY, LOG_GROUP, ORDERS, ROLES, SYSTEM, TEMPLATES, TOPIC, UNITS, parameters_of, seconds

IAM = "arn:aws:iam::111111111111"
SQS, KMS = (f"arn:aws:{service}:{HOME}" for service in ("sqs", "kms"))

# The settings that are parameters, by the names of these.
SETTINGS = {
    name.title().replace("_", ""): setting
    for name, setting in json.loads((INFRA / "cdk/contract/settings.json").read_text()).items()
    if setting["scope"] in ("policy", "handler") and "alias_of" not in setting
}
# The values that the pattern of each type must accept, and those that it must refuse.
OF_TYPES = {
    "list": (["ValidationError", "A,B", "A, B", "*.NotFound,errors::Bad*"], [",", "A,", ",A", "A,,B", "A B", " "]),
    "durations": (
        ["", "90", "1s", "13d", "1m,10m,3h", "1m, 10m, 3h"],
        [",", "1m,", ",1m", "1m,,3h", "1m 3h", "0s", "1m,  3h", "soon", "12345678s"],
    ),
    "pointer": (["", "/tenant/id", "/a~1b"], ["tenant", "/a~2"]),
}


class ParameterTest(unittest.TestCase):
    """The bounds of numbers and durations are the handler's, which refuses to start with a value outside them."""

    PRINCIPALS: tuple[list[str], list[str]] = (
        ["", *ROLES, f"{IAM}:user/a", f"{IAM}:role/aws-reserved/sso.amazonaws.com/*/On_*"],
        ["*", "operator", f"{IAM}:root", "arn:aws:iam::*:role/a", f"{IAM}:group/a"],
    )
    KEYS = ([KEY, f"{KMS}:key/mrk-11111111222233334444555555555555"], ["alias/mine", f"{KMS}:alias/mine", KEY[-36:]])
    TOPICS = ([TOPIC], ["alarms", f"{TOPIC}.fifo", f"{SQS}:alarms", f"{TOPIC}:subscription"])
    # The values that each pattern must accept, and the values that it must refuse.
    VALUES: dict[str, tuple[list[str], list[str]]] = {
        "TargetFunctions": (
            [
                ORDERS,
                "arn:aws-cn:lambda:cn-north-1:111111111111:function:a_b-C1",
                "arn:aws-us-gov:lambda:us-gov-west-1:111111111111:function:a",
            ],
            ["orders", f"{ORDERS}:live", f"{ORDERS}*", ORDERS + "x" * 64, ORDERS.replace(":1", ":"), f" {ORDERS}"],
        ),
        "TargetRoles": (
            [*ROLES, f"{IAM}:role/path/to/a+b=c,d.e@f-g_h"],
            ["*", "orders", f"{IAM}:user/a", "arn:aws:iam::*:role/a", f"{IAM}:role/"],
        ),
        "SourceQueues": (
            ["", f"{SQS}:imports", f"arn:aws-us-gov:sqs:{HOME}:{'x' * 80}"],
            ["imports", f"{SQS}:imports.fifo", f"{SQS}:{'x' * 81}", f"{SQS}:*"],
        ),
        **dict.fromkeys(
            ["SourceKeys", "KeyArn", "CentralKeyArn", "LogKeyArn", "EnvironmentKeyArn", "RecordsKeyArn"], KEYS
        ),
        "RecordsBucketName": (
            ["", "records", "my.records-2026", "a1b", "b" * 63],
            ["arn:aws:s3:::records", "s3://records", "Records", "ab", "-records", "records.", "a_b", "rec*", "b" * 64],
        ),
        **dict.fromkeys(["RedrivePrincipals", "OperatorPrincipals"], PRINCIPALS),
        **dict.fromkeys(["AlarmTopicArn", "TicketTopicArn"], TOPICS),
        **{name: OF_TYPES[it["type"]] for name, it in SETTINGS.items() if it["type"] in OF_TYPES},
        "MaxPollers": (["", "2", "99", "1999", "2000"], ["0", "1", "2001", "02", "many"]),
        "OperatorRoles": (
            ["", "operator", "stack-Operator-1A2B", "a+b=c.d@e", "x" * 64],
            ["*", "role/operator", ROLES[0], "x" * 65],
        ),
        "TargetLogGroups": (
            ["", LOG_GROUP, "arn:aws-cn:logs:cn-north-1:111111111111:log-group:a.b_c#d:*"],
            ["*", "/aws/lambda/orders", LOG_GROUP.removesuffix(":*"), LOG_GROUP.replace("orders", "*")],
        ),
        "QueueTargets": (
            ['{"retry-orders":["orders"]}', '{"a": ["b"],\n "c": ["d", "e"]}'],
            ["retry-orders", "[]", "{}", '{"a":{"b":[]}}', '{"a":["b"]}.', "null"],
        ),
        "Policies": (
            ["{}", '{"orders":{"MAX_AGE":"7d"}}', '{\n "orders": {}\n}'],
            ["orders", "[]", '"{}"', '{"orders":{}}.', "null"],
        ),
        "CentralDeadLetterQueueArn": ([f"{SQS}:letters"], [f"{SQS}:letters.fifo", "letters"]),
        "SubnetIds": (
            ["", "subnet-0a1b2c3d", "subnet-0123456789abcdef0"],
            ["subnet-1", "vpc-0a1b2c3d", "subnet-XYZ01234"],
        ),
        "SecurityGroupIds": (["", "sg-0a1b2c3d", "sg-0123456789abcdef0"], ["sg-1", "default"]),
        "ReservedConcurrency": (["2", "10", "5000"], ["0", "1", "1.5", "02", "many"]),
        "CodeSigningConfigArn": (
            [f"arn:aws:lambda:{HOME}:code-signing-config:csc-0123456789abcdef0"],
            [f"arn:aws:signer:{HOME}:/signing-profiles/mine", "csc-0123456789abcdef0"],
        ),
        "PermissionsBoundaryArn": (
            [f"{IAM}:policy/path/boundary", "arn:aws:iam::aws:policy/PowerUserAccess"],
            ["boundary", f"{IAM}:role/boundary"],
        ),
        "TargetFunction": (["orders", "a_b-C1", "x" * 64], ["x" * 65, ORDERS, "orders:live", "orders*"]),
    }
    # The values of the parameters that say when an alarm goes off, which all have the same pattern.
    TRIGGERS: tuple[list[str], list[str]] = (
        ["off", "above 0 in 1 of 1 periods of 10 s", "above 12.5 in 10 of 12 periods of 86400 s"],
        [
            "on",
            "0",
            "above -1 in 1 of 1 periods of 60 s",
            "above 0 in 0 of 1 periods of 60 s",
            "above 0 in 1 of 1 periods of 61 s",
            "above 0 in 1 of 1 periods of 60 s ",
        ],
    )
    # The ranges of the handler.
    DURATIONS = {name: (it["min"], it["max"]) for name, it in SETTINGS.items() if it["type"] == "duration"}
    WHOLES = {name: it["max"] for name, it in SETTINGS.items() if it["type"] == "whole"}
    MALFORMED = (" ", "s", "1.5h", "-1s", "+1s", "01s", "1 s", "1w", "1S", "1h30m", "1s,", "1s\n", "\u0661s")

    def test_every_parameter_is_bounded_and_says_what_it_must_be(self) -> None:
        for path in TEMPLATES:
            for name, parameter in parameters_of(path).items():
                with self.subTest(f"{path.parent.name} {name}"):
                    bounds = {"Number": {"MinValue", "MaxValue"}}.get(parameter["Type"], {"AllowedPattern"})
                    self.assertTrue("AllowedValues" in parameter or bounds <= parameter.keys())
                    self.assertRegex(parameter["ConstraintDescription"], "^must be ")
                    self.assertTrue(parameter["Description"])

    def test_patterns_accept_good_values_and_refuse_bad_ones(self) -> None:
        for path in TEMPLATES:
            for name, parameter in parameters_of(path).items():
                if "AllowedPattern" in parameter and name not in {*self.DURATIONS, *self.WHOLES}:
                    values = self.TRIGGERS if name.endswith("Trigger") else self.VALUES[name]
                    self.assert_takes(path, name, *values)

    def test_a_duration_of_the_handlers_range_is_accepted_and_no_text_of_another_form(self) -> None:
        for name, bounds in self.DURATIONS.items():
            shortest, longest = map(seconds, bounds)
            counts = {unit: (-(-shortest // length), longest // length) for unit, length in UNITS.items()}
            good = [f"{count}{unit}" for unit, both in counts.items() for count in both if count]
            self.assert_takes(SYSTEM, name, good, [*self.MALFORMED, "0s", "0", f"{longest}0"])

    def test_a_whole_number_of_the_handlers_range_is_accepted_and_no_text_of_another_form(self) -> None:
        for name, largest in self.WHOLES.items():
            good = ["", "1", str(largest)]
            self.assert_takes(SYSTEM, name, good, ["0", "-1", "1.5", "01", "many", f"{largest}0"])

    def test_texts_leave_room_for_the_other_variables(self) -> None:
        lengths = (parameters_of(SYSTEM)[name]["MaxLength"] for name in ("NonRetryableErrors", "Policies"))
        # Lambda's limit is 4 KiB for all variables.
        self.assertLessEqual(sum(lengths), 3 * 1024)

    def test_defaults_are_accepted_and_an_empty_value_only_if_it_is_the_default(self) -> None:
        for path in TEMPLATES:
            for name, parameter in parameters_of(path).items():
                if "AllowedPattern" in parameter:
                    default = parameter.get("Default")
                    self.assert_takes(path, name, [] if default is None else [default], [] if default == "" else [""])

    def assert_takes(self, path: Path, name: str, good: list[str], bad: list[str]) -> None:
        """A pattern must match the whole value, as in CloudFormation."""
        pattern = re.compile(parameters_of(path)[name]["AllowedPattern"])
        taken = {value for value in good + bad if pattern.fullmatch(value)}
        self.assertEqual((set(good) - taken, taken & set(bad)), (set(), set()), f"{name}: refused, and taken")
