"""Plays the day on which a version is tagged. tests/package/run-tag starts this."""

import os
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "tag"
OWNED = "example/comeback"
STAND_IN = '#!/bin/sh\necho "stand-in: ${0##*/} $*"\n'


def run(*command: str, folder: Path, **environment: str) -> None:
    print(f"$ {' '.join(command)}", flush=True)
    subprocess.run(command, cwd=folder, env={**os.environ, **environment}, check=True)


def tagged(clone: Path) -> str:
    """Does what CONTRIBUTING tells a maintainer to do. Returns the version."""
    # With changes that are not committed yet, so that a release can be tried while you work.
    changed = subprocess.run(["git", "stash", "create"], cwd=ROOT, check=True, capture_output=True, text=True)
    run("git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(clone), folder=ROOT)
    run("git", "checkout", "--quiet", "--detach", changed.stdout.strip() or "HEAD", folder=clone)
    version: str = tomllib.loads((clone / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    run("python3", "infra/release", "repository", f"https://github.com/{OWNED}", folder=clone)
    changelog = clone / "CHANGELOG.md"
    today = datetime.now(UTC).date()
    changelog.write_text(changelog.read_text().replace("## [Unreleased]\n", f"## [{version}] - {today}\n", 1))
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    run(*git, "commit", "--quiet", "--all", "--message", f"Release {version}", folder=clone)
    run(*git, "tag", f"v{version}", folder=clone)
    return version


class Workflow:
    """Runs the commands of the hosted workflow's jobs."""

    def __init__(self, clone: Path, version: str, built: Path | None) -> None:
        self.clone, self.version, self.built = clone, version, built
        self.jobs: dict[str, Any] = yaml.safe_load((clone / ".github/workflows/release.yml").read_text())["jobs"]
        tools = WORK / "tools"
        tools.mkdir()
        for name in ("gh", "docker", "ruby"):
            (tools / name).write_text(STAND_IN)
            (tools / name).chmod(0o755)
        self.environment = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "GITHUB_REPOSITORY": OWNED,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_REF_NAME": f"v{version}",
            "GITHUB_RUN_ID": "1",
            "RUNNER_TEMP": str(WORK),
            "BUNDLE": str(WORK / "bundle"),
        }

    def job(self, name: str, folder: Path, instead: dict[str, list[str]]) -> None:
        """Runs a job in a folder. What can't be run here has a command instead."""
        print(f"\n== {name}", flush=True)
        for step in self.jobs[name]["steps"]:
            command = step.get("run")
            if command is None or command == "rustup toolchain install":
                continue
            replaced = [each for begin, each in instead.items() if command.startswith(begin)]
            run(
                *(replaced[0] if replaced else ["bash", "-euo", "pipefail", "-c", command]),
                folder=folder,
                **self.environment,
            )

    def play(self) -> None:
        dist = self.clone / "dist"
        if self.built:
            shutil.copytree(self.built, dist)
        # Those for Linux are built later.
        for arch in ("x86_64", "arm64"):
            (dist / f"macos-{arch}").mkdir(parents=True, exist_ok=True)
            for file, content in (("comeback", STAND_IN), ("comeback.notices", "notices")):
                (dist / f"macos-{arch}" / file).write_text(content)
        release = ["python3", "infra/release"]
        made = dist / "release" / self.version
        checked: dict[str, list[str]] = {}
        if self.built:
            run(*release, "check", self.version, folder=self.clone, **self.environment)
            checked = {"scripts/release": [*release, "assemble", self.version, "dist", str(made)]}
        self.job("make", self.clone, checked)
        self.job("try", made.parent, {})
        (WORK / "bundle").write_text("{}\n")
        self.job("draft", made.parent, {})


def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    clone = WORK / "comeback"
    built = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None
    version = tagged(clone)
    Workflow(clone, version, built).play()
    print(f"\nA tag v{version} would make the files in {clone / 'dist/release' / version}.")


if __name__ == "__main__":
    main()
