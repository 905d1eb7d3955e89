"""Follows pages of the documentation: runs their commands as they are written.

The first line of a block may be one of these:

    # app.py                          the block is this file
    # in a terminal of its own        runs until the page ends
    # once                            installs or builds what the tests have already: does not run
    # in your AWS account             does not run, and neither do the others:
    # with the files of a release
    # with functions of your own
    # takes minutes

Every line of a `text` block must be printed by the commands after the previous block, or in a terminal. Numbers, times,
ids and quoted paths may differ, and so may the order, because a function's own lines can arrive at any time.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
BLOCK = re.compile(r"^ *```([\w-]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?:#|//) ([\w.]+\.\w+)\n")
TERMINAL = "# in a terminal of its own"
ELSEWHERE = (
    "# once",
    "# in your AWS account",
    "# with the files of a release",
    "# with functions of your own",
    "# takes minutes",
)

# The ports on the pages: the local cloud's, and an upstream's.
PORT, UPSTREAM_PORT = "4700", "8000"
# The local cloud prints this when it is ready.
READY = "What happens, until Ctrl-C:"
# A page that takes longer than this is wrong.
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def is_elsewhere(self) -> bool:
        return self.text.lstrip().startswith(ELSEWHERE)


def blocks(page: str) -> list[Block]:
    return [Block(language, text) for language, text in BLOCK.findall(page)]


def section(page: str, heading: str) -> str:
    """The text of a page below a heading, up to the next heading."""
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def essence(line: str) -> str:
    """A line without the parts that differ each time: numbers, times, ids, quoted paths and the widths of columns."""
    words = ("#" if re.search(r'\d|^"/', word) else word for word in line.split() if word not in {"ms", "s"})
    return re.sub(r"#( #)+", "#", " ".join(words))


@dataclass
class Output:
    """The lines that commands print, in the order in which they arrive."""

    lines: list[str] = field(default_factory=list)
    more: threading.Condition = field(default_factory=threading.Condition)

    def read(self, process: "subprocess.Popen[str]") -> None:
        with process.stdout as printed:
            for line in printed:
                with self.more:
                    self.lines.append(line.rstrip("\n"))
                    self.more.notify_all()

    def expect(self, expected: str, begin: int) -> None:
        """Waits until all of these lines were printed, in any order, from the line `begin` on."""
        until = time.monotonic() + PATIENCE_SECONDS
        wanted = Counter(filter(None, map(essence, expected.splitlines())))
        with self.more:
            while missing := wanted - Counter(map(essence, self.lines[begin:])):
                if not self.more.wait(until - time.monotonic()):
                    raise AssertionError("\n".join(["not printed:", *missing, "but:", *self.lines[begin:]]))


class Reader:
    """A user who types the commands of a page, in a folder that looks like a checkout."""

    def __init__(self, folder: Path, path: str) -> None:
        self.folder = folder
        self.terminals: list[subprocess.Popen[str]] = []
        self.output = Output()
        shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("comeback"))
        self.port, self.upstream_port = free_port(), free_port()
        # Everything is built already, so this script only starts the program.
        run = folder / "scripts" / "run"
        run.write_text(f'#!/bin/sh\nshift\nexec "{TARGET}/comeback" "$@" --port {self.port}\n')
        (folder / "comeback").symlink_to(TARGET / "comeback")
        of_go = {name: value for name, value in os.environ.items() if name.startswith("GO")}
        own = {"HOME": str(folder), "PATH": f"{folder}:{path}", "AWS_EC2_METADATA_DISABLED": "true"}
        self.environment = own | of_go

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the terminals, as with Ctrl-C."""
        for terminal in self.terminals:
            os.killpg(terminal.pid, signal.SIGINT)
            terminal.wait()

    def _with_ports(self, text: str) -> str:
        return text.replace(PORT, self.port).replace(UPSTREAM_PORT, self.upstream_port)

    def _start(self, commands: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["bash", "-euc", self._with_ports(commands)],
            cwd=self.folder,
            env=self.environment,
            text=True,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def follow(self, page: list[Block]) -> Iterator[Block]:
        """Follows the blocks of a page. Yields those that ran."""
        begin = 0
        for block in page:
            file = FILE.match(block.text)
            if block.is_elsewhere:
                continue
            if block.language == "text":
                self.output.expect(block.text, begin)
            elif block.language == "sh" and block.text.startswith(TERMINAL):
                process = self._start(self._exported() + f"exec {block.text.removeprefix(TERMINAL).strip()}")
                self.terminals.append(process)
                threading.Thread(target=self.output.read, args=[process], daemon=True).start()
                self.output.expect(READY, 0)
            elif block.language == "sh":
                begin = len(self.output.lines)
                self._run(block.text)
            elif file:
                (self.folder / file[1]).write_text(self._with_ports(block.text))
                continue
            else:
                continue
            yield block

    def _exported(self) -> str:
        exported = self.folder / "exported"
        return f". {exported}\n" if exported.exists() else ""

    def _run(self, commands: str) -> None:
        """Runs commands to their end. Exported variables stay for later commands."""
        exported = self.folder / "exported"
        process = self._start(f"{self._exported()}{commands}\nexport -p >{exported}")
        begin = len(self.output.lines)
        self.output.read(process)
        if process.wait() != 0:
            raise AssertionError("\n".join([f"failed:\n{commands}", *self.output.lines[begin:]]))
