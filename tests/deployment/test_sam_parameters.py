"""Tests that the parameters of infra/sam accept exactly the values that the system accepts."""

import re
import unittest
from collections.abc import Iterator
from pathlib import Path

from sam import DAY, HOME, KEY, LOG_GROUP, ORDERS, ROLES, SYSTEM, TEMPLATES, TOPIC, parameters_of


class ParameterTest(unittest.TestCase):
    """No parameter accepts a value that the system refuses."""

    PRINCIPALS: tuple[list[str], list[str]] = (
        [
            "",
            *ROLES,
            "arn:aws:iam::111111111111:user/a",
            "arn:aws:iam::111111111111:role/aws-reserved/sso.amazonaws.com/*/On_*",
        ],
        [
            "*",
            "operator",
            "arn:aws:iam::111111111111:root",
            "arn:aws:iam::*:role/a",
            "arn:aws:iam::111111111111:group/a",
        ],
    )
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
            [*ROLES, "arn:aws:iam::111111111111:role/path/to/a+b=c,d.e@f-g_h"],
            [
                "*",
                "orders",
                "arn:aws:iam::111111111111:user/a",
                "arn:aws:iam::*:role/a",
                "arn:aws:iam::111111111111:role/",
            ],
        ),
        "SourceQueues": (
            ["", f"arn:aws:sqs:{HOME}:imports", f"arn:aws-us-gov:sqs:{HOME}:{'x' * 80}"],
            ["imports", f"arn:aws:sqs:{HOME}:imports.fifo", f"arn:aws:sqs:{HOME}:{'x' * 81}", f"arn:aws:sqs:{HOME}:*"],
        ),
        "SourceKeys": (["", KEY], ["alias/imports", f"arn:aws:kms:{HOME}:alias/imports"]),
        "MaxPollers": (["", "2", "99", "1999", "2000"], ["0", "1", "2001", "02", "many"]),
        "RedrivePrincipals": PRINCIPALS,
        "OperatorPrincipals": PRINCIPALS,
        "OperatorRoles": (
            ["", "operator", "stack-Operator-1A2B", "a+b=c.d@e", "x" * 64],
            ["*", "role/operator", ROLES[0], "x" * 65],
        ),
        "TargetLogGroups": (
            ["", LOG_GROUP, "arn:aws-cn:logs:cn-north-1:111111111111:log-group:a.b_c#d:*"],
            ["*", "/aws/lambda/orders", LOG_GROUP.removesuffix(":*"), LOG_GROUP.replace("orders", "*")],
        ),
        "MaxAttempts": (["1", "50", "4294967295"], ["0", "-1", "1.5", "01", "4294967296", "many"]),
        "InFlightMax": (["1", "100000", "500000", "4294967295"], ["0", "-1", "1.5", "01", "4294967296", "many"]),
        "QueueTargets": (
            ['{"retry-orders":["orders"]}', '{"a": ["b"],\n "c": ["d", "e"]}'],
            ["retry-orders", "[]", "{}", '{"a":{"b":[]}}', '{"a":["b"]}.', "null"],
        ),
        "NonRetryableErrors": (
            ["ValidationError", "A,B", "A, B", "*.NotFound,errors::Bad*"],
            [",", "A,", ",A", "A,,B", "A B", " "],
        ),
        "TenantId": (["", "/tenant/id", "/a~1b"], ["tenant", "/a~2"]),
        "Policies": (
            ["{}", '{"orders":{"MAX_AGE":"7d"}}', '{\n "orders": {}\n}'],
            ["orders", "[]", '"{}"', '{"orders":{}}.', "null"],
        ),
        "KeyArn": (
            [KEY, f"arn:aws:kms:{HOME}:key/mrk-11111111222233334444555555555555"],
            ["alias/aws/sqs", f"arn:aws:kms:{HOME}:alias/mine", "11111111-2222-3333-4444-555555555555"],
        ),
        "CentralDeadLetterQueueArn": ([f"arn:aws:sqs:{HOME}:letters"], [f"arn:aws:sqs:{HOME}:letters.fifo", "letters"]),
        "CentralKeyArn": ([KEY], ["alias/letters"]),
        "SubnetIds": (
            ["", "subnet-0a1b2c3d", "subnet-0123456789abcdef0"],
            ["subnet-1", "vpc-0a1b2c3d", "subnet-XYZ01234"],
        ),
        "SecurityGroupIds": (["", "sg-0a1b2c3d", "sg-0123456789abcdef0"], ["sg-1", "default"]),
        "ReservedConcurrency": (["2", "10", "5000"], ["0", "1", "1.5", "02", "many"]),
        "LogKeyArn": ([KEY], ["alias/aws/logs"]),
        "EnvironmentKeyArn": ([KEY], ["alias/aws/lambda"]),
        "CodeSigningConfigArn": (
            [f"arn:aws:lambda:{HOME}:code-signing-config:csc-0123456789abcdef0"],
            [f"arn:aws:signer:{HOME}:/signing-profiles/mine", "csc-0123456789abcdef0"],
        ),
        "PermissionsBoundaryArn": (
            ["arn:aws:iam::111111111111:policy/path/boundary", "arn:aws:iam::aws:policy/PowerUserAccess"],
            ["boundary", "arn:aws:iam::111111111111:role/boundary"],
        ),
        "AlarmTopicArn": (
            [TOPIC],
            ["alarms", f"{TOPIC}.fifo", f"arn:aws:sqs:{HOME}:alarms", f"{TOPIC}:subscription"],
        ),
        "TicketTopicArn": ([TOPIC], ["tickets", f"{TOPIC}.fifo"]),
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
    # The ranges of the handler, in seconds.
    DURATIONS = {
        "BaseBackoff": (1, 12 * 60 * 60),
        "MaxBackoff": (1, 13 * DAY),
        # The last attempt is made just before the maximum age, and the first backoff is at least a second.
        "MaxAge": (2, 365 * DAY),
    }
    UNITS = {"": 1, "s": 1, "m": 60, "h": 60 * 60, "d": DAY}
    MALFORMED = (" ", "s", "1.5h", "-1s", "+1s", "01s", "1 s", "1w", "1S", "1h30m", "1s,", "1s\n", "\u0661s")

    def test_every_parameter_is_bounded_and_says_what_it_must_be(self) -> None:
        for path in TEMPLATES:
            for name, parameter in parameters_of(path).items():
                with self.subTest(f"{path.parent.name} {name}"):
                    bounds = {"Number": {"MinValue", "MaxValue"}}.get(parameter["Type"], {"AllowedPattern"})
                    self.assertTrue("AllowedValues" in parameter or bounds <= parameter.keys())
                    self.assertRegex(parameter["ConstraintDescription"], "^must be ")
                    self.assertTrue(parameter["Description"])

    def test_every_pattern_has_values_here(self) -> None:
        patterns = {
            name for path in TEMPLATES for name, each in parameters_of(path).items() if "AllowedPattern" in each
        }
        triggers = {name for name in patterns if name.endswith("Trigger")}
        self.assertEqual(patterns - triggers, self.VALUES.keys() | self.DURATIONS.keys())

    def test_all_triggers_are_written_in_the_same_way(self) -> None:
        for path in TEMPLATES:
            for name in parameters_of(path):
                if name.endswith("Trigger"):
                    self.assert_takes(path, name, *self.TRIGGERS)

    def test_patterns_accept_good_values_and_refuse_bad_ones(self) -> None:
        for path in TEMPLATES:
            for name in parameters_of(path).keys() & self.VALUES.keys():
                good, bad = self.VALUES[name]
                self.assert_takes(path, name, good, bad)

    def test_durations_have_the_ranges_of_the_handler(self) -> None:
        for name, (shortest, longest) in self.DURATIONS.items():
            by_range: dict[bool, list[str]] = {True: [], False: list(self.MALFORMED)}
            for unit, seconds in self.UNITS.items():
                for count in self.counts(longest // seconds):
                    by_range[shortest <= count * seconds <= longest].append(f"{count}{unit}")
            self.assert_takes(SYSTEM, name, by_range[True], by_range[False])

    @staticmethod
    def counts(largest: int) -> Iterator[int]:
        """All numbers, if there are few. Otherwise only those at which a pattern of digits may go wrong."""
        yield from range(min(largest, 1000) + 2)
        for place in (10**zeros for zeros in range(len(str(largest)) + 1)):
            # The numbers around the point where this digit of the largest number starts or rolls over.
            begun = largest // place * place
            edges = (begun - 1, begun, begun + place - 1, begun + place, place - 1, place)
            yield from (edge for edge in edges if edge >= 0)

    def test_numbers_have_the_ranges_of_aws(self) -> None:
        parameters = parameters_of(SYSTEM)
        concurrency = parameters["MaxConcurrency"]
        self.assertEqual((concurrency["MinValue"], concurrency["MaxValue"]), (2, 1000))

    def test_choices_are_those_of_the_handler_and_of_lambda(self) -> None:
        parameters = parameters_of(SYSTEM)
        choices = {"Jitter": ["full", "equal", "none"], "Tracing": ["Active", "PassThrough"]}
        self.assertEqual({name: parameters[name]["AllowedValues"] for name in choices}, choices)

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


if __name__ == "__main__":
    unittest.main()
