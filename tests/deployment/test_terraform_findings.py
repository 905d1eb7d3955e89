"""checkov must find in infra/terraform exactly what its README answers.

Needs checkov in the interpreter's environment.
"""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

MODULE = Path(__file__).resolve().parents[2] / "infra/terraform"


def answered(family: str = "CKV") -> set[tuple[str, str]]:
    """The checks of a family in the README's table, and the places where they fail."""
    section = (MODULE / "README.md").read_text().split("\n## What checkov and trivy find\n")[1].split("\n## ")[0]
    return set(re.findall(rf"^\| `({family}[\w-]+)` \| (\w+) \| .+ \|$", section, re.MULTILINE))


def found() -> set[tuple[str, str]]:
    """The failed checks."""
    checkov = Path(sys.executable).parent / "checkov"
    command = [
        checkov,
        "--skip-download",
        "--framework=terraform",
        "--output=json",
        "--skip-path=tests",
        f"--directory={MODULE}",
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LOG_LEVEL": "ERROR"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    results = json.loads(answer.stdout)["results"]
    assert results["passed_checks"], answer.stderr
    assert not results["parsing_errors"], results["parsing_errors"]
    return {
        (each["check_id"], "examples" if each["file_path"].startswith("/examples/") else "module")
        for each in results["failed_checks"]
    }


class CheckovTest(unittest.TestCase):
    """The findings."""

    def test_each_finding_is_answered(self) -> None:
        self.assertEqual(found(), answered())


if __name__ == "__main__":
    unittest.main()
