"""Tests docs/start by typing its commands, and compares the findings, the pictures and the recordings.

Needs the debug builds.

tests/docs/run starts this.
"""

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import recordings
from made import made
from pages import ROOT, TARGET, Reader, blocks, essence, section

HERE = Path(__file__).resolve().parent
FUNCTION = (ROOT / "docs/start/function.md").read_text()

NEEDS_JAVA = unittest.skipUnless(shutil.which("javac"), "no compiler of Java: a JDK of version 17 or later is needed")

# The pages that PageTest and FunctionTest follow.
TYPED = {
    ROOT / "docs" / name
    for name in (
        "start/local.md",
        "outage.md",
        "start/function.md",
        "guides/queues.md",
        "guides/eventbridge.md",
        "guides/streams.md",
    )
}
SHELLS = {"sh", "bash", "shell"}
# Languages of blocks with the output of commands. Tests of the program replay these blocks.
SESSIONS = {"console", "shell-session"}
# All blocks of a page that begins with this need an AWS account.
IN_YOUR_ACCOUNT = "The commands on this page run in your AWS account"
# Commands that need neither an account nor a local cloud. BlocksTest runs them.
NEEDS_NOTHING = re.compile(r"(mkdir .*\n)?comeback (simulate|completions) ")
# run-bare runs these commands, and RecordingTest checks the output of the last one.
DEMO = re.compile(r"git clone https://\S+/comeback\ncd comeback\nscripts/demo\n")


def follow(page: str, at_least: int, prepare: Callable[[Path], object] = lambda _: None) -> None:
    """Follows a page to its end with a local cloud of its own. `prepare` installs things in its folder first."""
    with tempfile.TemporaryDirectory() as folder, Reader(Path(folder), os.environ["PATH"]) as reader:
        prepare(Path(folder))
        ran = list(reader.follow(blocks(page)))
    assert len(ran) >= at_least, ran


class PageTest(unittest.TestCase):
    def test_on_your_machine(self) -> None:
        follow((ROOT / "docs/start/local.md").read_text(), 10)

    def test_an_outage(self) -> None:
        follow((ROOT / "docs/outage.md").read_text(), 11)

    def test_consumers_of_queues(self) -> None:
        page = (ROOT / "docs/guides/queues.md").read_text()
        parts = (section(page, of) for of in ("A function with an SQS trigger", "A container", "On your machine"))
        follow("".join(parts), 10, lambda folder: (with_python(folder), with_node(folder)))

    def test_what_eventbridge_and_scheduler_could_not_deliver(self) -> None:
        page = section((ROOT / "docs/guides/eventbridge.md").read_text(), "On your machine")
        follow(page, 7, with_python)

    def test_a_consumer_of_a_stream(self) -> None:
        page = section((ROOT / "docs/guides/streams.md").read_text(), "On your machine")
        follow(page, 7, with_python)


def with_python(folder: Path) -> None:
    """Installs Python's runtime client."""
    (folder / ".venv").symlink_to(sys.prefix)


def with_node(folder: Path) -> None:
    """Installs the SDK, and Node.js's runtime client in its own folder."""
    (folder / "runtime").mkdir()
    for place in (folder, folder / "runtime"):
        (place / "node_modules").symlink_to(os.environ["NODE_MODULES"])


def with_java(folder: Path) -> None:
    sources = (HERE / "java").rglob("*.java")
    subprocess.run(["javac", "-d", folder / "stand-ins", *sources], check=True)
    (folder / "lib").mkdir()
    subprocess.run(
        ["jar", "--create", "--file", folder / "lib/stand-ins.jar", "-C", folder / "stand-ins", "."], check=True
    )


def with_go(folder: Path) -> None:
    """Installs a stand-in for AWS's library for Go."""
    module = "github.com/aws/aws-lambda-go"
    (folder / "go.mod").write_text(
        f"module orders\n\ngo 1.22\n\nrequire {module} v0.0.0\n\nreplace {module} => {HERE / 'go'}\n"
    )


class FunctionTest(unittest.TestCase):
    """The function in each language, with the orders that the page sends to it."""

    def orders(self, language: str, prepare: Callable[[Path], object], **instead: str) -> None:
        """Starts the function, and sends it orders. `instead` has the words that differ from Python's output."""
        sent = section(FUNCTION, "Send it orders")
        for python, other in instead.items():
            self.assertIn(python, sent)
            sent = sent.replace(python, other)
        if instead:
            # The trace is Python's.
            sent, traces = re.subn(r"[^\n]+ \[ERROR\].*?comes here\n", "", sent, flags=re.S)
            self.assertEqual(traces, 1)
        follow(section(FUNCTION, language) + sent, 4, prepare)

    def test_python(self) -> None:
        self.orders("Python", with_python)

    def test_node(self) -> None:
        # Its runtime writes the time, the request id and the level before each line.
        self.orders("Node.js", with_node, ConnectionError="Error", placed="12:00 7886f390 INFO placed")

    @NEEDS_JAVA
    def test_java(self) -> None:
        names = {"ConnectionError": "java.lang.IllegalStateException", "PermanentFailure": "Orders$PermanentFailure"}
        self.orders("Java", with_java, **names)

    def test_one_that_is_transparent_as_it_is(self) -> None:
        follow(section(FUNCTION, "As it is"), 6, with_go)

    def test_go(self) -> None:
        self.orders("Go", with_go, ConnectionError="errorString")

    def test_rust(self) -> None:
        rust = section(FUNCTION, "Rust")
        self.assertIn((ROOT / "shared/kit/examples/smallest.rs").read_text(), rust)
        follow(rust, 5, lambda folder: (folder / "target").symlink_to(TARGET.parent))


KIT = (ROOT / "shared/kit/README.md").read_text()
CASES: list[dict[str, Any]] = json.loads((ROOT / "shared/core/fixtures/envelopes.json").read_text())

# What stands around the code in the README, and around the cases.
GO = """\
package main
import ("context"; "encoding/json"; "math"; "github.com/aws/aws-lambda-go/lambdacontext")
%s"""
JAVA = {
    "Kit": """\
import com.amazonaws.services.lambda.runtime.Context;
import java.util.Map;
class Kit { static Object place(Object order, String key) { return key; } %s }""",
    "Cases": "import java.util.Arrays;\nclass Cases extends Told { static void check() { %s } }",
}


def code(language: str) -> str:
    return KIT.split(f"```{language}\n")[1].split("```")[0]


def in_java(value: Any) -> str:
    """A Java expression for a value as Jackson reads it from JSON."""
    match value:
        case dict():
            return f"map({', '.join(f'{json.dumps(key)}, {in_java(each)}' for key, each in value.items())})"
        case list():
            return f"Arrays.asList(new Object[] {{{', '.join(map(in_java, value))}}})"
        case bool() | str():
            return json.dumps(value)
        case None:
            return "null"
        case int():
            return str(value) if abs(value) < 2**31 else f'new java.math.BigInteger("{value}")'
        case _:
            return f"{'-' if value < 0 else ''}Double.POSITIVE_INFINITY" if math.isinf(value) else repr(value)


def expected(case: dict[str, Any]) -> tuple[Any, bool, str]:
    """The payload of an event, whether the event is an envelope, and the idempotency key."""
    payload = case["event"]["_original_payload"] if case["is_envelope"] else case["event"]
    return payload, case["is_envelope"], case.get("request_id") or "own"


def run_java(folder: Path) -> None:
    """Runs the Java code. The folder has the stand-ins."""
    checks = (
        f"check({in_java(case['event'])}, {in_java(payload)}, {in_java(is_envelope)}, {in_java(key)});"
        for case in CASES
        for payload, is_envelope, key in [expected(case)]
    )
    for name, content in {"Kit": code("java"), "Cases": "\n".join(checks)}.items():
        (folder / f"{name}.java").write_text(JAVA[name] % content)
    command = ["javac", "-cp", "lib/*", "-d", "classes", "Kit.java", "Cases.java", HERE / "unwrap/Told.java"]
    subprocess.run(command, cwd=folder, check=True)
    subprocess.run(["java", "-cp", "classes:lib/*", "Told"], cwd=folder, check=True)


def run_go(folder: Path) -> list[tuple[Any, bool, str]]:
    """Runs the Go code. Returns its result for each event. The folder has the stand-in."""
    shutil.copy(HERE / "unwrap/main.go", folder)
    (folder / "code.go").write_text(GO % code("go"))
    given = (ROOT / "shared/core/fixtures/envelopes.json").read_bytes()
    answers = json.loads(
        subprocess.run(["go", "run", "."], cwd=folder, input=given, check=True, capture_output=True).stdout
    )
    return [(each["payload"], each["retry"] is not None, each["key"]) for each in answers]


class KitTest(unittest.TestCase):
    """What the kit's README says to paste into a function in Rust."""

    def test_each_code_in_rust_is_an_example_or_says_of_which_it_is_a_fragment(self) -> None:
        found = [block.text for block in blocks(KIT) if block.language == "rust"]
        self.assertEqual(len(found), 2)
        for text in found:
            fragment = re.match(r"// A fragment of (.*)\.\n", text)
            example = (ROOT / "shared/kit" / (fragment[1] if fragment else "examples/smallest.rs")).read_text()
            if fragment:
                self.assertIn(text[fragment.end() :], example)
            else:
                # The file begins with a line about itself.
                self.assertEqual(text, example.split("\n", 1)[1])

    def test_cargo_finds_the_kit_beside_a_function(self) -> None:
        with tempfile.TemporaryDirectory() as parent:
            (Path(parent) / "comeback").symlink_to(ROOT)
            function = Path(parent) / "function"
            (function / "src").mkdir(parents=True)
            (function / "src/main.rs").write_text("fn main() {}\n")
            # With this repository's versions, which are on this machine. They don't include reqwest's own TLS.
            shutil.copy(ROOT / "Cargo.lock", function)
            named, plain = 'reqwest = "0.13"', 'reqwest = { version = "0.13", default-features = false }'
            self.assertIn(named, code("toml"))
            package = '[package]\nname = "function"\nedition = "2024"\n\n'
            (function / "Cargo.toml").write_text(package + code("toml").replace(named, plain))
            tree = ["cargo", "tree", "--quiet", "--offline", "--prefix", "none", "--depth", "1"]
            answer = subprocess.run(tree, cwd=function, capture_output=True, text=True, check=False)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertRegex(answer.stdout, r"(?m)^comeback v[\d.]+ \(.*/comeback/shared/kit\)$")


class UnwrapTest(unittest.TestCase):
    """The code in the kit's README that takes an envelope off, with the events that all languages share.

    tests/end-to-end/tests/system/other_languages.rs runs the code in Python and TypeScript.
    """

    @NEEDS_JAVA
    def test_those_in_java(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with_java(Path(folder))
            run_java(Path(folder))

    def test_those_in_go(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with_go(Path(folder))
            self.assertEqual(run_go(Path(folder)), list(map(expected, CASES)))


class MadeTest(unittest.TestCase):
    def test_they_are_what_the_program_and_the_code_say(self) -> None:
        for path, expected in made().items():
            self.assertEqual(path.read_text(), expected, "tests/docs/run --made writes it")


class BlocksTest(unittest.TestCase):
    def test_each_is_run_or_says_why_not(self) -> None:
        pages = [
            (summary.parent / name).resolve()
            for summary in (ROOT / "docs/SUMMARY.md", ROOT / "docs/design/SUMMARY.md")
            for name in re.findall(r"\]\((.*?\.md)\)", summary.read_text())
        ]
        self.assertGreater(len(pages), 50)
        sessions = "".join(test.read_text() for test in (ROOT / "scripts/comeback/tests").rglob("*.rs"))
        unexplained = []
        for page in pages:
            text = page.read_text()
            for block in blocks(text):
                if block.language in SHELLS:
                    is_run = page in TYPED or NEEDS_NOTHING.match(block.text) or DEMO.fullmatch(block.text)
                    says = is_run or block.is_elsewhere or IN_YOUR_ACCOUNT in text.split("```")[0]
                elif block.language in SESSIONS:
                    says = f'/{page.relative_to(ROOT)}")' in sessions
                else:
                    says = block.language != ""
                if not says:
                    unexplained.append(f"{page.relative_to(ROOT)}, {block.language or 'no language'}:\n{block.text}")
        self.assertEqual(unexplained, [], "\n".join(unexplained))

    def test_those_that_need_nothing_run(self) -> None:
        for name in ("operate.md", "operate/simulate.md", "guides/policy.md"):
            page = [each for each in blocks((ROOT / "docs" / name).read_text()) if NEEDS_NOTHING.match(each.text)]
            with tempfile.TemporaryDirectory() as folder, Reader(Path(folder), os.environ["PATH"]) as reader:
                self.assertEqual(list(reader.follow(page)), page)
                self.assertTrue(page)


class CommandTest(unittest.TestCase):
    PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    # Commands in code blocks, and commands in the text, which may be wrapped. Comments are left out. A line of TOML
    # about the crate has an equals sign.
    COMMANDS = re.compile(r"^(?:\$ )?comeback (?!=)(.*?)(?:#.*)?$|`comeback ([^`]+)`", re.MULTILINE)
    # Parts of a command that the shell consumes, and the placeholder for any command.
    OTHERS = re.compile(r" [>|] .*|COMMAND")

    def test_the_program_takes_them(self) -> None:
        found = [each for page in self.PAGES for each in self.COMMANDS.findall(page.read_text())]
        written = {self.OTHERS.sub("", " ".join((block or text).split())) for block, text in found}
        commands = [shlex.split(each.replace('"$target"', "orders")) for each in written]
        self.assertGreater(len(commands), 60)
        for command in commands:
            # With --help, the program only parses its command line.
            answer = subprocess.run([TARGET / "comeback", *command, "--help"], capture_output=True, check=False)
            self.assertEqual(answer.returncode, 0, f"{command}: {answer.stderr!r}")


class RecordingTest(unittest.TestCase):
    def test_the_programs_print_what_they_show(self) -> None:
        for name, recording in recordings.operated():
            self.compare(name, recording)

    def test_the_demo_prints_what_its_recording_shows(self) -> None:
        self.compare("demo.svg", recordings.demo())

    def compare(self, name: str, recording: recordings.Recording) -> None:
        kept = (recordings.FOLDER / name).read_text()
        self.assertEqual(recordings.words(kept), recordings.words(recording.svg()), "tests/docs/run --record")


class EssenceTest(unittest.TestCase):
    def test_numbers_differ_and_words_do_not(self) -> None:
        for line, other, is_same in (
            ("waits 1.0 s for attempt 1", "waits 12.5 s for attempt 2", True),
            ("15:35:44.157Z  orders   is given up", "16:01:00.001Z orders is given up", True),
            ("is given up: not_retryable", "is given up: max_age_exceeded", False),
            ("in 2 h", "in 1 h 59 m", False),
            ("waits 2 s", "waits 1 s 900 ms", True),
            ("attempt 1 fails", "attempt 1 succeeds", False),
        ):
            self.assertEqual(essence(line) == essence(other), is_same, line)


def together() -> int:
    """Runs all tests, a few at a time, because they mostly wait. Returns the exit code."""
    cases = [case for suite in unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]) for case in suite]
    with ThreadPoolExecutor(4) as pool:
        results = [result for result in pool.map(lambda case: case.run(), cases) if result]
    for case, said in (each for result in results for each in result.failures + result.errors):
        print(f"FAILED {case}\n{said}")
    for case, why in (each for result in results for each in result.skipped):
        print(f"skipped {case}: {why}")
    failed = sum(not result.wasSuccessful() for result in results)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    # A shell lets what runs in the background ignore Ctrl-C, and the terminals of these tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # With names of tests, it runs only these, one after another.
    sys.exit(together() if len(sys.argv) == 1 else unittest.main())
