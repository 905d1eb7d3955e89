"""CDK, SAM and Terraform refuse what refusals.toml says, and say why. Needs the output of tests/deployment/run-cdk, and
leaves out Terraform where it is not installed.
"""

import copy
import tomllib
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

import makers
import terraform
from makers import FUNCTION, QUEUE

TABLE: dict[str, list[dict[str, Any]]] = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text())
ROWS = TABLE["refusal"]


def inputs(row: dict[str, Any]) -> dict[str, Any]:
    """The inputs of Terraform's module for a row."""
    given: dict[str, Any] = {"functions": {"orders": FUNCTION | row.get("function", {})}}
    if "queue" in row or "attached" in row:
        given["queues"] = {"imports": {"queue": QUEUE | row.get("queue", {}), **row.get("attached", {})}}
    return given | meant(row.get("with", {})) | dict.fromkeys(row.get("without", []))


def meant(value: Any) -> Any:
    """A value with the function and the queue in place of their names."""
    match value:
        case dict():
            return {name: meant(each) for name, each in value.items()}
        case "<function>":
            return copy.copy(FUNCTION)
        case "<queue>":
            return copy.copy(QUEUE)
    return value


class RefusalTest(unittest.TestCase):
    maxDiff = None

    def assert_refused(self, who: str, row: dict[str, Any], said: list[str]) -> None:
        with self.subTest(f"{who} refuses {row['with']}"):
            self.assertEqual(len(said), 1, f"expected only {row[who]!r}, got {said}")
            self.assertIn(row[who], said[0])

    def test_sam_refuses_parameters(self) -> None:
        self.assertEqual(makers.template({}).refusals(), [])
        for row in ROWS:
            if "SAM" in row:
                self.assert_refused("SAM", row, makers.template(row["with"]).refusals())

    def test_cdk_refuses_properties(self) -> None:
        rows = {str(row["with"]): row for row in ROWS if "CDK" in row}
        for name, said in makers.synthesized({name: row["with"] for name, row in rows.items()}).items():
            self.assert_refused("CDK", rows[name], [said] if isinstance(said, str) else [])

    @unittest.skipUnless("Terraform" in makers.MAKERS, "Terraform is not installed")
    def test_terraform_refuses_inputs(self) -> None:
        """What it says names no module, so all texts are compared with all errors."""
        for when, accepted in (("variable", []), ("plan", TABLE["accepted"])):
            rows = [row for row in ROWS if when in row.get("Terraform", {})]
            errors = terraform.refusals([inputs(row) for row in [*rows, *accepted]])
            texts = [row["Terraform"][when] for row in rows]
            found = Counter(next((text for text in texts if text in error), error) for error in errors)
            for text, count in Counter(texts).items():
                of = [{key: value for key, value in row.items() if key != "Terraform"} for row in rows]
                refused = [each for each, row in zip(of, rows, strict=True) if row["Terraform"][when] == text]
                with self.subTest(f"Terraform refuses {refused}"):
                    self.assertEqual(found.pop(text, 0), count, f"expected {text!r}")
            self.assertEqual(found, {}, "got what no row expects")
