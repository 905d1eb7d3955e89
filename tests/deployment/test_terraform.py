"""Checks infra/terraform with Terraform: its format, its types, and its tests with a mocked provider.

test_parity.py compares what the module makes, and test_refusals.py what it refuses. deployed.py applies the complete
example. Without Terraform, all of this is left out.
"""

import re
import sys
import unittest

import commands
import terraform
from terraform import PROVIDER

sys.path.append(str(commands.ROOT / "infra/release"))

import archives

PLUGINS = commands.terraform_plugins()

PLANNED = """
resource "aws_sqs_queue" "imports" {
  name = "imports"
}
module "comeback" {
  source      = "../infra/terraform"
  handler_zip = "../infra/terraform/versions.tf"
  functions   = {}
  queues      = { imports = { queue = aws_sqs_queue.imports } }
}
"""
DELIVERED = """
resource "aws_sqs_queue" "jobs" {
  name = "jobs"
}
resource "aws_cloudwatch_event_rule" "placed" {
  name          = "placed"
  event_pattern = jsonencode({ source = ["shop"] })
}
resource "aws_cloudwatch_event_target" "jobs" {
  rule = aws_cloudwatch_event_rule.placed.name
  arn  = aws_sqs_queue.jobs.arn
  dead_letter_config {
    arn = module.comeback.retry_queue_arns["jobs"]
  }
}
resource "aws_iam_role" "nightly" {
  name               = "nightly"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [] })
}
resource "aws_scheduler_schedule" "nightly" {
  name                = "nightly"
  schedule_expression = "rate(1 day)"
  flexible_time_window {
    mode = "OFF"
  }
  target {
    arn      = aws_sqs_queue.jobs.arn
    role_arn = aws_iam_role.nightly.arn
    dead_letter_config {
      arn = module.comeback.retry_queue_arns["jobs"]
    }
  }
}
module "comeback" {
  source      = "../infra/terraform"
  handler_zip = "../infra/terraform/versions.tf"
  functions   = {}
  receivers   = { queues = { jobs = aws_sqs_queue.jobs } }
  rules = {
    placed = { rule = aws_cloudwatch_event_rule.placed, receiver = "jobs", target = aws_cloudwatch_event_target.jobs }
  }
  schedules = { nightly = { schedule = aws_scheduler_schedule.nightly, receiver = "jobs" } }
}
"""
STREAMED = """
resource "aws_kinesis_stream" "clicks" {
  name        = "clicks"
  shard_count = 1
}
resource "aws_lambda_event_source_mapping" "clicks" {
  event_source_arn        = aws_kinesis_stream.clicks.arn
  function_name           = "orders"
  starting_position       = "LATEST"
  function_response_types = ["ReportBatchItemFailures"]
  destination_config {
    on_failure {
      destination_arn = module.comeback.records_bucket_arn
    }
  }
}
module "comeback" {
  source      = "../infra/terraform"
  handler_zip = "../infra/terraform/versions.tf"
  functions = {
    orders = {
      arn      = "arn:aws:lambda:us-east-1:111111111111:function:orders"
      role_arn = "arn:aws:iam::111111111111:role/orders"
    }
  }
  records     = true
  streams     = { clicks = { mapping = aws_lambda_event_source_mapping.clicks, function = "orders" } }
}
"""
RELEASED = """
module "%s" {
  source    = "../terraform-aws-comeback-1.2.3"
  name      = "%s"
  functions = {}
  %s
}
"""
VERSION_6 = """
locals {
  provider_attributes = ["region"]
}
"""


@unittest.skipIf(PLUGINS is None, "Terraform is not installed")
class TerraformTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.module = self.enterContext(terraform.checkout()) / "infra/terraform"

    def test_all_files_are_formatted(self) -> None:
        terraform.run(self.module, "fmt", "-check", "-diff", "-recursive")

    def test_the_module_and_its_examples_are_valid_and_its_tests_pass(self) -> None:
        for folder in (self.module, *(self.module / "examples").iterdir()):
            terraform.run(folder, "init", "-backend=false", *(PLUGINS or []))
            terraform.run(folder, "validate", "-no-color")
        said = terraform.run(self.module, "test", "-no-color")
        self.assertRegex(said, r"Success! [1-9]\d* passed, 0 failed")

    def test_the_queues_take_the_largest_messages_that_the_provider_makes(self) -> None:
        folder = self.module.parents[1] / "planned"
        folder.mkdir()
        (folder / "main.tf").write_text(PROVIDER + PLANNED)
        terraform.run(folder, "init", *(PLUGINS or []))
        said = terraform.run(folder, "plan", "-no-color")
        # The last one is the source queue.
        sizes = re.findall(r"\+ max_message_size += (\d+)", said)
        is_old = commands.has_provider_5()
        self.assertEqual(sorted(sizes), ["262144"] * 3 if is_old else ["1048576"] * 2 + ["262144"])
        self.assertEqual("Lambda drops the failures" in " ".join(said.split()), is_old)
        # Version 5 itself refuses what the module wants of version 6.
        (self.module / "provider_override.tf").write_text(VERSION_6)
        said = terraform.run(folder, "plan", "-no-color", fails=is_old)
        self.assertIn("got 1048576" if is_old else "= 1048576", said)

    def test_rules_schedules_and_mappings_name_parts_of_a_module_that_names_them(self) -> None:
        """Terraform would find a circle, and keys of resources that are not known yet."""
        (self.module / "targets_override.tf").write_text(terraform.TARGETS)
        for resources, made in (
            (DELIVERED, 'aws_iam_role_policy.schedule["nightly"]'),
            (STREAMED, "aws_s3_bucket_notification.records[0]"),
        ):
            folder = self.module.parents[1] / f"planned-{len(resources)}"
            folder.mkdir()
            (folder / "main.tf").write_text(PROVIDER + resources)
            terraform.run(folder, "init", *(PLUGINS or []))
            said = terraform.run(folder, "plan", "-no-color")
            self.assertIn(f"module.comeback.{made} will be created", said)

    def test_a_released_module_deploys_the_code_that_it_carries(self) -> None:
        folder = self.module.parents[1]
        for arch in ("arm64", "x86_64"):
            (folder / arch).mkdir()
            (folder / arch / "bootstrap.zip").write_text(arch)
        for file in archives.terraform(commands.ROOT, "1.2.3", "https://github.com/someone/comeback", folder):
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.name).write_bytes(file.content)
        planned = folder / "planned"
        planned.mkdir()
        modules = [
            RELEASED % (name, name, more)
            for name, more in (
                ("default", ""),
                ("other", 'architecture = "x86_64"'),
                ("own", 'handler_zip = "../infra/terraform/README.md"'),
            )
        ]
        (planned / "main.tf").write_text("\n".join([PROVIDER, *modules]))
        terraform.run(planned, "init", *(PLUGINS or []))
        said = terraform.run(planned, "plan", "-no-color")
        self.assertEqual(
            sorted(re.findall(r'\+ filename += ".*/(.*/.*)"', said)),
            ["handler/arm64.zip", "handler/x86_64.zip", "terraform/README.md"],
        )
