"""Tests scripts. Every script prints its usage for --help, and refuses unknown options. In both cases it does nothing
else. scripts/notices lists the linked crates, with the texts of their licences, and scripts/pack makes zips.
scripts/needs installs what is missing. The demo and the local cloud are built with the right features, and started.
"""

import hashlib
import json
import os
import pty
import random
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTICES = ROOT / "scripts" / "notices"
GNU, MUSL = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-musl"

# The crates that the program can use, each with additional lines of its manifest and its files.
CRATES: dict[str, tuple[str, dict[str, str]]] = {
    "own-text": (
        'license = "MIT"\n[dependencies]\ndeep = "1"',
        {"LICENSE-MIT": "MIT, by  Ann\n", "NOTICE": "Thank Ann."},
    ),
    "same-text": ('license = "MIT"', {"COPYING": "MIT,\nby Ann", "src/license.rs": "", "tests/LICENSE": "of a test"}),
    "deep": ('license-file = "terms.txt"', {"terms.txt": "Terms of deep.", "c/LICENSE": "C, by Cid"}),
    "textless": ('license = "MIT OR Apache-2.0"', {}),
    "macros": ('license = "MIT"\n[lib]\nproc-macro = true', {"LICENSE": "of macros"}),
    "built-with": ('license = "MIT"', {"LICENSE": "of a build script"}),
    "tested-with": ('license = "MIT"', {"LICENSE": "of tests"}),
    "elsewhere": ('license = "MIT"', {"LICENSE": "of another system"}),
    "proprietary": ('license = "LicenseRef-Secret"', {}),
}
PROGRAM = """
[package]
name = "program"
version = "1.0.0"
edition = "2021"

[features]
secret = ["dep:proprietary"]

[dependencies]
own-text = "1"
same-text = "1"
textless = "1"
macros = "1"
proprietary = { version = "1", optional = true }

[build-dependencies]
built-with = "1"

[dev-dependencies]
tested-with = "1"

[target.'cfg(windows)'.dependencies]
elsewhere = "1"
"""


class NoticesTest(unittest.TestCase):
    """A program with local crates, in a separate folder for each test."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.write("src/main.rs", "fn main() {}")
        self.write(
            ".cargo/config.toml", '[source.crates-io]\nreplace-with = "here"\n[source.here]\ndirectory = "crates"\n'
        )
        for name, (manifest, files) in CRATES.items():
            head = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n'
            self.write(f"crates/{name}/Cargo.toml", head + manifest)
            self.write(f"crates/{name}/.cargo-checksum.json", json.dumps({"files": {}}))
            for path, content in {"src/lib.rs": "", **files}.items():
                self.write(f"crates/{name}/{path}", content)

    def write(self, path: str, content: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(content)

    def notices(self, triple: str = GNU, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
        self.write("Cargo.toml", program)
        subprocess.run(["cargo", "generate-lockfile", "--offline"], cwd=self.folder, check=True, capture_output=True)
        return subprocess.run([NOTICES, "program", triple, "notices"], cwd=self.folder, capture_output=True, text=True)

    def written(self, triple: str = GNU) -> list[str]:
        done = self.notices(triple)
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / "notices").read_text().split(f"\n\n{'=' * 80}\n\n")

    def test_exactly_the_linked_crates_are_listed_and_each_text_is_there_once(self) -> None:
        listed, *parts = self.written()
        apache = (ROOT / "LICENSE-APACHE").read_text().strip()
        self.assertEqual(
            listed.splitlines()[2:],
            [
                "deep 1.0.0: see below",
                "own-text 1.0.0: MIT",
                "same-text 1.0.0: MIT",
                "textless 1.0.0: MIT OR Apache-2.0",
                "the Rust standard library: MIT OR Apache-2.0",
            ],
        )
        self.assertCountEqual(
            [part.strip() for part in parts],
            [
                f"the Rust standard library, textless 1.0.0:\n\n{apache}",
                "deep 1.0.0:\n\nC, by Cid",
                "deep 1.0.0:\n\nTerms of deep.",
                "own-text 1.0.0, same-text 1.0.0:\n\nMIT, by  Ann",
                "own-text 1.0.0:\n\nThank Ann.",
            ],
        )
        # Whatever the location of the crates.
        self.setUp()
        self.assertEqual(self.written(), [listed, *parts])

    def test_a_program_linked_with_musl_lists_musl(self) -> None:
        listed, *parts = self.written(MUSL)
        self.assertIn("musl: MIT", listed)
        (musl,) = (part for part in parts if part.startswith("musl:"))
        self.assertIn("Rich Felker", musl)
        self.assertIn("Permission is hereby granted, free of charge", musl)
        self.assertNotIn("The Comeback authors", musl)

    def test_a_licence_without_a_text_is_refused(self) -> None:
        refused = self.notices(program=PROGRAM.replace("[features]", '[features]\ndefault = ["secret"]'))
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(
            refused.stderr, "proprietary 1.0.0 has no file with its licence, which is 'LicenseRef-Secret'\n"
        )


class PackTest(unittest.TestCase):
    """A program and its licence notices, in a separate folder for each test."""

    # Random bytes, which a zip can't compress.
    PROGRAM = random.Random(1).randbytes(100_000)

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, content in (("program", self.PROGRAM), ("notices", b"MIT")):
            (self.folder / name).write_bytes(content)
            (self.folder / name).chmod(0o600)

    def pack(self, name: str, mebibytes_max: str = "1", program: str = "program") -> subprocess.CompletedProcess[str]:
        files = [f"bin/program={self.folder / program}", f"NOTICES.txt={self.folder / 'notices'}"]
        command = [ROOT / "scripts/pack", self.folder / name, mebibytes_max, *files]
        return subprocess.run(command, capture_output=True, text=True)

    def test_everybody_may_run_the_program_and_read_the_notices(self) -> None:
        packed = self.pack("new/folder/a.zip")
        self.assertEqual(packed.returncode, 0)
        with zipfile.ZipFile(self.folder / "new/folder/a.zip") as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
            self.assertEqual(contents, {"bin/program": self.PROGRAM, "NOTICES.txt": b"MIT"})
            modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
            self.assertEqual(modes, {"NOTICES.txt": 0o100644, "bin/program": 0o100755})
            # Unpackers ignore the mode unless the entry comes from Unix.
            self.assertEqual({entry.create_system for entry in archive.infolist()}, {3})
        # The printed size and hash are those of the zip.
        written = (self.folder / "new/folder/a.zip").read_bytes()
        self.assertIn(f"a.zip: {len(written):,} bytes, 0.10 MiB", packed.stdout)
        self.assertIn(hashlib.sha256(written).hexdigest(), packed.stdout)

    def test_times_and_modes_do_not_change_the_zip(self) -> None:
        self.pack("first.zip")
        os.utime(self.folder / "program", (1_000_000_000, 1_000_000_000))
        (self.folder / "program").chmod(0o755)
        self.pack("second.zip")
        first, second = ((self.folder / name).read_bytes() for name in ("first.zip", "second.zip"))
        self.assertEqual(first, second)

    def test_a_zip_over_its_limit_is_deleted(self) -> None:
        self.pack("a.zip")
        refused = self.pack("a.zip", mebibytes_max="0.09")
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(
            refused.stderr, r"^\S*/a\.zip: 100,\d{3} bytes, 0\.10 MiB, more than the limit of 0\.09 MiB\n$"
        )
        self.assertFalse((self.folder / "a.zip").exists())

    def test_a_missing_program_is_named(self) -> None:
        refused = self.pack("a.zip", program="other")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"{self.folder}/other", refused.stderr)
        self.assertFalse((self.folder / "a.zip").exists())


# Tools that build, install or deploy. A script that runs one of them does more than print its usage.
TOOLS = ["apt-get", "aws", "cargo", "npm", "node", "pip", "python", "rustc", "rustup", "sudo"]


def scripts() -> list[str]:
    """The names of the tracked executables in scripts/."""
    listed = subprocess.run(
        ["git", "ls-files", "--stage", "scripts"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    entries = (line.split(maxsplit=3) for line in listed.splitlines())
    return [Path(path).name for mode, _, _, path in entries if mode == "100755"]


class UsageTest(unittest.TestCase):
    """Each script runs in a copy of scripts/ without the rest of the repository, so it has nothing to build."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        shutil.copytree(ROOT / "scripts", self.folder / "scripts", ignore=shutil.ignore_patterns("comeback"))
        for licence in ROOT.glob("LICENSE-*"):
            shutil.copy(licence, self.folder)
        tools = self.folder / "tools"
        tools.mkdir()
        for tool in TOOLS:
            (tools / tool).write_text(f'#!/bin/sh\necho {tool} >>"{self.folder}/started"\nexit 97\n')
            (tools / tool).chmod(0o755)

    def run_script(self, name: str, argument: str) -> subprocess.CompletedProcess[str]:
        """Runs a script by its absolute path from another folder. Fails if it creates a file or runs a tool."""
        before = set(self.folder.rglob("*"))
        environment = {"HOME": str(self.folder), "PATH": f"{self.folder}/tools:{os.environ['PATH']}"}
        answer = subprocess.run(
            [self.folder / "scripts" / name, argument],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        self.assertEqual(set(self.folder.rglob("*")), before, "it made or started something")
        return answer

    def test_help_is_printed_and_an_unknown_option_refused_and_nothing_else_is_done(self) -> None:
        for name in scripts():
            for argument, status in (("--help", 0), ("-h", 0), ("--no-such-option", 2)):
                with self.subTest(script=name, argument=argument):
                    answer = self.run_script(name, argument)
                    usage, silent = (answer.stderr, answer.stdout) if status else (answer.stdout, answer.stderr)
                    self.assertEqual((answer.returncode, silent), (status, ""))
                    self.assertIn(f"scripts/{name}", usage)

    def test_an_option_is_known_by_its_whole_name(self) -> None:
        for argument in ("--arc", "--architecture", "--arch=arm64-", "-a"):
            self.assertEqual(self.run_script("package", argument).returncode, 2, argument)


# Answers like Cargo, and builds a program that prints its arguments, and refuses those that are left out.
CARGO = """#!/bin/sh
case $1 in
metadata) printf '{"target_directory":"%s"}' "$HOME/target" ;;
build)
    printf '%s\\n' "$*" >"$HOME/built"
    mkdir -p "$HOME/target/local"
    case $* in
    *--no-default-features) printf '#!/bin/sh\\n[ "$1" = demo ] && echo "$@"\\n' ;;
    *) printf '#!/bin/sh\\necho "$@"\\n' ;;
    esac >"$HOME/target/local/comeback"
    chmod +x "$HOME/target/local/comeback"
    ;;
esac
"""

# Every Debian has these.
ESSENTIAL = ["cat", "chmod", "cp", "dirname", "env", "flock", "grep", "mkdir", "sed", "sh", "touch", "tr", "uname"]
# Stand-ins of what a new machine has: apt-get installs what is in the folder `debian`, and curl prints what installs
# rustup. Each writes down how it was called.
NEW = {
    "id": "echo 0",
    "apt-get": """\
echo "apt-get $*" >>"$HOME/started"
[ "$1" != install ] || for each; do
    [ ! -e "$HOME/debian/$each" ] || cp "$HOME/debian/$each"/* "$HOME/bin"
done""",
}
DEBIAN = {
    "gcc": {"cc": "exit 0"},
    "curl": {
        "curl": """\
echo "curl $*" >>"$HOME/started"
echo 'mkdir -p "$HOME/.cargo/bin"; cp "$HOME"/rustup/* "$HOME/.cargo/bin"; echo "rustup-init $*" >>"$HOME/started"'"""
    },
}


class NeedsTest(unittest.TestCase):
    """A new machine for each test, with a checkout."""

    def setUp(self) -> None:
        self.home = Path(self.enterContext(tempfile.TemporaryDirectory()))
        checkout = self.home / "comeback"
        shutil.copytree(ROOT / "scripts", checkout / "scripts", ignore=shutil.ignore_patterns("comeback"))
        shutil.copy(ROOT / "Cargo.toml", checkout)
        self.scripts = checkout / "scripts"
        for name in ESSENTIAL:
            (self.home / "bin").mkdir(exist_ok=True)
            (self.home / "bin" / name).symlink_to(shutil.which(name) or name)
        for name, body in NEW.items():
            self.program(f"bin/{name}", body)
        for package, programs in DEBIAN.items():
            for name, body in programs.items():
                self.program(f"debian/{package}/{name}", body)
        self.program("rustup/rustup", "exit 0")
        self.program("rustup/cargo", CARGO.split("\n", 1)[1])

    def program(self, path: str, body: str) -> None:
        (self.home / path).parent.mkdir(parents=True, exist_ok=True)
        # It may be a link to this machine's own.
        (self.home / path).unlink(missing_ok=True)
        (self.home / path).write_text(f"#!{shutil.which('sh')}\n{body}\n")
        (self.home / path).chmod(0o755)

    def run_script(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {"HOME": str(self.home), "PATH": str(self.home / "bin"), **environment}
        return subprocess.run(
            [self.scripts / command[0], *command[1:]], env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )

    def answer(self, answer: str, *command: str) -> str:
        """Runs a script in a terminal, with an answer to its question. Returns what it prints."""
        ours, theirs = pty.openpty()
        os.write(ours, f"{answer}\n".encode())
        own = {"HOME": str(self.home), "PATH": str(self.home / "bin")}
        program = [self.scripts / command[0], *command[1:]]
        done = subprocess.run(program, env=own, stdin=theirs, capture_output=True, text=True)
        os.close(theirs)
        os.close(ours)
        return done.stderr

    def started(self) -> list[str]:
        file = self.home / "started"
        return file.read_text().splitlines() if file.exists() else []

    def assert_installed(self) -> None:
        packages = "curl ca-certificates gcc libc6-dev"
        update, install, curl, rustup = self.started()
        self.assertEqual(
            (update, install), ("apt-get update", f"apt-get install --yes --no-install-recommends {packages}")
        )
        self.assertRegex(curl, r"^curl .*https://sh\.rustup\.rs$")
        self.assertRegex(rustup, "^rustup-init -y ")

    def test_the_demo_installs_what_is_missing_and_then_builds(self) -> None:
        for arguments, environment in ((["--yes"], {}), (["--events", "3", "--yes"], {}), ([], {"CI": "true"})):
            with self.subTest(arguments=arguments, environment=environment):
                self.setUp()
                done = self.run_script("demo", *arguments, **environment)
                passed = [each for each in arguments if each != "--yes"]
                self.assertEqual((done.returncode, done.stdout), (0, " ".join(["demo", *passed]) + "\n"), done.stderr)
                self.assert_installed()
                # The second time, all is there.
                done = self.run_script("demo")
                self.assertEqual(done.returncode, 0)
                self.assert_installed()

    def test_without_a_terminal_it_says_what_is_missing_and_does_nothing(self) -> None:
        done = self.run_script("demo")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.count("Rust, which"), 1)
        self.assertIn("a C compiler", done.stderr)
        self.assertIn("sudo apt-get install --no-install-recommends curl ca-certificates gcc libc6-dev", done.stderr)
        self.assertNotIn("not found", done.stderr)
        self.assertNotIn("Building", done.stderr)
        self.assertEqual(self.started(), [])

    def test_one_question_names_all_and_a_no_installs_nothing(self) -> None:
        said = self.answer("n", "demo")
        self.assertEqual(said.count("Install all of it now?"), 1)
        question, rest = said.split("Install all of it now?")
        for each in ("Rust, which", "a C compiler", "curl ca-certificates gcc libc6-dev"):
            self.assertIn(each, question)
        self.assertIn("sudo apt-get install", rest)
        self.assertEqual(self.started(), [])
        self.answer("", "demo")
        self.assert_installed()

    def test_elsewhere_it_says_the_commands(self) -> None:
        (self.home / "bin/apt-get").unlink()
        done = self.run_script("demo", "--yes")
        self.assertEqual(done.returncode, 1)
        self.assertIn("your package manager", done.stderr)
        self.assertRegex(done.stderr, r"\n  curl .*sh\.rustup\.rs")
        self.assertEqual(self.started(), [])
        self.program("bin/uname", "echo Darwin")
        self.assertIn("xcode-select --install", self.run_script("demo").stderr)
        self.assertIn("runs on Linux only", self.run_script("needs", "test").stderr)

    def test_all_tests_need_more_and_a_user_without_sudo_is_told_what(self) -> None:
        self.program("bin/id", "echo 1000")
        done = self.run_script("test", "--yes")
        self.assertEqual(done.returncode, 1)
        for each in ("Rust", "C compiler", "Python 3.11", "Node.js 20", "chromium", "cmake", "python3-venv", "g++"):
            self.assertIn(each, done.stderr)
        self.assertEqual(self.started(), [])
        self.program("bin/sudo", '[ "$1" != -n ] || shift\nexec "$@"')
        self.assertEqual(self.run_script("demo", "--yes").returncode, 0)
        self.assert_installed()

    def test_what_an_installation_did_not_bring_is_named(self) -> None:
        shutil.rmtree(self.home / "debian/gcc")
        done = self.run_script("demo", "--yes")
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not be installed", done.stderr)
        self.assertIn("a C compiler", done.stderr.split("target/debian")[-1])


class RunTest(unittest.TestCase):
    def run_script(self, script: str, home: str, *arguments: str) -> str:
        """Runs a script, and returns with which options it has built the program."""
        answer = subprocess.run(
            [ROOT / "scripts" / script, *arguments],
            env={"HOME": home, "PATH": f"{home}/tools:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
        )
        self.assertEqual((answer.returncode, answer.stdout), (0, " ".join([script, *arguments]) + "\n"), answer.stderr)
        built = Path(home, "built").read_text()
        self.assertRegex(built, "^build --locked .*--package comeback-cli --profile local")
        return built.partition("--profile local")[2].strip()

    def test_a_demo_is_built_alone_until_the_whole_program_is_there(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            cargo = Path(home, "tools", "cargo")
            cargo.parent.mkdir()
            cargo.write_text(CARGO)
            cargo.chmod(0o755)
            alone = "--no-default-features"
            for script, arguments, features in (
                ("demo", (), alone),
                ("demo", ("--binaries", "local"), alone),
                ("local", ("--port", "0"), ""),
                ("local", (), ""),
                ("demo", (), ""),
            ):
                with self.subTest(script=script, arguments=arguments):
                    self.assertEqual(self.run_script(script, home, *arguments), features)
