"""Runs the example's own deployment commands, as a user would, against an emulator of AWS."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endpoints import ACCOUNT, REGION, Endpoint

ROOT = Path(__file__).resolve().parents[2]

# The names of the examples' stacks.
SAM_STACK = "comeback-example"
CDK_STACK = "comeback-cdk-example"

# Longer than a deployment takes. A command that hangs is killed.
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Example:
    """An example application and its deployment commands."""

    stack: str
    folder: Path
    commands: list[list[str]]

    def deploy(self, endpoint: Endpoint, home: Path) -> None:
        """Runs the commands in the example's folder, without the settings of the current user.

        Raises:
            RuntimeError: if one fails, with its output.
        """
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AWS_ENDPOINT_URL": endpoint.url,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            # AWS_DEFAULT_REGION is not set, because not every user sets it.
            "AWS_REGION": REGION,
            # Nothing listens on this port, so every request to another host fails.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "true",
        }
        for command in self.commands:
            ended = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_SECONDS,
            )
            if ended.returncode != 0:
                raise RuntimeError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout}")


def sam(handler: Path, folder: Path, template: dict[str, Any]) -> Example:
    """SAM's example, deployed by scripts/deploy in a copy whose scripts/package does nothing."""
    for part in ("scripts", "infra/sam", "infra/example"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns(".aws-sam"))
    (folder / "infra" / "sam" / "example" / "template.yaml").write_text(json.dumps(template))
    (folder / "scripts" / "package").write_text("#!/bin/sh\n")
    packed = folder / "dist" / "arm64" / "bootstrap.zip"
    packed.parent.mkdir(parents=True)
    shutil.copy(handler, packed)
    # The tools are installed already.
    (folder / "target").symlink_to(ROOT / "target")
    return Example(SAM_STACK, folder, [["scripts/deploy", SAM_STACK]])


def cdk(program: Path, assembly: Path) -> Example:
    """CDK's synthesized example, in an account that is prepared for CDK."""
    command = [str(program), "--app", ".", "--no-notices"]
    return Example(
        CDK_STACK,
        assembly,
        [
            [*command, "bootstrap", f"aws://{ACCOUNT}/{REGION}"],
            [*command, "deploy", "--require-approval", "never", CDK_STACK],
        ],
    )
