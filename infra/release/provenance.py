"""From what and by what a release was made: an in-toto statement with SLSA's provenance, version 1.

Nobody signs it, so it proves nothing by itself. It tells what is needed to make the same bytes again.
"""

import hashlib
import platform
import subprocess
import zlib
from pathlib import Path
from typing import Any

from checks import git

# These files pin everything that a build reads besides the checkout.
PINS = [
    "Cargo.lock",
    "infra/cdk/package-lock.json",
    "infra/cdk/python-constraints.txt",
    "rust-toolchain.toml",
    "scripts/package-requirements.txt",
]
TOOLS = ["rustc", "cargo", "node", "npm"]


def sha256(content: bytes) -> str:
    """The digest of a file."""
    return hashlib.sha256(content).hexdigest()


def statement(root: Path, version: str, digests: dict[str, str]) -> dict[str, Any]:
    """The statement about files with these digests."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:comeback:release:1",
                "externalParameters": {"version": version, "command": f"scripts/release {version}"},
                "internalParameters": {"signed": False, "tools": dict(tools())},
                "resolvedDependencies": [
                    {
                        "name": "checkout",
                        "digest": {
                            "gitCommit": git(root, "rev-parse", "HEAD"),
                            "gitTree": git(root, "rev-parse", "HEAD^{tree}"),
                        },
                    },
                    *({"name": pin, "digest": {"sha256": sha256((root / pin).read_bytes())}} for pin in PINS),
                ],
            },
            "runDetails": {"builder": {"id": "urn:comeback:scripts/release"}},
        },
    }


def tools() -> list[tuple[str, str]]:
    """The programs of this machine of which the bytes may depend, with their versions."""
    said = [(tool, subprocess.run([tool, "--version"], check=True, text=True, capture_output=True)) for tool in TOOLS]
    own = [("python", platform.python_version()), ("zlib", zlib.ZLIB_RUNTIME_VERSION), ("machine", platform.machine())]
    return [(tool, done.stdout.strip()) for tool, done in said] + own
