"""Tests that infra/terraform makes the system of CDK's construct, and that Terraform and its provider accept it.

Terraform itself does not run here: its parser reads the files, the provider's schema validates each argument, and
terraform.py computes the values. Needs the output of tests/deployment/run-cdk.
"""

import json
import os
import re
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hcl
import terraform
import terraform_schema
import terraform_system
from hcl import Block, Refused
from template import Template
from terraform import Module, Planned

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
MODULE = ROOT / "infra/terraform"
EXAMPLES = {"basic": "typescript", "complete": "everything"}
INPUTS = (ROOT / "docs/deploy/terraform-inputs.md").read_text()
SCHEMA = json.loads(terraform_schema.EXTRACT.read_text())

# Facts of CDK's templates that the module lacks, and what the module has instead.
DIFFERENCES = {
    # The condition aws:CalledVia has no value for Terraform. Terraform deletes the policy before the queue instead.
    r'Deny \* sqs:DeleteQueue (.+) if {"ForAllValues:StringNotEquals": '
    r'{"aws:CalledVia": \["cloudformation.amazonaws.com"\]}}': r"Deny * sqs:DeleteQueue \1",
}

HOME = "us-east-1:111111111111"


def function(name: str, **more: Any) -> dict[str, Any]:
    """A function as an element of `functions`."""
    return {
        "arn": f"arn:aws:lambda:{HOME}:function:{name}",
        "role_arn": f"arn:aws:iam::111111111111:role/app/{name}-role",
    } | more


ORDERS, PAYMENTS = function("orders"), function("payments")
OPERATOR = "arn:aws:iam::111111111111:role/operator"


def module(**inputs: Any) -> Module:
    """The module with one function."""
    return Module(MODULE, {"functions": {"orders": ORDERS}, "handler_zip": "bootstrap.zip"} | inputs)


def planned(**inputs: Any) -> dict[str, Planned]:
    """The resources by their addresses."""
    return {each.address: each for each in module(**inputs).plan()}


def arguments(address: str, **inputs: Any) -> dict[str, Any]:
    """The arguments of one resource."""
    return planned(**inputs)[address].arguments


def variables(**inputs: Any) -> dict[str, str]:
    """The handler's environment."""
    return arguments("aws_lambda_function.handler", **inputs)["environment"][0]["variables"]


def statements(address: str, **inputs: Any) -> list[dict[str, Any]]:
    """The statements of a policy."""
    return json.loads(arguments(address, **inputs)["policy"])["Statement"]


def allowed(action: str, address: str = "aws_iam_role_policy.handler", **inputs: Any) -> list[str]:
    """The resources on which a policy allows an action."""
    found = [each["Resource"] for each in statements(address, **inputs) if action in each["Action"]]
    return [resource for resources in found for resource in resources]


def closed_to_all_but(action: str, address: str, **inputs: Any) -> list[str]:
    """The principals to whom a queue's policy does not deny an action."""
    (denied,) = (
        each
        for each in statements(address, **inputs)
        if action in each["Action"] and "ArnNotEquals" in each.get("Condition", {})
    )
    return denied["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]


def blocks(kind: str) -> Iterator[tuple[Path, Block]]:
    """All blocks of a kind in the module and its examples."""
    for path in sorted(MODULE.rglob("*.tf")):
        yield from ((path, block) for block in hcl.read(path).blocks if block.kind == kind)


class LanguageTest(unittest.TestCase):
    """The checks of Terraform and its provider before they make anything."""

    def test_terraforms_own_parser_reads_all_files(self) -> None:
        modules = subprocess.run(["scripts/node", "tests/hcl"], cwd=ROOT, check=True, capture_output=True, text=True)
        command = ["node", ROOT / "tests/hcl/parse.js", modules.stdout.strip(), *sorted(MODULE.rglob("*.tf"))]
        self.assertEqual(subprocess.run(command, check=True, capture_output=True, text=True).stdout, "")

    def test_the_extract_of_the_schema_has_all_that_is_used(self) -> None:
        extracted = {(kind, name) for kind in ("resource", "data") for name in SCHEMA[kind]}
        self.assertEqual(extracted, terraform_schema.used())

    def test_resources_have_the_arguments_and_blocks_of_the_schema(self) -> None:
        for kind in ("resource", "data"):
            for path, block in blocks(kind):
                if block.labels[0] in SCHEMA[kind]:
                    schema = SCHEMA[kind][block.labels[0]]["arguments"]
                    where = f"{path.relative_to(MODULE)}: {'.'.join(block.labels)}"
                    self.assertEqual(list(faults(block, schema, where, terraform.META | {"source"})), [])

    def test_blocks_that_do_not_repeat_are_there_once(self) -> None:
        for example in EXAMPLES:
            for each in Module(MODULE / "examples" / example).plan():
                self.assertEqual(list(repeated(each.arguments, SCHEMA["resource"][each.kind]["arguments"])), [])

    def test_attributes_that_are_read_exist(self) -> None:
        for kind, names in terraform.COMPUTED.items():
            self.assertLessEqual(set(names), {*SCHEMA["resource"][kind]["attributes"]}, kind)
        for kind, values in terraform.DATA.items():
            # There is no schema of the other provider here.
            if kind.startswith("aws_"):
                self.assertLessEqual(set(values), {*SCHEMA["data"][kind]["attributes"]}, kind)

    def test_all_locals_and_outputs_have_values(self) -> None:
        for example in EXAMPLES:
            root = Module(MODULE / "examples" / example)
            for made in (root, *root.children.values()):
                # This evaluates their items. An expression with an error would raise.
                self.assertEqual(len(dict(made.locals)) + len(dict(made.results)), len(made.locals) + len(made.outputs))

    def test_all_variables_are_used(self) -> None:
        code = "".join(path.read_text() for path in MODULE.glob("*.tf") if path.name != "variables.tf")
        self.assertEqual([name for name in module().variables if f"var.{name}" not in code], [])

    def test_the_examples_ask_for_the_same_provider(self) -> None:
        required = {
            hcl.evaluate(block.attributes["aws"], hcl.no_names)["version"]
            for _, terraform_block in blocks("terraform")
            for block in terraform_block.inner("required_providers")
        }
        self.assertEqual(len(required), 1)


def faults(block: Block, schema: dict[str, Any], where: str, left_out: set[str]) -> Iterator[str]:
    """The parts of a block that the schema lacks, and those that the schema requires and the block lacks."""
    inner = {each.labels[0] if each.kind == "dynamic" else each.kind: each for each in block.blocks}
    said = {name for name in block.attributes if name not in left_out}
    yield from (f"{where} has no {name}" for name in said if name not in schema or "block" in schema[name])
    for name, each in inner.items():
        if name in terraform.META_BLOCKS:
            continue
        if "block" not in schema.get(name, {}):
            yield f"{where} has no block {name}"
            continue
        (content,) = each.inner("content") if each.kind == "dynamic" else (each,)
        yield from faults(content, schema[name]["block"], f"{where}.{name}", set())
    for name, argument in schema.items():
        if argument["required"] and name not in said | inner.keys():
            yield f"{where} lacks {name}"


def repeated(given: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    """Blocks that are repeated, although the schema allows them only once."""
    for name, argument in schema.items():
        if "block" in argument and name in given:
            if len(given[name]) > 1 and not argument["repeats"]:
                yield name
            for each in given[name]:
                yield from repeated(each, argument["block"])


class ParityTest(unittest.TestCase):
    """The examples make the systems of CDK's applications."""

    def test_examples_make_the_facts_of_cdks_templates(self) -> None:
        for example, application in EXAMPLES.items():
            (path,) = (TARGET / "cdk" / application).glob("*.template.json")
            theirs = terraform_system.facts(Template(json.loads(path.read_text())).resources())
            for pattern, instead in DIFFERENCES.items():
                replaced = {re.sub(pattern, instead, fact) for fact in theirs}
                self.assertNotEqual(replaced, theirs, f"{pattern} is a difference no longer")
                theirs = replaced
            ours = terraform_system.facts(terraform_system.resources(MODULE / "examples" / example))
            self.assertGreater(len(ours), 100)
            self.assertEqual(sorted(ours ^ theirs), [], example)


class QueueTest(unittest.TestCase):
    """Retry queues of one and of several functions."""

    BOTH = {"functions": {"orders": ORDERS, "payments": PAYMENTS}}

    def test_each_function_has_a_queue_that_names_only_it(self) -> None:
        targets = json.loads(variables(**self.BOTH)["QUEUE_TARGETS"])
        self.assertEqual(sorted(targets.values()), [["orders"], ["payments"]])
        senders = closed_to_all_but("sqs:SendMessage", "aws_sqs_queue_policy.retry[retry-orders]", **self.BOTH)
        self.assertEqual(senders[1:], [ORDERS["role_arn"]])

    def test_those_who_redrive_have_a_queue_for_all_functions(self) -> None:
        inputs = self.BOTH | {"redrive_principals": [OPERATOR]}
        targets = json.loads(variables(**inputs)["QUEUE_TARGETS"])
        self.assertIn(["orders", "payments"], targets.values())
        for name in ("redrive", "retry-orders", "retry-payments"):
            self.assertIn(
                OPERATOR, closed_to_all_but("sqs:SendMessage", f"aws_sqs_queue_policy.retry[{name}]", **inputs)
            )
        self.assertIn("Retry[redrive]", module(**inputs).results["redrive_queue_arn"])

    def test_functions_may_share_a_queue(self) -> None:
        inputs = self.BOTH | {"shared_queue": True, "redrive_principals": [OPERATOR]}
        (targets,) = json.loads(variables(**inputs)["QUEUE_TARGETS"]).values()
        self.assertEqual(targets, ["orders", "payments"])
        senders = closed_to_all_but("sqs:SendMessage", "aws_sqs_queue_policy.retry[retry]", **inputs)
        self.assertEqual(senders[1:], [OPERATOR, ORDERS["role_arn"], PAYMENTS["role_arn"]])
        self.assertIn("Retry[retry]", module(**inputs).results["redrive_queue_arn"])

    def test_functions_that_share_a_role_are_named_once(self) -> None:
        both = {"orders": ORDERS, "payments": PAYMENTS | {"role_arn": ORDERS["role_arn"]}}
        senders = closed_to_all_but(
            "sqs:SendMessage", "aws_sqs_queue_policy.retry[retry]", functions=both, shared_queue=True
        )
        self.assertEqual(senders[1:], [ORDERS["role_arn"]])

    def test_without_people_only_the_handler_is_named(self) -> None:
        for action in ("sqs:ReceiveMessage", "sqs:PurgeQueue", "sqs:StartMessageMoveTask", "sqs:SendMessage"):
            (who,) = closed_to_all_but(action, "aws_sqs_queue_policy.dead_letter")
            self.assertIn("aws_iam_role.Handler", who)
        self.assertEqual([address for address in planned() if address.startswith("aws_iam_policy.")], [])

    def test_protection_against_deletion_can_be_taken_off(self) -> None:
        for is_on in (True, False):
            for address in ("aws_sqs_queue_policy.dead_letter", "aws_sqs_queue_policy.retry[retry-orders]"):
                said = statements(address, deletion_protection=is_on)
                self.assertEqual(any("sqs:DeleteQueue" in each["Action"] for each in said), is_on)

    def test_without_functions_there_is_no_queue(self) -> None:
        inputs: dict[str, Any] = {"functions": {}}
        self.assertNotIn("QUEUE_TARGETS", variables(**inputs))
        self.assertNotIn("aws_sqs_queue.retry", {address.partition("[")[0] for address in planned(**inputs)})
        self.assertEqual(allowed("sqs:ReceiveMessage", **inputs) + allowed("lambda:InvokeFunction", **inputs), [])

    def test_no_failure_arrives_before_its_queue_is_closed_and_read(self) -> None:
        (config,) = (
            block for _, block in blocks("resource") if block.labels[0] == "aws_lambda_function_event_invoke_config"
        )
        needed = {hcl.text(each) for each in config.attributes["depends_on"].children if hasattr(each, "data")}
        self.assertLessEqual(
            {"aws_iam_role_policy.sender", "aws_sqs_queue_policy.retry", "aws_lambda_event_source_mapping.retry"},
            {name for text in needed for name in re.findall(r"\w+\.\w+", text)},
        )


class FunctionTest(unittest.TestCase):
    """Attached functions, and what the handler may do with them."""

    def test_each_qualifier_is_configured_by_itself(self) -> None:
        live = function("orders", qualifiers=["$LATEST", "live"], on_success="arn:aws:sqs:x", maximum_event_age=600)
        for qualifier in live["qualifiers"]:
            config = arguments(
                f"aws_lambda_function_event_invoke_config.this[orders:{qualifier}]", functions={"orders": live}
            )
            self.assertEqual(config["qualifier"], qualifier)
            self.assertEqual((config["maximum_retry_attempts"], config["maximum_event_age_in_seconds"]), (0, 600))
            self.assertEqual(config["destination_config"][0]["on_success"], [{"destination": "arn:aws:sqs:x"}])

    def test_re_invocation_can_be_limited_to_what_is_attached(self) -> None:
        arn = ORDERS["arn"]
        for qualifiers, is_limited, expected in (
            (["live"], False, [arn, f"{arn}:*"]),
            (["live"], True, [f"{arn}:live"]),
            (["$LATEST", "live"], True, [arn, f"{arn}:$LATEST", f"{arn}:live"]),
        ):
            functions = {"orders": function("orders", qualifiers=qualifiers)}
            got = allowed("lambda:InvokeFunction", functions=functions, only_attached_qualifiers=is_limited)
            self.assertEqual(got, expected)

    def test_a_function_may_have_a_policy_of_its_own(self) -> None:
        own = function("orders", base_backoff="5s", max_attempts=3, jitter="none", non_retryable_errors=[])
        said = json.loads(variables(functions={"orders": own, "payments": PAYMENTS})["POLICIES"])
        expected = {"BASE_BACKOFF": "5s", "MAX_ATTEMPTS": "3", "JITTER": "none", "NON_RETRYABLE_ERRORS": ""}
        self.assertEqual(said, {"orders": expected})
        self.assertNotIn("POLICIES", variables())

    def test_the_code_comes_from_a_file_or_from_s3(self) -> None:
        in_s3 = {"bucket": "code", "key": "bootstrap.zip", "version": "7"}
        handler = arguments("aws_lambda_function.handler", handler_zip=None, handler_s3=in_s3)
        got = [handler.get(name) for name in ("s3_bucket", "s3_key", "s3_object_version", "filename")]
        self.assertEqual(got, ["code", "bootstrap.zip", "7", None])

    def test_the_handler_may_run_in_a_vpc(self) -> None:
        inputs = {"subnet_ids": ["subnet-1"], "security_group_ids": ["sg-1"]}
        handler = arguments("aws_lambda_function.handler", **inputs)
        self.assertEqual(handler["vpc_config"], [inputs])
        self.assertEqual(allowed("ec2:CreateNetworkInterface", **inputs), ["*"])

    def test_pollers_exclude_the_maximum_concurrency(self) -> None:
        mapping = arguments("aws_lambda_event_source_mapping.retry[retry-orders]", pollers={"maximum": 5})
        self.assertEqual(mapping["provisioned_poller_config"], [{"minimum_pollers": 2, "maximum_pollers": 5}])
        self.assertNotIn("scaling_config", mapping)

    def test_dead_letters_may_go_to_another_account(self) -> None:
        central, key = "arn:aws:sqs:us-east-1:222222222222:letters", "arn:aws:kms:us-east-1:222222222222:key/k"
        inputs = {"central_dead_letter_queue_arn": central, "central_kms_key_arn": key}
        self.assertEqual(
            variables(**inputs)["DEAD_LETTER_QUEUE_URL"], "https://sqs.us-east-1.amazonaws.com/222222222222/letters"
        )
        self.assertIn(central, allowed("sqs:SendMessage", **inputs))
        self.assertEqual(allowed("kms:GenerateDataKey", **inputs), [key])
        # SQS itself moves these messages.
        redrive = json.loads(arguments("aws_sqs_queue.retry[retry-orders]", **inputs)["redrive_policy"])
        self.assertIn("aws_sqs_queue.Dead_Letter", redrive["deadLetterTargetArn"])

    def test_the_ledger_grants_what_its_options_need(self) -> None:
        for options, actions in (
            ({}, {"PutItem", "DeleteItem"}),
            ({"register": True}, {"PutItem", "DeleteItem", "BatchGetItem"}),
            ({"probe": True}, {"PutItem", "DeleteItem", "BatchGetItem", "UpdateItem"}),
            ({"register": True, "probe": True}, {"PutItem", "DeleteItem", "BatchGetItem", "UpdateItem", "Query"}),
        ):
            said = statements("aws_iam_role_policy.handler", ledger=True, **options)
            got = {action for each in said for action in each["Action"] if action.startswith("dynamodb:")}
            self.assertEqual(got, {f"dynamodb:{action}" for action in actions})
            index = arguments("aws_dynamodb_table.ledger[0]", ledger=True, **options).get("global_secondary_index", [])
            self.assertEqual(bool(index), "register" in options)


class InputTest(unittest.TestCase):
    """Inputs that Terraform refuses, and the tables of the page."""

    def test_bad_inputs_are_refused(self) -> None:
        for bad, message in (
            ({"functions": {"a b": ORDERS}}, "keys of functions"),
            ({"functions": {"orders": ORDERS | {"arn": f"{ORDERS['arn']}:live"}}}, "without a version or an alias"),
            ({"functions": {"orders": ORDERS | {"role_arn": "orders"}}}, "role_arn"),
            ({"functions": {"orders": ORDERS | {"qualifiers": []}}}, "at least one qualifier"),
            ({"functions": {"orders": ORDERS | {"max_age": "1 day"}}}, "durations of functions"),
            ({"functions": {"orders": ORDERS | {"max_attempts": 0}}}, "max_attempts"),
            ({"functions": {"orders": ORDERS | {"jitter": "half"}}}, "jitter"),
            ({"functions": {"orders": ORDERS | {"non_retryable_errors": ["A,B"]}}}, "non_retryable_errors"),
            ({"functions": {"orders": ORDERS | {"maximum_event_age": 30}}}, "maximum_event_age"),
            ({"functions": {"orders": ORDERS | {"max_retries": 3}}}, "max_retries"),
            ({"functions": {"orders": {"arn": ORDERS["arn"]}}}, "role_arn is required"),
            ({"functions": {"a": ORDERS, "b": ORDERS}}, "only once"),
            ({"functions": {"orders": ORDERS | {"max_age": "10s", "base_backoff": "1m"}}}, "longer than base_backoff"),
            ({"name": "a/b"}, "name"),
            ({"base_backoff": "soon"}, "base_backoff"),
            ({"base_backoff": "13h", "max_backoff": "1d", "max_age": "2d"}, "at most 12h"),
            ({"base_backoff": "2m", "max_backoff": "1m"}, "from base_backoff to 13d"),
            ({"max_backoff": "14d", "max_age": "30d"}, "to 13d"),
            ({"max_age": "366d"}, "at most 365d"),
            ({"max_age": "1s"}, "longer than base_backoff"),
            ({"max_attempts": 1.5}, "max_attempts"),
            ({"jitter": "some"}, "jitter"),
            ({"non_retryable_errors": [" "]}, "non_retryable_errors"),
            ({"handler_zip": None}, "either handler_zip or handler_s3"),
            ({"handler_s3": {"bucket": "b", "key": "k"}}, "either handler_zip or handler_s3"),
            ({"architecture": "riscv"}, "architecture"),
            ({"memory_size": 64}, "memory_size"),
            ({"handler_timeout": 5}, "handler_timeout"),
            ({"max_concurrency": 1}, "max_concurrency"),
            ({"pollers": {"minimum": 9, "maximum": 8}}, "pollers"),
            ({"reserved_concurrency": 1}, "reserved_concurrency"),
            ({"reserved_concurrency": 5}, "at least max_concurrency"),
            ({"log_retention_days": 2}, "log_retention_days"),
            ({"tracing": "On"}, "tracing"),
            ({"in_flight_max": 0}, "in_flight_max"),
            ({"register": True}, "need the ledger"),
            ({"probe": True}, "need the ledger"),
            ({"kms_key_arn": "alias/comeback"}, "no alias"),
            ({"central_dead_letter_queue_arn": "arn:aws:sqs:us-east-1:222222222222:letters.fifo"}, "not FIFO"),
            ({"alarms": {"settings": {"Late": {}}}}, "that docs/deploy/cdk-operations.md lists"),
            ({"alarms": {"settings": {"Lateness": {"severity": "high"}}}}, "page or ticket"),
            ({"alarms": {"settings": {"Lateness": {"period": 45}}}}, "period of an alarm"),
            ({"functions": {f"f{n}": function(f"{n}-{'x' * 60}") for n in range(40)}}, "4096 characters"),
        ):
            with self.subTest(bad), self.assertRaises(Refused) as refused:
                list(module(**bad).plan())
            self.assertIn(message, str(refused.exception))

    def test_good_inputs_are_accepted(self) -> None:
        for good in (
            {"reserved_concurrency": 5, "pollers": {"maximum": 4}},
            {"max_age": "2s"},
            {"max_backoff": "13d", "max_age": "365d"},
            {"alarms": {"settings": {"Lateness": {"period": 30}}}},
            {"name": None, "functions": {f"f{n}": function(f"f{n}") for n in range(20)}},
        ):
            with self.subTest(good):
                self.assertEqual(module(**good).refusals(), [])

    def test_the_page_lists_all_inputs_and_outputs(self) -> None:
        made = module()
        inputs = [
            (name, "required" if terraform.required(block) else "", terraform.described(block))
            for name, block in made.variables.items()
        ]
        outputs = [(name, terraform.described(block)) for name, block in made.outputs.items()]
        for heading, expected in (("Inputs", inputs), ("Outputs", outputs)):
            rows = re.findall(r"^\| `(.*) \|$", INPUTS.split(f"\n## {heading}\n")[1].split("\n## ")[0], re.MULTILINE)
            self.assertEqual([tuple(re.split(r"`? \| ", row)) for row in rows], expected)


class WatchTest(unittest.TestCase):
    """Alarms and the dashboard."""

    def test_alarms_can_be_left_out_and_changed(self) -> None:
        self.assertEqual([each for each in planned(alarms=None) if "metric_alarm" in each], [])
        changed = {"actions": ["page"], "settings": {"Lateness": {"severity": "page", "evaluation_periods": 3}}}
        lateness = arguments("aws_cloudwatch_metric_alarm.this[Lateness-orders]", alarms=changed)
        self.assertEqual(lateness["evaluation_periods"], 3)
        self.assertNotIn("datapoints_to_alarm", lateness)
        self.assertEqual(lateness["alarm_actions"], ["page"])

    def test_the_settings_name_the_alarms_that_there_are(self) -> None:
        made = module(ledger=True, probe=True)
        watched = {
            address.partition("[")[2].partition("-")[0].rstrip("]") for address in planned(ledger=True, probe=True)
        }
        named = set(made.locals["triggers"])
        self.assertLessEqual(named, watched)
        for name in named:
            list(module(alarms={"settings": {name: {"enabled": False}}}).plan())

    def test_the_dashboard_answers_the_questions_of_the_others(self) -> None:
        everything = {"functions": QueueTest.BOTH["functions"], "ledger": True, "register": True, "probe": True}
        body = json.loads(arguments("aws_cloudwatch_dashboard.this[0]", **everything)["dashboard_body"])
        texts = [each["properties"]["markdown"] for each in body["widgets"] if each["type"] == "text"]
        expected = ["Is anything lost?", "What is down?", "What waits, and until when?", "What does it cost?"]
        self.assertEqual(texts, [f"## {question}" for question in expected])
        for each in body["widgets"]:
            if each["type"] == "metric":
                ids = [line[-1]["id"] for line in each["properties"]["metrics"] if "id" in line[-1]]
                self.assertEqual(len(ids), len(set(ids)), each["properties"]["title"])
        self.assertNotIn("aws_cloudwatch_dashboard.this[0]", planned(dashboard=False))


if __name__ == "__main__":
    unittest.main()
