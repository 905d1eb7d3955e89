"""checkov must find in both templates exactly what FINDINGS.md lists.

Needs checkov in the interpreter's environment, and the output of tests/deployment/run-cdk. Findings in the examples'
own functions and topics are ignored.
"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
PAGE = (ROOT / "infra/FINDINGS.md").read_text()
ALARMS = ROOT / "infra/sam/target-alarms.yaml"
SAM = [ROOT / "infra/sam/template.yaml", ALARMS]
# checkov can't evaluate the functions with which SAM's template switches options on: it considers them set, and the
# ledger missing.
OF_A_LEDGER = "CKV_AWS_28"
NO_VPC = "CKV_AWS_117"
# The permissions for a VPC, which only CDK's application with several teams needs.
IN_A_VPC = "CKV_AWS_111"
TEAMS = sorted((TARGET / "cdk/teams").glob("*.template.json"))
CDK = {name: TARGET / "cdk" / name / "comeback-cdk-example.template.json" for name in ("typescript", "everything")}


def listed(section: str, judge: str = "checkov") -> set[str]:
    """The checks of a tool in a section of the page."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(rf"^\| `([\w-]+)` \| {judge} \|", text, re.MULTILINE))


def failed(*templates: Path) -> list[dict[str, str]]:
    """The failed checks of all these templates, in one run, because checkov takes seconds to start."""
    command = [
        str(Path(sys.executable).parent / "checkov"),
        "--skip-download",
        "--framework=cloudformation",
        "--output=json",
        *(f"--file={template}" for template in templates),
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LOG_LEVEL": "ERROR"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    results = json.loads(answer.stdout)["results"]
    # checkov has no checks for alarms, so a template with only alarms passes none.
    judged = {Path(each["file_abs_path"]) for each in results["passed_checks"]}
    assert judged == set(templates) - {ALARMS}, answer.stderr
    checks: list[dict[str, str]] = results["failed_checks"]
    return checks


class CheckovTest(unittest.TestCase):
    """The findings."""

    @classmethod
    def setUpClass(cls) -> None:
        """Lets checkov scan everything at once."""
        cls.failed = failed(*SAM, *CDK.values(), *TEAMS)

    def found(self, *templates: Path, ours: str = "") -> set[str]:
        """The failed checks of resources whose names match."""
        return {
            each["check_id"]
            for each in self.failed
            if Path(each["file_abs_path"]) in templates and re.search(ours, each["resource"])
        }

    def test_of_sams_application(self) -> None:
        self.assertEqual(self.found(*SAM), listed("Intended") - {OF_A_LEDGER, IN_A_VPC})

    def test_of_cdks_construct(self) -> None:
        expected = listed("Intended") | listed("Rules of an organization")
        self.assertEqual(self.found(CDK["typescript"], ours=r"\.Retry"), expected - {OF_A_LEDGER, IN_A_VPC})

    def test_of_cdks_construct_with_everything(self) -> None:
        self.assertEqual(self.found(CDK["everything"], ours=r"\.Retry"), listed("Intended") - {IN_A_VPC} | {NO_VPC})

    def test_of_an_application_of_several_teams(self) -> None:
        # Three stacks and a nested one, with the functions of the teams.
        self.assertEqual(len(TEAMS), 4)
        self.assertEqual(self.found(*TEAMS), listed("Intended"))


if __name__ == "__main__":
    unittest.main()
