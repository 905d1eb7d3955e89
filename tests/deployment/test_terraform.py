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
