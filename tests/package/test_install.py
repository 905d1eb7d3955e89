"""Tests every way to get the program of a release: `install.sh` from a file server on this machine, wheels, packages
for npm, Homebrew's formula, what `cargo binstall` reads, and the recipe of an image. The programs are stand-ins.
"""

import base64
import csv
import functools
import hashlib
import http.server
import io
import json
import platform as machine
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import tomllib
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "infra" / "release"))

import archives  # noqa: E402
import packages  # noqa: E402
from platforms import PLATFORMS  # noqa: E402

VERSION, REPOSITORY = "1.2.3", "https://github.com/someone/comeback"
# What install.sh uses besides what downloads and what makes digests.
TOOLS = ["chmod", "cp", "cut", "gzip", "mkdir", "mktemp", "mv", "rm", "sh", "tar"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


def extracted(content: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")


class ReleasedTest(unittest.TestCase):
    """The files of a release, made once."""

    files: dict[str, bytes]

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as folder:
            built = Path(folder)
            for platform in PLATFORMS:
                (built / platform.built).mkdir()
                said = f'#!/bin/sh\necho "comeback {VERSION} for {platform.name}: $*"\nexit 7\n'
                (built / platform.built / "comeback").write_text(said)
                (built / platform.built / "comeback.notices").write_text("notices")
            made = packages.programs(ROOT, VERSION, REPOSITORY, built, PLATFORMS, 1_000_000_000)
            cls.files = dict(made)
            again = packages.programs(ROOT, VERSION, REPOSITORY, built, PLATFORMS, 1_000_000_000)
            assert cls.files == dict(again)

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))


class InstallerTest(ReleasedTest):
    def setUp(self) -> None:
        super().setUp()
        self.served = self.folder / "served"
        self.served.mkdir()
        for name, content in self.files.items():
            (self.served / name).write_bytes(content)
        handler = functools.partial(Quiet, directory=self.served)
        server = self.enterContext(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.address = f"http://127.0.0.1:{server.server_port}"
        self.tools = self.folder / "tools"
        self.tools.mkdir()
        for tool in TOOLS:
            (self.tools / tool).symlink_to(shutil.which(tool) or tool)

    def tool(self, name: str, body: str) -> None:
        """Adds a stand-in, in place of an earlier one."""
        (self.tools / name).unlink(missing_ok=True)
        (self.tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.tools / name).chmod(0o755)

    def on(self, system: str, arch: str, *more: str) -> None:
        """Makes this another machine, which has these programs of this one, too."""
        self.tool("uname", f'[ "$1" = -s ] && echo {system} || echo {arch}')
        for name in more:
            (self.tools / name).unlink(missing_ok=True)
            (self.tools / name).symlink_to(shutil.which(name) or name)

    def install(self, *arguments: str, script: bytes | None = None) -> subprocess.CompletedProcess[str]:
        """Pipes install.sh into a shell. The stand-in of the program ends with 7, which must not matter."""
        return subprocess.run(
            [self.tools / "sh", "-s", "--", *arguments],
            input=(script or self.files["install.sh"]).decode(),
            env={"PATH": str(self.tools), "HOME": str(self.folder)},
            capture_output=True,
            text=True,
        )

    def said_by(self, program: Path) -> str:
        return subprocess.run([program, "status"], capture_output=True, text=True).stdout.strip()

    def test_each_platform_gets_its_program_with_either_tool(self) -> None:
        found = [each for each in ("curl", "wget") if shutil.which(each)]
        self.assertTrue(found)
        for downloads in found:
            for system, arch, name in (
                ("Linux", "x86_64", "linux-x86_64"),
                ("Linux", "aarch64", "linux-arm64"),
                ("Darwin", "arm64", "macos-arm64"),
                ("Darwin", "x86_64", "macos-x86_64"),
            ):
                with self.subTest(downloads=downloads, name=name):
                    self.on(system, arch, downloads, "sha256sum")
                    done = self.install("--from", self.address)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    program = self.folder / ".local/bin/comeback"
                    self.assertEqual(self.said_by(program), f"comeback {VERSION} for {name}: status")
                    self.assertIn(f'export PATH="{program.parent}', done.stdout)
                    self.assertEqual([each.name for each in program.parent.iterdir()], ["comeback"])
            (self.tools / downloads).unlink()

    def test_it_takes_a_folder_of_your_choice_and_the_digests_of_a_mac(self) -> None:
        self.on("Linux", "x86_64", "curl")
        self.tool("shasum", f'shift 2\nexec {shutil.which("sha256sum")} "$@"')
        target = self.folder / "a folder"
        done = self.install("--to", str(target), "--from", f"file://{self.served}/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.said_by(target / "comeback"), f"comeback {VERSION} for linux-x86_64: status")

    def test_an_archive_with_another_digest_is_refused(self) -> None:
        self.on("Linux", "x86_64", "curl", "sha256sum")
        archive = self.served / f"comeback-{VERSION}-linux-x86_64.tar.gz"
        archive.write_bytes(self.files[f"comeback-{VERSION}-linux-arm64.tar.gz"])
        done = self.install("--from", self.address)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"has the digest [0-9a-f]{64}, expected [0-9a-f]{64}: nothing was installed")
        self.assertFalse((self.folder / ".local").exists())

    def test_what_prevents_an_installation_is_named(self) -> None:
        for system, arch, more, arguments, expected in (
            ("FreeBSD", "amd64", ["curl", "sha256sum"], [], "no program for FreeBSD on amd64, only for linux-x86_64,"),
            ("Linux", "riscv64", ["curl", "sha256sum"], [], "no program for Linux on riscv64"),
            ("Linux", "x86_64", ["sha256sum"], [], "expected curl or wget"),
            ("Linux", "x86_64", ["curl"], [], "expected sha256sum or shasum"),
            ("Linux", "x86_64", ["curl", "sha256sum"], ["--from", f"{self.address}/none"], "could not be downloaded"),
            ("Linux", "x86_64", [], ["--to"], "expected a value after --to"),
            ("Linux", "x86_64", [], ["--force", "1"], "expected --to DIR or --from URL, got --force"),
        ):
            with self.subTest(expected):
                for tool in ("curl", "sha256sum"):
                    (self.tools / tool).unlink(missing_ok=True)
                self.on(system, arch, *more)
                done = self.install(*(arguments or ["--from", self.address]))
                self.assertEqual(done.returncode, 1)
                self.assertIn(expected, done.stderr)
                self.assertFalse((self.folder / ".local").exists())

    def test_half_a_script_does_nothing(self) -> None:
        self.on("Linux", "x86_64", "curl", "sha256sum")
        script = self.files["install.sh"]
        for length in range(0, len(script) - len('main "$@"\n'), 97):
            self.install("--from", self.address, script=script[:length] or b"\n")
            self.assertFalse((self.folder / ".local").exists(), length)

    def test_it_names_the_release_it_is_of(self) -> None:
        text = self.files["install.sh"].decode()
        self.assertIn(f"from={REPOSITORY}/releases/download/v{VERSION}\n", text)
        self.assertNotRegex(text, r"@[A-Z]+@")


class WheelTest(ReleasedTest):
    def wheels(self) -> dict[str, zipfile.ZipFile]:
        return {
            name: zipfile.ZipFile(io.BytesIO(content)) for name, content in self.files.items() if name.endswith(".whl")
        }

    def test_each_lists_its_files_with_their_digests(self) -> None:
        self.assertEqual(len(self.wheels()), len(PLATFORMS))
        for name, opened in self.wheels().items():
            record = f"comeback_cli-{VERSION}.dist-info/RECORD"
            rows = {path: digest for path, digest, _ in csv.reader(opened.read(record).decode().splitlines())}
            self.assertEqual(set(rows), set(opened.namelist()), name)
            for path in set(rows) - {record}:
                digest = base64.urlsafe_b64encode(hashlib.sha256(opened.read(path)).digest()).decode().rstrip("=")
                self.assertEqual(rows[path], f"sha256={digest}", path)

    def test_that_of_this_machine_installs_the_program(self) -> None:
        arch = {"arm64": "aarch64"}.get(machine.machine(), machine.machine())
        (name,) = (name for name in self.wheels() if "linux" in name and arch in name)
        (self.folder / name).write_bytes(self.files[name])
        uv = subprocess.run([ROOT / "scripts/uv"], check=True, capture_output=True, text=True).stdout.strip()
        install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--target", "here", name]
        subprocess.run([*install, "--python", sys.executable], cwd=self.folder, check=True)
        done = subprocess.run([self.folder / "here/bin/comeback", "doctor"], capture_output=True, text=True)
        self.assertRegex(done.stdout, rf"^comeback {VERSION} for linux-\w+: doctor$")

    def test_a_pre_release_has_pythons_name(self) -> None:
        for semantic, pythons in (("1.2.3", "1.2.3"), ("1.2.3-rc.1", "1.2.3rc1"), ("1.2.3-alpha", "1.2.3a0")):
            self.assertEqual(packages.pep_440(semantic), pythons)
        with self.assertRaisesRegex(ValueError, "PyPI has no version like 1.2.3-nightly"):
            packages.pep_440("1.2.3-nightly")


class NpmTest(ReleasedTest):
    def package(self, name: str) -> Path:
        """Puts a package where npm puts it."""
        folder = self.folder / "node_modules" / name
        extracted(self.files[f"{name}-{VERSION}.tgz"], self.folder / "unpacked" / name)
        folder.parent.mkdir(exist_ok=True)
        shutil.copytree(self.folder / "unpacked" / name / "package", folder)
        return folder

    def test_the_package_starts_the_program_of_its_platform_and_ends_as_it(self) -> None:
        main = self.package("comeback-cli")
        said = json.loads((main / "package.json").read_text())
        self.assertEqual(said["optionalDependencies"], {packages.npm_of(each): VERSION for each in PLATFORMS})
        self.assertEqual(said["repository"]["url"], f"git+{REPOSITORY}.git")
        start = ["node", main / said["bin"]["comeback"], "status", "a b"]
        lacking = subprocess.run(start, capture_output=True, text=True)
        self.assertEqual(lacking.returncode, 1)
        self.assertRegex(lacking.stderr, r"the package comeback-cli-linux-\w+ was not installed")
        for platform in PLATFORMS:
            if platform.system == "linux":
                self.package(packages.npm_of(platform))
        done = subprocess.run(start, capture_output=True, text=True)
        self.assertRegex(done.stdout, rf"^comeback {VERSION} for linux-\w+: status a b$")
        self.assertEqual(done.returncode, 7)

    def test_npm_installs_each_binary_only_on_its_platform(self) -> None:
        for platform in PLATFORMS:
            said = json.loads((self.package(packages.npm_of(platform)) / "package.json").read_text())
            self.assertEqual((said["os"], said["cpu"]), ([platform.npm[0]], [platform.npm[1]]))


class OthersTest(ReleasedTest):
    def test_the_formula_has_the_address_and_the_digest_of_each_archive(self) -> None:
        formula = self.files["comeback.rb"].decode()
        found = dict(re.findall(r'url "([^"]+)"\n *sha256 "([0-9a-f]{64})"', formula))
        archives_of = {packages.archive_of(VERSION, each) + ".tar.gz" for each in PLATFORMS}
        expected = {
            f"{REPOSITORY}/releases/download/v{VERSION}/{name}": hashlib.sha256(self.files[name]).hexdigest()
            for name in archives_of
        }
        self.assertEqual(found, expected)
        self.assertEqual(formula.count(" do\n"), formula.count("  end\n") - formula.count("def "))
        self.assertNotRegex(formula, r"@[A-Z]+@")

    def test_cargo_binstall_finds_the_archive_and_the_program_in_it(self) -> None:
        cli = tomllib.loads((ROOT / "scripts/comeback/Cargo.toml").read_text())["package"]["metadata"]["binstall"]
        self.assertEqual(set(cli["overrides"]), {each.triple for each in PLATFORMS})
        for platform in PLATFORMS:
            its = cli["overrides"][platform.triple]

            def filled(template: str) -> str:
                values = {"repo": REPOSITORY, "version": VERSION, "bin": "comeback"}
                return re.sub(r"\{ (\w+) \}", lambda found: values[found[1]], template)

            address, name = filled(its["pkg-url"]).rsplit("/", 1)
            self.assertEqual(address, f"{REPOSITORY}/releases/download/v{VERSION}")
            with tarfile.open(fileobj=io.BytesIO(self.files[name])) as archive:
                program = archive.extractfile(filled(its["bin-dir"]))
                assert program is not None
                self.assertIn(platform.name.encode(), program.read())

    def test_the_recipe_of_the_image_takes_the_archives_for_linux(self) -> None:
        recipe = self.files["Containerfile"].decode()
        (pattern,) = re.findall(r"^COPY (comeback-\S+) /release/$", recipe, re.MULTILINE)
        taken = {name for name in self.files if Path(name).match(pattern)}
        self.assertEqual(taken, {f"comeback-{VERSION}-linux-{arch}.tar.gz" for arch in ("arm64", "x86_64")})
        self.assertNotRegex(recipe, r"@[A-Z]+@")


class TerraformTest(unittest.TestCase):
    """tests/deployment/test_terraform.py plans it."""

    def setUp(self) -> None:
        built = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for arch in ("arm64", "x86_64"):
            (built / arch).mkdir()
            (built / arch / "bootstrap.zip").write_bytes(arch.encode())
        self.top = f"terraform-aws-comeback-{VERSION}"
        made = archives.terraform(ROOT, VERSION, REPOSITORY, built)
        self.files = {file.name.removeprefix(f"{self.top}/"): file.content for file in made}

    def test_the_module_is_a_repository_of_its_own_with_all_that_it_reads(self) -> None:
        self.assertLessEqual({"README.md", "variables.tf", "handler.tf", "LICENSE-APACHE"}, set(self.files))
        self.assertEqual(self.files["handler/arm64.zip"], b"arm64")
        texts = {name: content.decode() for name, content in self.files.items() if name.endswith((".tf", ".md"))}
        read = {path for text in texts.values() for path in re.findall(r"\$\{path\.module\}/(contract/[\w.]+)", text)}
        self.assertGreater(len(read), 3)
        self.assertLessEqual(read, set(self.files))
        for name, text in texts.items():
            self.assertNotIn("../cdk", text, name)
            self.assertNotIn("dist/arm64", text, name)
        self.assertIn("examples/orders/app.py", self.files)

    def test_its_page_names_the_registry_and_leads_to_the_pages_of_this_version(self) -> None:
        page = self.files["README.md"].decode()
        self.assertIn('  source  = "someone/comeback/aws"\n  version = "1.2.3"\n', page)
        for link in re.findall(r"\]\(([^)#]+)", page):
            path = link.removeprefix(f"{REPOSITORY}/blob/v{VERSION}/")
            self.assertTrue(link.startswith("http") and (ROOT / path).exists(), link)


if __name__ == "__main__":
    unittest.main()
