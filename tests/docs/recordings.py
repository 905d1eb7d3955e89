"""Records what programs print in a terminal, as pictures in docs/pictures that are readable in light and dark mode.

tests/docs/run --record     makes them again, with the debug builds

Each recording shows the real program in a terminal, on a local cloud. Numbers, times and ids
differ each time, so the tests compare only the words.
"""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from xml.sax.saxutils import escape

import endpoints
import pyte
from inputs import failure_record
from pages import PATIENCE_SECONDS, READY, ROOT, TARGET, essence

FOLDER = ROOT / "docs/pictures"
COLUMNS, LINES_MAX = 100, 100

# Pixels of a character, and around the text.
WIDTH, HEIGHT, MARGIN = 7.8, 17, 14
STYLE = """\
.page { fill: #ffffff; stroke: #d0d7de } text { fill: #1f2328; font: 13px ui-monospace, Menlo, Consolas, monospace }
.bold { font-weight: 600 } .dim { fill: #6e7781 } .red { fill: #cf222e } .green { fill: #1a7f37 }
.brown { fill: #9a6700 } .blue { fill: #0969da } .magenta { fill: #8250df } .cyan { fill: #1b7c83 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117; stroke: #30363d } text { fill: #e6edf3 }
.dim { fill: #9198a1 } .red { fill: #ff7b72 } .green { fill: #3fb950 } .brown { fill: #d29922 }
.blue { fill: #58a6ff } .magenta { fill: #bc8cff } .cyan { fill: #39c5cf }
}"""

# The alternate screen, which pyte doesn't support. Terminals show nothing of it after the program has left it.
ALTERNATE = re.compile(rb"\x1b\[\?1049h.*?\x1b\[\?1049l", re.DOTALL)
# Faint text, which pyte doesn't support. It is turned into blinking, which pyte supports and nothing here uses.
FAINT, BLINK = re.compile(rb"(\x1b\[(?:\d+;)*)2((?:;\d+)*m)"), rb"\g<1>5\g<2>"


@dataclass(frozen=True)
class Recording:
    """The content of a terminal, by lines. Each line consists of runs of characters with the same style."""

    title: str
    lines: list[list[tuple[str, str]]]

    def svg(self) -> str:
        width, height = COLUMNS * WIDTH + 2 * MARGIN, len(self.lines) * HEIGHT + 2 * MARGIN
        parts = [f'<rect class="page" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1}" rx="6"/>']
        for number, line in enumerate(self.lines):
            column = 0
            for style, run in line:
                # Each column of a table must begin where it does in the terminal, whatever the font.
                for part in re.finditer(r"\S+(?: \S+)*", run):
                    place = f'x="{MARGIN + (column + part.start()) * WIDTH:.1f}" y="{MARGIN + number * HEIGHT + 13}"'
                    length = f'textLength="{len(part[0]) * WIDTH:.1f}"'
                    parts.append(f'<text class="{style}" {place} {length}>{escape(part[0])}</text>')
                column += len(run)
        return framed(self.title, width, height, STYLE, parts)


def framed(title: str, width: float, height: int, style: str, parts: list[str]) -> str:
    """The SVG of these elements, with its title and its styles."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>\n{style}\n</style>", *parts, "</svg>\n"])


def words(svg: str) -> list[str]:
    """The words of a recording in alphabetical order, without the parts that differ each time.

    The order may differ, because table headings are wrapped where columns are narrow.
    """
    text = " ".join(re.findall(r"<text [^>]*>([^<]*)</text>", svg))
    # Lines of the demo have a sign for each attempt, and a count for each number of attempts.
    differs = re.compile("[✗─‖✓■]+|(?:ms|s|m|h|d),?")
    text = essence(" ".join(word for word in text.split() if not differs.fullmatch(word)))
    return sorted(word for word in re.sub("(?: at attempt #)+", " at attempt #", text).split() if word != "#")


def style(character: pyte.screens.Char) -> str:
    names = {"bold": character.bold, "dim": character.blink, character.fg: character.fg != "default"}
    return " ".join(name for name, is_so in names.items() if is_so)


def shown(printed: bytes) -> list[list[tuple[str, str]]]:
    screen = pyte.Screen(COLUMNS, LINES_MAX)
    pyte.ByteStream(screen).feed(FAINT.sub(BLINK, ALTERNATE.sub(b"", printed)))
    lines = []
    for number in range(screen.cursor.y + 1):
        row = [screen.buffer[number][column] for column in range(COLUMNS)]
        lines.append([(kind, "".join(each.data for each in run)) for kind, run in groupby(row, style)])
    return lines


def run(command: list[str], environment: dict[str, str]) -> bytes:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES_MAX, COLUMNS, 0, 0))
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    printed = b""
    try:
        while part := os.read(ours, 1 << 16):
            printed += part
    except OSError:  # Linux says this at the end
        pass
    os.close(ours)
    process.wait()
    return printed


def wait(environment: dict[str, str], command: str, at_least: int) -> None:
    """Waits until a command has looked at this number of things."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        said = json.loads(subprocess.check_output(command.split(), env=environment, text=True))
        if said["looked_at"] >= at_least:
            return
    raise AssertionError(f"expected {command} to look at {at_least}, got {said}")


def record(environment: dict[str, str], title: str, *commands: str) -> Recording:
    lines: list[list[tuple[str, str]]] = []
    for command in commands:
        lines += [[("dim", "$ "), ("bold", command)]]
        lines += shown(run(command.split(), environment))
    while not "".join(text for _, text in lines[-1]).strip():
        lines.pop()
    return Recording(title, lines)


FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function:example-target:$LATEST"
FAILURES = {
    "3b72eb0b-202e-4fca-9f27-d590e971de04": "PaymentError",
    "57569600-645f-4c2e-86e1-44482712467d": "PaymentError",
    "91f53b8a-2a8d-41d1-be8f-3181ffbc8ba8": "PaymentError",
    "9c7b62f9-7c92-4afc-83b6-2ad3a93343c2": "StockError",
}


def operated() -> Iterator[tuple[str, Recording]]:
    path = {"PATH": f"{TARGET}:{os.environ['PATH']}", "HOME": "/nonexistent", "TERM": "xterm-256color"}
    settings = ["TRANSPARENT=true", "BASE_BACKOFF=2h", "MAX_BACKOFF=2h", "JITTER=none"]
    settings = [word for setting in settings for word in ("--set", setting)]
    with endpoints.local(TARGET / "comeback", path, ["local", "--port", "0", *settings], READY) as cloud:
        environment = path | cloud.environment()
        sqs = cloud.client("sqs")
        queue = sqs.get_queue_url(QueueName="retry-example-target")["QueueUrl"]
        for it, kind in FAILURES.items():
            error = {"errorType": kind, "errorMessage": "the upstream said 503"}
            body = json.dumps(failure_record(FUNCTION, {"id": it}, None, it, error))
            sqs.send_message(QueueUrl=queue, MessageBody=body)
        wait(environment, "comeback waiting --json", len(FAILURES))
        yield (
            "waiting.svg",
            record(
                environment,
                "comeback status, and comeback waiting by function and error",
                "comeback status",
                "comeback waiting --group-by function,error",
            ),
        )
        subprocess.run(
            ["comeback", "waiting", "cancel", "--error", "StockError", "--yes"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        wait(environment, "comeback dead list --json", 1)
        yield (
            "dead.svg",
            record(
                environment,
                "comeback dead list, and comeback dead redrive as a dry run",
                "comeback dead list",
                "comeback dead redrive --error StockError --dry-run",
            ),
        )
        cloud.client("lambda").put_function_recursion_config(FunctionName="example-target", RecursiveLoop="Terminate")
        yield "doctor.svg", record(environment, "comeback doctor finds a problem and a warning", "comeback doctor")


def demo() -> Recording:
    """A recording of scripts/demo, up to its verdict."""
    command = [str(TARGET / "comeback"), "demo", "--events", "12"]
    lines = shown(run(command, {"PATH": os.environ["PATH"], "TERM": "xterm-256color"}))
    texts = ["".join(text for _, text in line).strip() for line in lines]
    end = texts.index("Every event ended as it should.") + 1
    typed = [("dim", "$ "), ("bold", "scripts/demo --events 12")]
    return Recording("scripts/demo: how twelve events fail, wait, come back and end", [typed, *lines[:end]])


if __name__ == "__main__":
    for name, recording in [("demo.svg", demo()), *operated()]:
        (FOLDER / name).write_text(recording.svg())
