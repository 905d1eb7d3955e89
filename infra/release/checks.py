"""What must be true before a release is made, and what the changelog says of it."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

# https://semver.org/spec/v2.0.0.html, without build metadata, which registries drop or refuse.
NUMBER = r"(0|[1-9]\d*)"
IDENTIFIER = rf"({NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
SEMVER = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}(-{IDENTIFIER}(\.{IDENTIFIER})*)?", re.ASCII)


def git(root: Path, *arguments: str) -> str:
    """Runs a command of git. Returns its output."""
    return subprocess.run(["git", *arguments], cwd=root, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def faults(root: Path, version: str) -> list[str]:
    """Everything that prevents a release of this version from the checkout."""
    if not SEMVER.fullmatch(version):
        return [f"expected a semantic version such as 1.2.3 or 1.2.3-rc.1, got {version!r}"]
    found = [f"{place} has version {said}, not {version}" for place, said in versions(root) if said != version]
    if changed := git(root, "status", "--porcelain"):
        found.append(f"expected a clean checkout, but these files are not committed:\n{changed}")
    tag = f"v{version}"
    tagged = git(root, "tag", "--list", tag) != ""
    if tagged and git(root, "rev-parse", f"{tag}^{{commit}}") != git(root, "rev-parse", "HEAD"):
        found.append(f"the tag {tag} exists, and is not the commit that is checked out")
    changelog = (root / "CHANGELOG.md").read_text()
    if tagged and section(changelog, version) is None:
        found.append(f"CHANGELOG.md has no section [{version}]")
    if (root / "dist" / "release" / version).exists():
        found.append(f"dist/release/{version} exists; remove it to make it again")
    return found


def versions(root: Path) -> Iterator[tuple[str, str]]:
    """Each place that states the version of Comeback, with the version there."""
    workspace = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]
    yield "Cargo.toml", workspace["package"]["version"]
    for name, dependency in workspace["dependencies"].items():
        if "path" in dependency and "version" in dependency:
            yield f"{name} in Cargo.toml", dependency["version"]
    for file in ("package.json", "package-lock.json"):
        yield f"infra/cdk/{file}", json.loads((root / "infra" / "cdk" / file).read_text())["version"]


def section(changelog: str, name: str) -> str | None:
    """The text of a section of the changelog, `## [NAME]`, without its heading."""
    found = re.search(rf"^## \[{re.escape(name)}\].*\n(?s:(.*?))(?=^## |\Z)", changelog, re.MULTILINE)
    return found and found[1].strip()
