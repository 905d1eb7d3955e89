"""The command lines of SAM and CDK, as a person uses them, with an emulator in AWS's place."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from endpoints import ACCOUNT, REGION, Endpoint

# Longer than a deployment takes; one that hangs is ended.
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Tools:
    """Where the programs are, and whom they speak to."""

    sam: Path
    cdk: Path
    endpoint: Endpoint
    # A folder of their own, where they keep what they please.
    home: Path

    def deploy_sam(self, template: Path, stack: str) -> None:
        """Builds a SAM application beside its template and deploys it."""
        folder = template.parent
        self._run(folder, self.sam, "build", "--template-file", template.name)
        self._run(
            folder, self.sam, "deploy", "--stack-name", stack, "--resolve-s3", "--no-confirm-changeset",
            "--capabilities", "CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND",
        )  # fmt: skip

    def deploy_cdk(self, assembly: Path, stack: str) -> None:
        """Prepares the account for CDK and deploys a stack that is synthesised already."""
        self._run(assembly, self.cdk, "bootstrap", "--app", ".", f"aws://{ACCOUNT}/{REGION}")
        self._run(assembly, self.cdk, "deploy", "--app", ".", "--require-approval", "never", stack)

    def _run(self, folder: Path, *command: object) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "AWS_ENDPOINT_URL": self.endpoint.url,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            # Nothing listens there: whatever they would ask of anybody else fails.
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "SAM_CLI_TELEMETRY": "0",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "true",
        }
        ended = subprocess.run(
            [str(word) for word in command],
            cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {ended.returncode}:\n{ended.stdout}")
