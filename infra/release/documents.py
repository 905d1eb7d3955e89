"""What must be true before a release is made, and the documents that describe it.

Bills of materials: the crates that are linked into what is shipped, as CycloneDX 1.6 in JSON. And from what and by what
the release was made: an in-toto statement with SLSA's provenance, version 1, which tells what is needed to make the
same bytes again. It is not signed and proves nothing by itself: the hosted workflow's attestation of the same files
does.
"""

import functools
import hashlib
import json
import platform
import re
import runpy
import subprocess
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# https://semver.org/spec/v2.0.0.html, without build metadata, which registries drop or refuse.
NUMBER = r"(0|[1-9]\d*)"
IDENTIFIER = rf"({NUMBER}|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
SEMVER = re.compile(rf"{NUMBER}\.{NUMBER}\.{NUMBER}(-{IDENTIFIER}(\.{IDENTIFIER})*)?", re.ASCII)


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def faults(root: Path, version: str, hosted: str | None = None) -> list[str]:
    """Everything that prevents a release of this version from the checkout, whose repository is hosted there."""
    if not SEMVER.fullmatch(version):
        return [f"expected a semantic version such as 1.2.3 or 1.2.3-rc.1, got {version!r}"]
    found = [f"{place} has version {said}, not {version}" for place, said in versions(root) if said != version]
    if changed := git(root, "status", "--porcelain"):
        found.append(f"expected a clean checkout, but these files are not committed:\n{changed}")
    tag = f"v{version}"
    tagged = git(root, "tag", "--list", tag) != ""
    if tagged and git(root, "rev-parse", f"{tag}^{{commit}}") != git(root, "rev-parse", "HEAD"):
        found.append(f"the tag {tag} exists, and is not the commit that is checked out")
    address = repository(root)
    if tagged and NO_OWNER in address:
        found.append(f"Cargo.toml has no repository, but {address}: python3 infra/release repository URL sets it")
    found += [
        f"{place} has the repository {said}, not {address}" for place, said in repositories(root) if said != address
    ]
    if hosted and hosted != address:
        found.append(f"Cargo.toml has the repository {address}, but this is {hosted}")
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


# Nothing is published yet, so nobody owns the repository. Whoever publishes it sets its address once.
NO_OWNER = "//github.com/OWNER/"


def repository(root: Path) -> str:
    """The address of the repository. Everything of a release that has an address has this one."""
    address: str = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["repository"]
    return address


def repositories(root: Path) -> Iterator[tuple[str, str]]:
    """Each other place that states the address of the repository."""
    url = json.loads((root / "infra/cdk/package.json").read_text())["repository"]["url"]
    yield "infra/cdk/package.json", url.removeprefix("git+").removesuffix(".git")


def set_repository(root: Path, address: str) -> list[str]:
    """Sets the address of the repository wherever a tracked file has it, and returns these files."""
    if not re.fullmatch(r"https://[^/\s]+/[\w.-]+/[\w.-]+(?<!\.git)", address):
        raise ValueError(f"expected an address like https://github.com/OWNER/comeback, got {address!r}")
    old = repository(root)
    (old_owner, old_name), (owner, name) = (each.split("/")[-2:] for each in (old, address))
    # Registries and tools name a repository in their own ways.
    renamed = {old: address, f"{old_owner}/{old_name}": f"{owner}/{name}", f"{old_owner}/tap": f"{owner}/tap"}
    asked = [f"-e{each}" for each in renamed]
    files = git(root, "grep", "--files-with-matches", "--fixed-strings", *asked).splitlines()
    for file in files:
        text = (root / file).read_text()
        for before, after in renamed.items():
            text = text.replace(before, after)
        (root / file).write_text(text)
    return files


def section(changelog: str, name: str) -> str | None:
    """The text of a section of the changelog, `## [NAME]`, without its heading."""
    found = re.search(rf"^## \[{re.escape(name)}\].*\n(?s:(.*?))(?=^## |\Z)", changelog, re.MULTILINE)
    return found and found[1].strip()


# What scripts/notices lists is what a bill lists.
linked = functools.cache(runpy.run_path(str(ROOT / "scripts" / "notices"))["linked"])


def bill(version: str, name: str, purl: str, linkages: list[tuple[str, str]]) -> dict[str, Any]:
    """The bill of what is linked into these packages for these targets."""
    crates = {purl_of(crate): crate for linkage in linkages for crate in linked(*linkage)}
    checksums = {
        purl_of(crate): crate["checksum"]
        for crate in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
        if "checksum" in crate
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            }
        },
        "components": [component(ref, crates[ref], checksums[ref]) for ref in sorted(crates)],
    }


def purl_of(crate: dict[str, Any]) -> str:
    return f"pkg:cargo/{crate['name']}@{crate['version']}"


def component(ref: str, crate: dict[str, Any], checksum: str) -> dict[str, Any]:
    """A crate. Old ones separate the alternatives of their licence by a slash."""
    said = {
        "type": "library",
        "bom-ref": ref,
        "name": crate["name"],
        "version": crate["version"],
        "purl": ref,
        "hashes": [{"alg": "SHA-256", "content": checksum}],
    }
    if licence := crate["license"]:
        said["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    return said


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
    return hashlib.sha256(content).hexdigest()


def statement(root: Path, version: str, digests: dict[str, str]) -> dict[str, Any]:
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
