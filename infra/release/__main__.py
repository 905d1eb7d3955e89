"""The parts of scripts/release that build nothing.

python3 infra/release check VERSION                       says what prevents a release
python3 infra/release assemble VERSION BUILT FOLDER       makes the folder of a release from what was built

BUILT is laid out like dist: ARCH/bootstrap.zip, ARCH/comeback with comeback.notices, cdk/js, cdk/python, and, if
they were made, cdk/API.md and crates/*.crate. FOLDER appears whole or not at all.
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
from documents import ROOT, bill, faults, git, section, sha256, statement

# Lambda's names of the architectures, with Rust's.
ARCHES = {"arm64": "aarch64", "x86_64": "x86_64"}

SUMS = "SHA256SUMS"
PROVENANCE = "provenance.intoto.json"

AFTER_NOTES = f"""
## Files

`docs/install.md`, which is also in the archives for SAM and Terraform, says what each file is for, and how to install
it. `sha256sum --check {SUMS}` checks the files. `{PROVENANCE}` says from which commit and by which tools they
were made. Neither is signed.
"""


def written(document: dict[str, Any]) -> bytes:
    return f"{json.dumps(document, indent=2)}\n".encode()


def files_of(version: str, built: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a release, each with its name, except for those about the others."""
    seconds = int(git(ROOT, "log", "-1", "--format=%ct"))
    for arch in ARCHES:
        yield f"comeback-handler-{version}-{arch}.zip", (built / arch / "bootstrap.zip").read_bytes()
        program = archives.program(ROOT, version, built, arch)
        yield f"comeback-{version}-linux-{arch}.tar.gz", archives.tar(program, seconds)
    (npm,) = (built / "cdk" / "js").glob("*.tgz")
    yield f"comeback-cdk-{version}.tgz", npm.read_bytes()
    for package in (built / "cdk" / "python").iterdir():
        content = package.read_bytes()
        yield package.name, archives.tar_again(content, seconds) if package.name.endswith(".tar.gz") else content
    yield f"comeback-sam-{version}.tar.gz", archives.tar(archives.sam(ROOT, version, built), seconds)
    yield f"comeback-terraform-{version}.tar.gz", archives.tar(archives.terraform(ROOT, version, built), seconds)
    for made in [*(built / "crates").glob("*.crate"), *(built / "cdk").glob("API.md")]:
        yield made.name.replace("API", f"comeback-cdk-{version}-API"), made.read_bytes()
    yield from bills(version)
    yield "RELEASE-NOTES.md", notes(version).encode()


def bills(version: str) -> Iterator[tuple[str, bytes]]:
    """A bill of materials for each program, and for the CDK package with what it deploys."""
    shipped: list[tuple[str, str]] = []
    for arch, rust in ARCHES.items():
        linkages = {
            "comeback-handler": ("retry-handler", f"{rust}-unknown-linux-gnu"),
            "comeback": ("comeback-cli", f"{rust}-unknown-linux-musl"),
        }
        for name, linkage in linkages.items():
            purl = f"pkg:generic/{name}@{version}?arch={arch}"
            yield f"{name}-{version}-{arch}.cdx.json", written(bill(version, name, purl, [linkage]))
        shipped.append(linkages["comeback-handler"])
    cdk = bill(version, "comeback-cdk", f"pkg:npm/comeback-cdk@{version}", shipped)
    yield f"comeback-cdk-{version}.cdx.json", written(cdk)


def notes(version: str) -> str:
    """What the changelog says of the version. A version without a section, and without a tag, is still to come."""
    changelog = (ROOT / "CHANGELOG.md").read_text()
    said = section(changelog, version) or section(changelog, "Unreleased") or ""
    return f"# Comeback {version}\n\n{said}\n{AFTER_NOTES}"


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
            found = faults(ROOT, version)
            for fault in found:
                print(f"scripts/release: {fault}", file=sys.stderr)
            return 1 if found else 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
