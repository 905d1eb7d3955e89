"""Archives that have the same bytes for the same files, and the files of the archives for SAM and Terraform."""

import gzip
import io
import posixpath
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from documents import git
from platforms import Platform

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


def terraform(root: Path, version: str, repository: str, built: Path) -> list[File]:
    """Terraform's module as a repository of its own, as the registry wants it, with the handler's code.

    The code is in it, because Terraform alone can't download a file and check its digest: that needs two providers
    more, and each new runner would plan to download it again.
    """
    folder = f"terraform-aws-comeback-{version}"
    source = "infra/terraform"
    files = []
    for path in git(root, "ls-files", "--", source, "infra/cdk/contract", "infra/example/orders/app.py").splitlines():
        name = path.removeprefix(f"{source}/").removeprefix("infra/cdk/")
        name = name.replace("infra/example", "examples")
        text = (root / path).read_text()
        if path.startswith(f"{source}/"):
            for checked_out, released in {
                "${path.module}/../cdk/contract/": "${path.module}/contract/",
                '"../../../../dist/arm64/bootstrap.zip"': "null",
                "../../../example/orders/app.py": "../orders/app.py",
                "which scripts/package builds.": "if not that of the module.",
                IN_A_CHECKOUT: f'  source  = "{repository.split("/")[-2]}/comeback/aws"\n  version = "{version}"\n',
            }.items():
                text = text.replace(checked_out, released)
            text = with_addresses(text, source, f"{repository}/blob/v{version}") if name.endswith(".md") else text
        files.append(File(f"{folder}/{name}", text.encode()))
    files += [File(f"{folder}/{licence.name}", licence.read_bytes()) for licence in root.glob("LICENSE-*")]
    for arch in ("arm64", "x86_64"):
        files.append(File(f"{folder}/handler/{arch}.zip", (built / arch / "bootstrap.zip").read_bytes()))
    return files


# What the module's README shows, and a user of a release writes otherwise.
IN_A_CHECKOUT = """\
  source      = "./comeback/infra/terraform"      # in a checkout of Comeback
  handler_zip = "./comeback/dist/arm64/bootstrap.zip"
"""


def with_addresses(page: str, folder: str, address: str) -> str:
    """A page of a folder whose relative links lead to an address, because it is shown elsewhere. Pictures as such."""

    def absolute(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        shown = address.replace("/blob/", "/raw/") if path.endswith(".svg") else address
        return f"]({shown}/{path}{link[2] or ''})"

    return re.sub(r"\]\((?![a-z]+:|#)([^)#]+)(#[^)]*)?\)", absolute, page)


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


def program(root: Path, built: Path, platform: Platform) -> list[File]:
    """The program for a platform, with all licences."""
    folder = built / platform.built
    return [
        File("comeback", (folder / "comeback").read_bytes(), PROGRAM),
        File("THIRD-PARTY-NOTICES.txt", (folder / "comeback.notices").read_bytes()),
        *(File(licence.name, licence.read_bytes()) for licence in root.glob("LICENSE-*")),
    ]
