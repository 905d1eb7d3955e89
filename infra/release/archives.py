"""Archives that have the same bytes for the same files, and the files of the archives for SAM and Terraform."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from documents import git

TEXT, PROGRAM = 0o644, 0o755


@dataclass(frozen=True, order=True)
class File:
    name: str
    content: bytes
    mode: int = TEXT


def tar(files: list[File], seconds: int) -> bytes:
    """A compressed archive of files, which were all changed at this time."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in sorted(files):
            entry = tarfile.TarInfo(file.name)
            entry.size, entry.mode, entry.mtime = len(file.content), file.mode, seconds
            archive.addfile(entry, io.BytesIO(file.content))
    return packed.getvalue()


def tar_again(archive: bytes, seconds: int) -> bytes:
    """An archive whose times, order and modes depended on the machine, without that."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        entries = [(entry, opened.extractfile(entry)) for entry in opened if entry.isfile()]
        files = [
            File(entry.name, content.read(), PROGRAM if entry.mode & 0o100 else TEXT)
            for entry, content in entries
            if content
        ]
    return tar(files, seconds)


# The metadata that the Serverless Application Repository needs. The repository knows identifiers of single licences
# only, and of our two each may be chosen.
METADATA = """
Metadata:
  AWS::ServerlessRepo::Application:
    Name: {name}
    Description: {description}
    Author: comeback
    SpdxLicenseId: Apache-2.0
    LicenseUrl: ../../LICENSE-APACHE
    ReadmeUrl: README.md
    Labels: [lambda, sqs, retry, backoff]
    SemanticVersion: {version}
"""
APPLICATIONS = {
    "template.yaml": (
        "comeback",
        "Failed asynchronous Lambda events come back until they succeed or are dead-lettered.",
    ),
    "target-alarms.yaml": ("comeback-target-alarms", "Alarms of one function whose failed events come back."),
}


def sam(root: Path, version: str, built: Path) -> list[File]:
    """SAM's application and its example, with the handler's code. Nothing is left to be built."""
    files = checkout(root, f"comeback-sam-{version}", built, ["arm64"], "infra/sam", "infra/example")
    return [with_metadata(file, version) for file in files]


def with_metadata(file: File, version: str) -> File:
    """A template with the metadata of its application. Other files stay as they are."""
    folder, _, name = file.name.rpartition("/")
    if name not in APPLICATIONS or not folder.endswith("/infra/sam"):
        return file
    name, description = APPLICATIONS[name]
    metadata = METADATA.format(name=name, description=description, version=version)
    return File(file.name, file.content + metadata.encode(), file.mode)


def terraform(root: Path, version: str, built: Path) -> list[File]:
    """Terraform's module and its examples, with the handler's code."""
    arches = ["arm64", "x86_64"]
    # The module reads the contract.
    folders = ("infra/terraform", "infra/cdk/contract", "infra/example")
    return list(checkout(root, f"comeback-terraform-{version}", built, arches, *folders))


def checkout(root: Path, folder: str, built: Path, arches: list[str], *parts: str) -> Iterator[File]:
    """Parts of the checkout after `scripts/package`, with all pages.

    They have the paths of a checkout, so what their pages say about files holds.
    """
    for line in git(root, "ls-files", "--stage", "--", *parts, "*.md", "LICENSE-*").splitlines():
        mode, path = line.split()[0], line.split("\t", 1)[1]
        # Links are only in the folders of crates.
        if mode != "120000":
            yield File(f"{folder}/{path}", (root / path).read_bytes(), int(mode[-3:], 8))
    for arch in arches:
        yield File(f"{folder}/dist/{arch}/bootstrap.zip", (built / arch / "bootstrap.zip").read_bytes())


def program(root: Path, version: str, built: Path, arch: str) -> list[File]:
    folder = f"comeback-{version}-linux-{arch}"
    return [
        File(f"{folder}/comeback", (built / arch / "comeback").read_bytes(), PROGRAM),
        File(f"{folder}/THIRD-PARTY-NOTICES.txt", (built / arch / "comeback.notices").read_bytes()),
        *(File(f"{folder}/{licence.name}", licence.read_bytes()) for licence in root.glob("LICENSE-*")),
    ]
