"""The parts of scripts/release that build nothing.

python3 infra/release check VERSION                       says what prevents a release
python3 infra/release assemble VERSION BUILT FOLDER       makes the folder of a release from what was built
python3 infra/release repository URL                      sets the address of the repository, everywhere

BUILT is laid out like dist: ARCH/bootstrap.zip, ARCH/comeback with comeback.notices, macos-ARCH/comeback with
comeback.notices, cdk/js, cdk/python, and, if they were made, cdk/API.md and crates/*.crate. Only a Mac can build the
program for macOS: without it, a release has no file for macOS, and a tagged commit no release. FOLDER appears whole or
not at all.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import archives
import packages
from documents import ROOT, bill, faults, git, repository, section, set_repository, sha256, statement
from platforms import PLATFORMS

# Lambda's names of the architectures, with Rust's.
ARCHES = {"arm64": "aarch64", "x86_64": "x86_64"}

SUMS = "SHA256SUMS"
PROVENANCE = "provenance.intoto.json"

AFTER_NOTES = f"""
## Files

`docs/install.md`, which is also in the archives for SAM and Terraform, says what each file is for, and how to install
it. `sha256sum --check {SUMS}` checks the files, and `gh attestation verify FILE --repo {{owner}}/{{name}}` that
this repository's release workflow made them. `{PROVENANCE}` says from which commit and by which tools.
"""


def written(document: dict[str, Any]) -> bytes:
    return f"{json.dumps(document, indent=2)}\n".encode()


def files_of(version: str, built: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a release, each with its name, except for those about the others."""
    seconds = int(git(ROOT, "log", "-1", "--format=%ct"))
    address = repository(ROOT)
    for arch in ARCHES:
        yield f"comeback-handler-{version}-{arch}.zip", (built / arch / "bootstrap.zip").read_bytes()
    is_tagged = git(ROOT, "tag", "--points-at", "HEAD", "--list", f"v{version}") != ""
    on_mac = [each for each in PLATFORMS if each.system == "macos"]
    left_out = [each for each in on_mac if not is_tagged and not (built / each.built).exists()]
    platforms = [each for each in PLATFORMS if each not in left_out]
    yield from packages.programs(ROOT, version, address, built, platforms, seconds)
    (npm,) = (built / "cdk" / "js").glob("*.tgz")
    yield f"comeback-cdk-{version}.tgz", npm.read_bytes()
    for package in (built / "cdk" / "python").iterdir():
        content = package.read_bytes()
        yield package.name, archives.tar_again(content, seconds) if package.name.endswith(".tar.gz") else content
    yield f"comeback-sam-{version}.tar.gz", archives.tar(archives.sam(ROOT, version, built), seconds)
    module = archives.terraform(ROOT, version, address, built)
    yield f"terraform-aws-comeback-{version}.tar.gz", archives.tar(module, seconds)
    for made in [*(built / "crates").glob("*.crate"), *(built / "cdk").glob("API.md")]:
        yield made.name.replace("API", f"comeback-cdk-{version}-API"), made.read_bytes()
    yield from bills(version)
    yield "RELEASE-NOTES.md", notes(version, address).encode()


def bills(version: str) -> Iterator[tuple[str, bytes]]:
    """A bill of materials for each program, and for the CDK package with what it deploys."""
    shipped: list[tuple[str, str]] = []
    for arch, rust in ARCHES.items():
        linkage = ("retry-handler", f"{rust}-unknown-linux-gnu")
        purl = f"pkg:generic/comeback-handler@{version}?arch={arch}"
        yield f"comeback-handler-{version}-{arch}.cdx.json", written(bill(version, "comeback-handler", purl, [linkage]))
        shipped.append(linkage)
    for platform in PLATFORMS:
        purl = f"pkg:generic/comeback@{version}?os={platform.system}&arch={platform.arch}"
        said = bill(version, "comeback", purl, [("comeback-cli", platform.triple)])
        yield f"{packages.archive_of(version, platform)}.cdx.json", written(said)
    cdk = bill(version, "comeback-cdk", f"pkg:npm/comeback-cdk@{version}", shipped)
    yield f"comeback-cdk-{version}.cdx.json", written(cdk)


def notes(version: str, address: str) -> str:
    """What the changelog says of the version. A version without a section, and without a tag, is still to come."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    said = section(changelog, version) or section(changelog, "Unreleased") or ""
    owner, name = address.split("/")[-2:]
    return f"# Comeback {version}\n\n{said}\n{AFTER_NOTES.format(owner=owner, name=name)}"


def assemble(version: str, built: Path, folder: Path) -> None:
    """Writes the files into a folder beside, and gives it its name when it is complete."""
    # So that the folder is removed as after Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        digests = {}
        for name, content in files_of(version, built):
            (beside / name).write_bytes(content)
            digests[name] = sha256(content)
        stated = written(statement(ROOT, version, digests))
        (beside / PROVENANCE).write_bytes(stated)
        digests[PROVENANCE] = sha256(stated)
        (beside / SUMS).write_text("".join(f"{digests[name]}  {name}\n" for name in sorted(digests)))
        # mkdtemp makes a folder that only its owner may read.
        beside.chmod(0o755)
        os.rename(beside, folder)
    except BaseException:
        shutil.rmtree(beside)
        raise


def main() -> int:
    match sys.argv[1:]:
        case "assemble", version, built, folder:
            assemble(version, Path(built), Path(folder))
            return 0
        case "check", version:
            name = os.environ.get("GITHUB_REPOSITORY")
            found = faults(ROOT, version, name and f"{os.environ['GITHUB_SERVER_URL']}/{name}")
            for fault in found:
                print(f"scripts/release: {fault}", file=sys.stderr)
            return 1 if found else 0
        case "repository", address:
            print("\n".join(set_repository(ROOT, address)))
            return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
