"""Every script prints its usage for --help, and refuses unknown options. In both cases it does nothing else. The demo
and the local cloud are built with the right features, and started."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# Tools that build, install or deploy. A script that runs one of them does more than print its usage.
TOOLS = ["apt-get", "aws", "cargo", "npm", "node", "pip", "python", "rustc", "rustup", "sudo"]


def scripts() -> list[str]:
    """The names of the tracked executables in scripts/."""
    listed = subprocess.run(
        ["git", "ls-files", "--stage", "scripts"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    entries = (line.split(maxsplit=3) for line in listed.splitlines())
    return [Path(path).name for mode, _, _, path in entries if mode == "100755"]


class UsageTest(unittest.TestCase):
    """Each script runs in a copy of scripts/ without the rest of the repository, so it has nothing to build."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        ignored = shutil.ignore_patterns("comeback")
        shutil.copytree(REPOSITORY / "scripts", self.folder / "scripts", ignore=ignored)
        for licence in REPOSITORY.glob("LICENSE-*"):
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


# Answers like Cargo, and builds a program that prints its arguments.
CARGO = """#!/bin/sh
case $1 in
metadata) printf '{"target_directory":"%s"}' "$HOME/target" ;;
build)
    printf '%s\\n' "$*" >"$HOME/built"
    mkdir -p "$HOME/target/release"
    printf '#!/bin/sh\\necho "$@"\\n' >"$HOME/target/release/comeback"
    chmod +x "$HOME/target/release/comeback"
    ;;
esac
"""


class RunTest(unittest.TestCase):
    """Scripts that build the program `comeback` and run it."""

    def test_a_program_gets_its_arguments_and_is_built_as_an_installation_builds_it(self) -> None:
        for script in ("demo", "local"):
            for arguments in ([], ["--binaries", "local"]):
                with self.subTest(script=script, arguments=arguments), tempfile.TemporaryDirectory() as home:
                    cargo = Path(home, "tools", "cargo")
                    cargo.parent.mkdir()
                    cargo.write_text(CARGO)
                    cargo.chmod(0o755)
                    answer = subprocess.run(
                        [REPOSITORY / "scripts" / script, *arguments],
                        env={"HOME": home, "PATH": f"{cargo.parent}:{os.environ['PATH']}"},
                        capture_output=True,
                        text=True,
                    )
                    self.assertEqual((answer.returncode, answer.stdout), (0, " ".join([script, *arguments]) + "\n"))
                    self.assertRegex(
                        Path(home, "built").read_text(), "^build --locked .*--release --package comeback-cli$"
                    )


if __name__ == "__main__":
    unittest.main()
