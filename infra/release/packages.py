"""What installs the program: packages for pip and npm that carry its binary, and files that name the archives of a
release with their digests, so that nobody gets other bytes: `install.sh`, Homebrew's formula, and a container's recipe.
"""

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import archives
from archives import PROGRAM, TEXT, File, tar
from platforms import Platform

SUMMARY = "Failed asynchronous Lambda events come back: look at what waits, retry, cancel, redrive, rehearse"
KEYWORDS = ["aws", "lambda", "sqs", "retry", "backoff", "jitter", "dead-letter-queue", "cli"]
HERE = Path(__file__).parent


def programs(
    root: Path, version: str, repository: str, built: Path, platforms: list[Platform], seconds: int
) -> Iterator[tuple[str, bytes]]:
    """All files with which somebody gets the program, each with its name."""
    readme = archives.with_addresses((root / "docs/operate.md").read_text(), "docs", f"{repository}/blob/v{version}")
    digests: dict[Platform, str] = {}
    for platform in platforms:
        files = archives.program(root, built, platform)
        name = archive_of(version, platform)
        inside = [File(f"{name}/{file.name}", file.content, file.mode) for file in files]
        archive = tar(inside, seconds)
        digests[platform] = hashlib.sha256(archive).hexdigest()
        yield f"{name}.tar.gz", archive
        yield wheel(version, repository, readme, platform, files)
        yield f"{npm_of(platform)}-{version}.tgz", npm_binary(version, repository, platform, files, seconds)
    texts = [File(licence.name, licence.read_bytes()) for licence in root.glob("LICENSE-*")]
    texts.append(File("README.md", readme.encode()))
    yield f"comeback-cli-{version}.tgz", npm_main(version, repository, platforms, texts, seconds)
    yield "install.sh", installer(version, repository, digests).encode()
    yield "comeback.rb", formula(version, repository, digests).encode()
    yield "Containerfile", recipe(version, repository).encode()


def archive_of(version: str, platform: Platform) -> str:
    """The name of the program's archive, without its ending; also that of the folder in it."""
    return f"comeback-{version}-{platform.name}"


def pep_440(version: str) -> str:
    """A semantic version as Python's registry writes it. It has no word for other pre-releases."""
    written = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)(?:\.(\d+))?)?", version)
    if not written:
        raise ValueError(f"PyPI has no version like {version}: a pre-release is alpha, beta or rc, such as 1.2.3-rc.1")
    number, kind, count = written.groups()
    return number if kind is None else f"{number}{ {'alpha': 'a', 'beta': 'b', 'rc': 'rc'}[kind] }{count or 0}"


def wheel(version: str, repository: str, readme: str, platform: Platform, files: list[File]) -> tuple[str, bytes]:
    """A wheel whose only script is the program, with its licences. The same files give the same bytes."""
    number = pep_440(version)
    info = f"comeback_cli-{number}.dist-info"
    licences = [file for file in files if file.mode == TEXT]
    metadata = [
        "Metadata-Version: 2.4",
        "Name: comeback-cli",
        f"Version: {number}",
        f"Summary: {SUMMARY}",
        f"Keywords: {','.join(KEYWORDS)}",
        "License-Expression: MIT OR Apache-2.0",
        *(f"License-File: {file.name}" for file in licences),
        "Requires-Python: >=3.8",
        f"Project-URL: Repository, {repository}",
        f"Project-URL: Changelog, {repository}/blob/v{version}/CHANGELOG.md",
        "Description-Content-Type: text/markdown",
        "",
        readme,
    ]
    tags = [f"Tag: py3-none-{tag}" for tag in platform.wheel.split(".")]
    content = [
        *(
            File(f"comeback_cli-{number}.data/scripts/{file.name}", file.content, PROGRAM)
            for file in files
            if file.mode == PROGRAM
        ),
        *(File(f"{info}/licenses/{file.name}", file.content) for file in licences),
        File(f"{info}/METADATA", "\n".join(metadata).encode()),
        File(
            f"{info}/WHEEL",
            "\n".join(["Wheel-Version: 1.0", "Generator: comeback", "Root-Is-Purelib: false", *tags, ""]).encode(),
        ),
    ]
    rows = [f"{file.name},sha256={urlsafe(file.content)},{len(file.content)}\n" for file in content]
    record = File(f"{info}/RECORD", "".join([*rows, f"{info}/RECORD,,\n"]).encode())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in [*content, record]:
            entry = zipfile.ZipInfo(file.name)
            entry.external_attr = (0o100000 | file.mode) << 16
            archive.writestr(entry, file.content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return f"comeback_cli-{number}-py3-none-{platform.wheel}.whl", packed.getvalue()


def urlsafe(content: bytes) -> str:
    """A digest as the list of a wheel's files has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def npm_of(platform: Platform) -> str:
    return f"comeback-cli-{'-'.join(platform.npm)}"


def npm(name: str, version: str, repository: str, more: dict[str, object], files: list[File], seconds: int) -> bytes:
    """A package for npm."""
    said = {
        "name": name,
        "version": version,
        "description": SUMMARY,
        "keywords": KEYWORDS,
        "license": "MIT OR Apache-2.0",
        "repository": {"type": "git", "url": f"git+{repository}.git"},
        "homepage": repository,
        **more,
    }
    manifest = File("package.json", f"{json.dumps(said, indent=2)}\n".encode())
    return tar([File(f"package/{file.name}", file.content, file.mode) for file in [manifest, *files]], seconds)


def npm_binary(version: str, repository: str, platform: Platform, files: list[File], seconds: int) -> bytes:
    """The package with the binary of a platform. npm installs only the one that is for its machine."""
    system, cpu = platform.npm
    return npm(npm_of(platform), version, repository, {"os": [system], "cpu": [cpu]}, files, seconds)


def npm_main(version: str, repository: str, platforms: list[Platform], files: list[File], seconds: int) -> bytes:
    """The package that people name, which starts the binary of their platform's package."""
    more = {
        "bin": {"comeback": "comeback.js"},
        "engines": {"node": ">= 18"},
        "optionalDependencies": {npm_of(platform): version for platform in platforms},
    }
    start = File("comeback.js", (HERE / "comeback.js").read_bytes(), PROGRAM)
    return npm("comeback-cli", version, repository, more, [start, *files], seconds)


def installer(version: str, repository: str, digests: dict[Platform, str]) -> str:
    """The script that a person pipes into a shell. The digests are in it, so it needs no file to check against."""
    cases = [
        f"    {each.uname}) archive={archive_of(version, each)} digest={digest} ;;" for each, digest in digests.items()
    ]
    supported = ", ".join(each.name for each in digests)
    template = (HERE / "install.sh").read_text()
    return filled(
        template,
        VERSION=version,
        REPOSITORY=repository,
        PLATFORMS="\n".join(["The programs of this release.", *cases]),
        SUPPORTED=supported,
    )


def formula(version: str, repository: str, digests: dict[Platform, str]) -> str:
    """Homebrew's, for a repository named homebrew-tap."""
    parts = []
    for system, on in (("macos", "on_macos"), ("linux", "on_linux")):
        of_system = {each: digest for each, digest in digests.items() if each.system == system}
        for platform, digest in of_system.items():
            cpu = "on_arm" if platform.arch == "arm64" else "on_intel"
            url = f"{repository}/releases/download/v{version}/{archive_of(version, platform)}.tar.gz"
            parts.append(f'    {cpu} do\n      url "{url}"\n      sha256 "{digest}"\n    end\n')
        if of_system:
            parts[-len(of_system) :] = [f"  {on} do\n{''.join(parts[-len(of_system) :])}  end\n"]
    template = (HERE / "comeback.rb").read_text()
    return filled(template, VERSION=version, REPOSITORY=repository, SUMMARY=SUMMARY, ARCHIVES="\n".join(parts))


def recipe(version: str, repository: str) -> str:
    """That of a container image, to be built in the folder of a release."""
    return filled((HERE / "Containerfile").read_text(), VERSION=version, REPOSITORY=repository)


def filled(template: str, **values: str) -> str:
    """A template with the value of each `@NAME@`. A name without a value is a mistake."""
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], template)
