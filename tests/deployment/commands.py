"""Runs the example's own deployment commands, as a user would, against an emulator of AWS."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Also for those that import this module.
sys.path.append(str(ROOT / "tests/conformance"))

from endpoints import ACCOUNT, REGION, Endpoint  # noqa: E402

# The names of the examples' stacks.
SAM_STACK = "comeback-example"
CDK_STACK = "comeback-cdk-example"

# Folders that may have Terraform's AWS provider, for machines that can't reach the registry.
TERRAFORM_PLUGINS = [Path(folder) / "tf-plugins" for folder in ("/opt", "/usr/local/share")]

# Longer than a deployment takes. A command that hangs is killed.
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Example:
    stack: str
    folder: Path
    commands: list[list[str]]

    def deploy(self, endpoint: Endpoint, home: Path) -> None:
        """Runs the commands in the example's folder, without the settings of the current user."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            # AWS_DEFAULT_REGION is not among these, because not every user sets it.
            **endpoint.environment(),
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


def copy(handler: Path, folder: Path, *parts: str) -> None:
    """Copies parts of the checkout, and the handler to where scripts/package leaves it."""
    for part in parts:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns(".aws-sam"))
    packed = folder / "dist/arm64/bootstrap.zip"
    packed.parent.mkdir(parents=True)
    shutil.copy(handler, packed)


def sam(handler: Path, folder: Path, template: dict[str, Any]) -> Example:
    """SAM's example, deployed by scripts/deploy in a copy whose scripts/package does nothing."""
    copy(handler, folder, "scripts", "infra/sam", "infra/example")
    (folder / "infra" / "sam" / "example" / "template.yaml").write_text(json.dumps(template))
    (folder / "scripts" / "package").write_text("#!/bin/sh\n")
    # The tools are installed already.
    (folder / "target").symlink_to(ROOT / "target")
    return Example(SAM_STACK, folder, [["scripts/deploy", SAM_STACK]])


def sam_with_a_queue(handler: Path, folder: Path) -> Example:
    """SAM's example with a queue, in the same copy, deployed by SAM's own commands."""
    script = f"""
        set -eu
        PATH=$(dirname "$(scripts/python scripts/sam-requirements.txt)"):$PATH
        export SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION={REGION}
        cd infra/sam/example
        sam build --template queue.yaml
        sam deploy --parameter-overrides AlarmTopicArn=arn:aws:sns:{REGION}:{ACCOUNT}:alarms
    """
    return replace(sam(handler, folder, {}), commands=[["sh", "-c", script]])


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


def terraform_plugins() -> list[str] | None:
    """The option of `terraform init` with which it finds the AWS provider; None if Terraform is not installed."""
    if not shutil.which("terraform"):
        return None
    return [f"-plugin-dir={folder}" for folder in TERRAFORM_PLUGINS if folder.is_dir()]


def has_provider_5() -> bool:
    return any(list(folder.glob("**/hashicorp/aws/5.*")) for folder in TERRAFORM_PLUGINS)


def terraform(handler: Path, folder: Path, plugins: list[str]) -> Example:
    copy(handler, folder, "infra/terraform", "infra/cdk/contract", "infra/example")
    example = folder / "infra/terraform/examples/complete"
    with zipfile.ZipFile(example / "orders.zip", "w") as orders:
        orders.write(ROOT / "infra/example/orders/app.py", "app.py")
    initial = ["terraform", "init", "-no-color", *plugins]
    return Example("", example, [initial, ["terraform", "apply", "-auto-approve", "-no-color"]])
