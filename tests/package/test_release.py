"""Tests the parts of scripts/release that build nothing. tests/deployment/run-released installs a whole release."""

import functools
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "infra" / "release"))

import archives  # noqa: E402
import documents  # noqa: E402
from archives import File  # noqa: E402
from documents import faults, section  # noqa: E402

CARGO_TOML = """
[workspace.package]
version = "1.2.3"
repository = "https://github.com/someone/comeback"

[workspace.dependencies]
core = { path = "core", version = "1.2.3" }
local = { path = "local" }
other = { version = "7" }
"""
CHANGELOG = """# Changelog

## [Unreleased]

- Soon.

## [1.2.3] - 2026-01-02

### Added

- A thing.

## [1.2.2] - 2026-01-01
"""


class ChecksTest(unittest.TestCase):
    """A checkout of version 1.2.3, in a separate folder for each test."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.git("init", "--quiet")
        self.write("Cargo.toml", CARGO_TOML)
        self.write("CHANGELOG.md", CHANGELOG)
        self.write(".gitignore", "/dist")
        for file in ("package.json", "package-lock.json"):
            repository = {"url": "git+https://github.com/someone/comeback.git"}
            self.write(f"infra/cdk/{file}", json.dumps({"version": "1.2.3", "repository": repository}))
        self.commit()

    def git(self, *arguments: str) -> None:
        author = ["-c", "user.name=test", "-c", "user.email=test"]
        subprocess.run(["git", *author, *arguments], cwd=self.folder, check=True, capture_output=True)

    def write(self, path: str, content: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(content)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "all")

    def test_a_version_must_be_semantic(self) -> None:
        self.assertEqual(faults(self.folder, "1.2.3"), [])
        for version in ("", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+build", "1.2.3\n"):
            expected = f"expected a semantic version such as 1.2.3 or 1.2.3-rc.1, got {version!r}"
            self.assertEqual(faults(self.folder, version), [expected])

    def test_the_script_refuses_before_it_builds_anything(self) -> None:
        for arguments, status, expected in (
            ([], 2, "expected a version"),
            (["1.2.3", "1.2.4"], 2, "expected a version"),
            (["1.2"], 1, "expected a semantic version"),
            (["999.0.0"], 1, "Cargo.toml has version"),
        ):
            done = subprocess.run([ROOT / "scripts/release", *arguments], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (status, ""), arguments)
            self.assertIn(expected, done.stderr)

    def test_every_place_must_have_this_version(self) -> None:
        places = ["Cargo.toml", "core in Cargo.toml", "infra/cdk/package.json", "infra/cdk/package-lock.json"]
        for version in ("1.2.4", "1.2.3-rc.1", "1.3.0-alpha.1.x-y"):
            expected = [f"{place} has version 1.2.3, not {version}" for place in places]
            self.assertEqual(faults(self.folder, version), expected)

    def test_a_changed_and_a_new_file_prevent_a_release(self) -> None:
        for file in ("CHANGELOG.md", "new"):
            self.write(file, CHANGELOG + "More.")
            (fault,) = faults(self.folder, "1.2.3")
            self.assertRegex(fault, rf"^expected a clean checkout(?s:.)*{file}$")
            self.commit()

    def test_a_tag_must_be_the_commit_that_is_released(self) -> None:
        self.git("tag", "v1.2.3")
        self.assertEqual(faults(self.folder, "1.2.3"), [])
        self.git("commit", "--quiet", "--allow-empty", "--message", "later")
        self.assertEqual(
            faults(self.folder, "1.2.3"), ["the tag v1.2.3 exists, and is not the commit that is checked out"]
        )

    def test_the_changelog_must_have_a_section_when_there_is_a_tag(self) -> None:
        self.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")
        self.commit()
        self.assertEqual(faults(self.folder, "1.2.3"), [])
        self.git("tag", "--annotate", "v1.2.3", "--message", "1.2.3")
        self.assertEqual(faults(self.folder, "1.2.3"), ["CHANGELOG.md has no section [1.2.3]"])

    def test_the_address_of_the_repository_must_be_set_before_a_tag_and_be_one_everywhere(self) -> None:
        # Not in one piece, or it would be set here, too.
        address, nobodys = (f"https://github.com/{owner}/comeback" for owner in ("someone", "OWNER"))
        self.assertEqual(faults(self.folder, "1.2.3", address), [])
        (fault,) = faults(self.folder, "1.2.3", "https://github.com/fork/comeback")
        self.assertEqual(
            fault, f"Cargo.toml has the repository {address}, but this is https://github.com/fork/comeback"
        )
        self.write("README.md", f"git clone {address}; brew install someone/tap/comeback; gh --repo someone/comeback")
        self.git("add", "README.md")
        changed = documents.set_repository(self.folder, nobodys)
        self.assertCountEqual(
            changed, ["Cargo.toml", "README.md", "infra/cdk/package.json", "infra/cdk/package-lock.json"]
        )
        self.commit()
        self.assertEqual(faults(self.folder, "1.2.3"), [])
        self.git("tag", "v1.2.3")
        (fault,) = faults(self.folder, "1.2.3")
        self.assertEqual(
            fault, f"Cargo.toml has no repository, but {nobodys}: python3 infra/release repository URL sets it"
        )
        nobody = nobodys.split("/")[3]
        page = f"git clone {nobodys}; brew install {nobody}/tap/comeback; gh --repo {nobody}/comeback"
        self.assertEqual((self.folder / "README.md").read_text(), page)
        self.git("tag", "--delete", "v1.2.3")
        self.write(
            "infra/cdk/package.json", (self.folder / "infra/cdk/package.json").read_text().replace("OWNER", "me")
        )
        self.commit()
        self.assertEqual(
            faults(self.folder, "1.2.3"),
            [f"infra/cdk/package.json has the repository https://github.com/me/comeback, not {nobodys}"],
        )
        for wrong in ("comeback", "http://github.com/someone/comeback", f"{address}.git", f"{address}/"):
            with self.assertRaisesRegex(ValueError, "expected an address like"):
                documents.set_repository(self.folder, wrong)

    def test_a_release_is_not_made_over_another(self) -> None:
        (self.folder / "dist/release/1.2.3").mkdir(parents=True)
        self.assertEqual(faults(self.folder, "1.2.3"), ["dist/release/1.2.3 exists; remove it to make it again"])

    def test_notes_are_the_section_of_the_version(self) -> None:
        self.assertEqual(section(CHANGELOG, "1.2.3"), "### Added\n\n- A thing.")
        self.assertEqual(section(CHANGELOG, "Unreleased"), "- Soon.")
        self.assertEqual(section(CHANGELOG, "1.2.2"), "")
        self.assertIsNone(section(CHANGELOG, "1.2"))


class ArchivesTest(unittest.TestCase):
    FILES = [File("b/text", b"text"), File("a/program", b"\x7fELF", archives.PROGRAM)]

    def test_order_does_not_change_an_archive_and_every_file_is_in_it(self) -> None:
        packed = archives.tar(self.FILES, 1_000_000_000)
        self.assertEqual(packed, archives.tar(self.FILES[::-1], 1_000_000_000))
        with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
            found = {(each.name, opened.extractfile(each).read(), each.mode, each.mtime) for each in opened}
        expected = {(file.name, file.content, file.mode, 1_000_000_000) for file in self.FILES}
        self.assertEqual(found, expected)

    def test_an_archive_of_another_tool_loses_its_times_modes_and_order(self) -> None:
        def packed_elsewhere(names: list[str], seconds: int, mode: int) -> bytes:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w:gz") as archive:
                for name in names:
                    entry = tarfile.TarInfo(name)
                    entry.size, entry.mtime, entry.mode, entry.uname = len(name), seconds, mode, f"user{seconds}"
                    archive.addfile(entry, io.BytesIO(name.encode()))
            return packed.getvalue()

        one, other = packed_elsewhere(["a", "b"], 1, 0o600), packed_elsewhere(["b", "a"], 2, 0o664)
        self.assertNotEqual(one, other)
        self.assertEqual(archives.tar_again(one, 3), archives.tar_again(other, 3))

    def test_templates_of_sam_have_metadata_whose_files_are_in_the_archive(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            built = Path(folder)
            (built / "arm64").mkdir()
            (built / "arm64/bootstrap.zip").write_bytes(b"zip")
            files = {file.name: file.content for file in archives.sam(ROOT, "1.2.3", built)}
        top = "comeback-sam-1.2.3"
        self.assertEqual(files[f"{top}/dist/arm64/bootstrap.zip"], b"zip")
        self.assertLessEqual({f"{top}/LICENSE-APACHE", f"{top}/infra/sam/README.md"}, set(files))
        for template in archives.APPLICATIONS:
            text = files[f"{top}/infra/sam/{template}"].decode()
            self.assertEqual(text.count("\nMetadata:\n"), 1)
            self.assertIn("LicenseUrl: ../../LICENSE-APACHE\n    ReadmeUrl: README.md\n", text)
            self.assertIn("SemanticVersion: 1.2.3\n", text)
        self.assertNotIn(b"ServerlessRepo", files[f"{top}/infra/sam/example/template.yaml"])


class DocumentsTest(unittest.TestCase):
    def test_a_bill_has_every_linked_crate_with_its_checksum_and_licence(self) -> None:
        linkage = ("retry-handler", "aarch64-unknown-linux-gnu")
        bill = documents.bill("1.2.3", "comeback-handler", "pkg:generic/comeback-handler@1.2.3", [linkage])
        refs = [each["bom-ref"] for each in bill["components"]]
        self.assertEqual(refs, sorted(set(refs)))
        linked = {f"pkg:cargo/{crate['name']}@{crate['version']}" for crate in documents.linked(*linkage)}
        self.assertEqual(set(refs), linked)
        self.assertTrue(any(ref.startswith("pkg:cargo/serde_json@") for ref in refs))
        for each in bill["components"]:
            self.assertRegex(each["hashes"][0]["content"], r"^[0-9a-f]{64}$")
            self.assertNotIn("/", each["licenses"][0]["expression"])

    def test_the_provenance_names_commit_tools_and_files(self) -> None:
        said = documents.statement(ROOT, "1.2.3", {"b": "2" * 64, "a": "1" * 64})
        self.assertEqual([each["name"] for each in said["subject"]], ["a", "b"])
        definition = said["predicate"]["buildDefinition"]
        checkout, lock, *_ = definition["resolvedDependencies"]
        self.assertRegex(checkout["digest"]["gitCommit"], r"^[0-9a-f]{40}$")
        digest = hashlib.sha256((ROOT / "Cargo.lock").read_bytes()).hexdigest()
        self.assertEqual(lock, {"name": "Cargo.lock", "digest": {"sha256": digest}})
        self.assertIn("rustc", definition["internalParameters"]["tools"])

    def test_a_release_that_can_not_be_completed_leaves_nothing(self) -> None:
        # The program is missing, or a signal comes while it is read.
        for number in (None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number), tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                for arch in ("arm64", "x86_64"):
                    (folder / "built" / arch).mkdir(parents=True)
                    (folder / "built" / arch / "bootstrap.zip").write_bytes(b"zip")
                program = folder / "built/x86_64/comeback"
                if number:
                    os.mkfifo(program)
                assemble = [sys.executable, ROOT / "infra/release", "assemble", "1.2.3"]
                command = [*assemble, folder / "built", folder / "release/1.2.3"]
                # Shells start background jobs with SIGINT ignored, and their children inherit that.
                listen = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
                process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=listen)
                if number:
                    # This blocks until the process reads the program. By then it has written the handlers.
                    with program.open("wb"):
                        self.assertEqual(len(list((folder / "release").glob(".1.2.3-*/*"))), 2)
                        process.send_signal(number)
                        process.wait()
                _, said = process.communicate()
                self.assertNotEqual(process.returncode, 0)
                self.assertTrue(number or str(program) in said)
                self.assertEqual(list((folder / "release").iterdir()), [])
