"""The examples' own commands, as a person gives them, with an emulator in AWS's place."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endpoints import ACCOUNT, REGION, Endpoint

ROOT = Path(__file__).resolve().parents[2]

# Both examples give their stack this name.
STACK = "comeback-example"

# Longer than a deployment takes; one that hangs is ended.
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Example:
    """An example application, and what deploys it."""

    folder: Path
    commands: list[list[str]]

    def deploy(self, endpoint: Endpoint, home: Path) -> None:
        """Gives the commands in the example's folder, with nothing of a person's own settings.

        Raises:
            RuntimeError: if one fails, with what it said.
        """
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AWS_ENDPOINT_URL": endpoint.url,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            # Not AWS_DEFAULT_REGION, which not everybody sets.
            "AWS_REGION": REGION,
            # Nothing listens there: whatever they would ask of anybody else fails.
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
    """SAM's, by scripts/deploy, from a copy whose scripts/package has nothing left to do."""
    for part in ("scripts", "infra/sam", "infra/example"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns(".aws-sam"))
    (folder / "infra" / "sam" / "example" / "template.yaml").write_text(json.dumps(template))
    (folder / "scripts" / "package").write_text("#!/bin/sh\n")
    packed = folder / "dist" / "arm64" / "bootstrap.zip"
    packed.parent.mkdir(parents=True)
    shutil.copy(handler, packed)
    # The tools are those that are installed already.
    (folder / "target").symlink_to(ROOT / "target")
    return Example(folder, [["scripts/deploy", STACK]])


def cdk(program: Path, assembly: Path) -> Example:
    """CDK's, as it was synthesised, in an account that is prepared for CDK."""
    command = [str(program), "--app", ".", "--no-notices"]
    return Example(
        assembly,
        [
            [*command, "bootstrap", f"aws://{ACCOUNT}/{REGION}"],
            [*command, "deploy", "--require-approval", "never", STACK],
        ],
    )
