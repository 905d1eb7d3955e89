"""Draws the pictures of docs/pictures, which are readable in light and dark.

python3 tests/docs/pictures.py PROGRAM     writes them; PROGRAM is the debug build of `comeback`

Two of them show figures. backoff.svg has those of `comeback simulate`. outage.svg has those of outage.csv, which
tests/docs/outage.py measured on the local cloud: an event a second, and all runs fail in the first half.
"""

import csv
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parents[2] / "docs/pictures"

WIDTH = 760

STYLE = """\
.page { fill: #ffffff } .box { fill: #f6f8fa; stroke: #8c959f } .line { stroke: #57606a; fill: none }
.grid { stroke: #d0d7de; fill: none } .head { fill: #57606a } .down { fill: #ffebe9 }
text { fill: #1f2328; font: 13px system-ui, sans-serif } .quiet { fill: #57606a; font-size: 12px }
.blue { fill: #0969da; stroke: #0969da } .red { fill: #cf222e; stroke: #cf222e }
.green { fill: #1a7f37; stroke: #1a7f37 } .amber { fill: #bf8700; stroke: #bf8700 }
.soft { fill-opacity: 0.25; stroke: none !important } .curve { fill: none !important; stroke-width: 2 }
.dash { stroke-dasharray: 5 4 } .strong { font-weight: 600 } .middle { text-anchor: middle } .end { text-anchor: end }
text.blue, text.red, text.green, text.amber { stroke: none }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } .box { fill: #161b22; stroke: #6e7681 } .line { stroke: #8d96a0 }
.grid { stroke: #30363d } .head { fill: #8d96a0 } .down { fill: #3a1a1d }
text { fill: #e6edf3 } .quiet { fill: #9198a1 }
.blue { fill: #4493f8; stroke: #4493f8 } .red { fill: #f85149; stroke: #f85149 }
.green { fill: #3fb950; stroke: #3fb950 } .amber { fill: #d29922; stroke: #d29922 } .soft { fill-opacity: 0.35 }
}"""


class Picture:
    """An SVG that is built element by element. Coordinates are pixels from the upper left corner."""

    def __init__(self, title: str, height: int) -> None:
        """Begins an empty picture."""
        self.title, self.height = title, height
        self.parts: list[str] = []

    def add(self, name: str, text: str = "", /, **attributes: object) -> None:
        """Adds an element. `kind` is its class."""
        named = (("class" if key == "kind" else key, value) for key, value in attributes.items())
        written = " ".join(f'{key}="{value}"' for key, value in named)
        self.parts.append(f"<{name} {written}>{escape(text)}</{name}>" if text else f"<{name} {written}/>")

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Adds a line of text, with its baseline at y."""
        self.add("text", text, x=round(x, 1), y=round(y, 1), kind=kind)

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str, rx: int = 0) -> None:
        """A rectangle, with round corners if `rx` is given."""
        self.add("rect", x=round(x, 1), y=round(y, 1), width=round(width, 1), height=round(height, 1), rx=rx, kind=kind)

    def dot(self, x: float, y: float, kind: str, r: float = 6) -> None:
        """A filled circle."""
        self.add("circle", cx=round(x, 1), cy=round(y, 1), r=r, kind=kind)

    def line(self, *points: tuple[float, float], kind: str = "line") -> None:
        """A line through points."""
        self.add("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), kind=kind)

    def arrow(self, *points: tuple[float, float], kind: str = "line") -> None:
        """A line with an arrowhead at its last point."""
        self.line(*points, kind=kind)
        (x0, y0), (x, y) = points[-2:]
        angle = math.atan2(y - y0, x - x0)
        wings = [(x + 9 * math.cos(angle + turn), y + 9 * math.sin(angle + turn)) for turn in (2.75, -2.75)]
        self.add("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in [(x, y), *wings]), kind="head")

    def box(self, x: float, y: float, width: float, height: float, *lines: str, kind: str = "box") -> None:
        """A box with centred lines of text. The first line is bold."""
        self.rectangle(x, y, width, height, kind, 6)
        top = y + height / 2 + 4 - 8.5 * (len(lines) - 1)
        for nth, line in enumerate(lines):
            self.text(x + width / 2, top + 17 * nth, line, "middle quiet" if nth else "middle strong")

    def svg(self) -> str:
        """The content of the file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img">'
        page = f'<rect width="{WIDTH}" height="{self.height}" rx="8" class="page"/>'
        title = f"<title>{escape(self.title)}</title>"
        return "\n".join([head, title, f"<style>\n{STYLE}\n</style>", page, *self.parts, "</svg>\n"])


def life() -> Picture:
    """The life of one event whose upstream is down for eight seconds."""
    picture = Picture("The life of one event: it fails four times, waits longer each time, and succeeds", 218)

    def at(seconds: float) -> float:
        return 164 + seconds * 58

    picture.rectangle(at(0) - 36, 44, at(8) - at(0) + 36, 128, "down", 6)
    picture.text(at(4), 36, "its upstream is down for eight seconds", "middle quiet")
    picture.text(20, 82, "your function", "strong")
    picture.text(20, 142, "retry queue", "strong")
    runs = (0, 1.1, 2.8, 5.4, 8.9)
    for nth, (run, until) in enumerate(itertools.pairwise(runs)):
        picture.arrow((at(run), 85), (at(run), 128))
        picture.rectangle(at(run) - 4, 130, at(until) - at(run) - 8, 14, "amber soft", 7)
        picture.text((at(run) + at(until)) / 2 - 6, 162, ("1.0 s", "1.6 s", "2.5 s", "3.4 s")[nth], "middle quiet")
        picture.arrow((at(until) - 8, 128), (at(until) - 2, 86))
    for nth, run in enumerate(runs):
        is_last = nth == len(runs) - 1
        picture.dot(at(run), 77, "green" if is_last else "red")
        picture.text(at(run), 62, f"attempt {nth}" if nth else "first run", "middle quiet")
    picture.dot(26, 194, "red")
    picture.text(38, 198, "fails")
    picture.dot(86, 194, "green")
    picture.text(98, 198, "succeeds")
    picture.text(at(4), 198, "each wait is drawn at random below a ceiling that doubles", "middle quiet")
    return picture


def architecture() -> Picture:
    """The parts of the system, and the messages between them."""
    picture = Picture("Function, retry queue, retry handler and dead-letter queue, and what goes between them", 300)
    picture.box(20, 40, 110, 56, "caller")
    picture.box(230, 40, 150, 56, "your function")
    picture.box(560, 40, 170, 56, "retry queue", "SQS, one per function")
    picture.box(560, 150, 170, 56, "retry handler", "Lambda")
    picture.box(230, 150, 150, 56, "dead-letter queue", "SQS")
    picture.box(560, 246, 170, 44, "ledger", "DynamoDB, optional", kind="box dash")
    picture.box(20, 150, 110, 56, "comeback", "for operators")
    picture.arrow((130, 68), (228, 68))
    picture.text(179, 60, "Event", "middle quiet")
    picture.arrow((380, 58), (558, 58))
    picture.text(469, 50, "fails: failure record", "middle quiet")
    picture.arrow((630, 96), (630, 148))
    picture.text(622, 126, "is due", "end quiet")
    picture.arrow((670, 150), (670, 98))
    picture.text(678, 126, "waits", "quiet")
    picture.arrow((558, 166), (440, 166), (440, 84), (382, 84))
    picture.text(448, 112, "Invoke, in an envelope", "quiet")
    picture.arrow((558, 190), (382, 190))
    picture.text(469, 208, "gives up, with the reason", "middle quiet")
    picture.arrow((645, 206), (645, 244), kind="line dash")
    picture.text(653, 230, "claims", "quiet")
    picture.arrow((228, 178), (132, 178))
    picture.text(179, 170, "look", "middle quiet")
    picture.arrow((75, 150), (75, 118), (305, 118), (305, 98))
    picture.text(180, 112, "redrive", "middle quiet")
    return picture


DURATIONS = {1: "1 s", 10: "10 s", 60: "1 m", 600: "10 m", 3600: "1 h", 6 * 3600: "6 h", 24 * 3600: "24 h"}


def logarithmic(first: float, last: float, left: float, right: float) -> Callable[[float], float]:
    """A logarithmic scale."""
    span = math.log(last) - math.log(first)
    return lambda value: left + (right - left) * (math.log(value) - math.log(first)) / span


def backoff(program: Path) -> Picture:
    """The times of attempts, by the handler's own rules."""
    picture = Picture("When attempts fall after the first failure, with full, equal and no jitter", 250)
    policies = [part for jitter in ("full", "equal", "none") for part in ("--policy", f"{jitter}: JITTER={jitter}")]
    asked = [program, "simulate", "--outage", "10m", "--json", *policies]
    said = json.loads(subprocess.run(asked, check=True, capture_output=True, env={}).stdout)
    at = logarithmic(0.5, 24 * 3600, 130, 735)
    for seconds, name in DURATIONS.items():
        picture.line((at(seconds), 40), (at(seconds), 210), kind="grid")
        picture.text(at(seconds), 228, name, "end quiet" if seconds == 24 * 3600 else "middle quiet")
    for nth, policy in enumerate(said["policies"]):
        y = 68 + nth * 54
        picture.text(20, y + 5, f"JITTER={policy['policy']}", "strong")
        for attempt in policy["attempts"]["times"]:
            after = attempt["after_seconds"]
            if attempt["share"] < 0.5 or attempt["attempt"] > 17:
                break
            left, right = at(after["p5"]), at(after["p95"])
            picture.rectangle(left, y - 10, max(right - left, 2), 20, "blue soft", 3)
            picture.dot(at(after["median"]), y, "blue", 3.5)
    picture.text(20, 24, "Each dot is the median of an attempt, each bar nine in ten of all events", "quiet")
    return picture


def outage() -> Picture:
    """Retries in an outage, with and without probes."""
    picture = Picture("Retries a second in an outage of ten minutes, with and without probes", 300)
    rows = list(csv.DictReader((FOLDER / "outage.csv").read_text().splitlines()))
    length, seconds = float(rows[1]["seconds"]), [float(row["seconds"]) for row in rows]
    whole = seconds[-1] + length
    most = max(float(row[name]) for row in rows for name in ("plain", "probes")) / length

    def x(second: float) -> float:
        return 60 + second * 670 / whole

    def y(rate: float) -> float:
        return 250 - 190 * rate / most

    picture.rectangle(x(0), 50, x(whole / 2) - x(0), 200, "down")
    picture.text(x(whole / 4), 44, "the function is down", "middle quiet")
    for rate in range(0, int(most) + 1, 5):
        picture.line((60, y(rate)), (730, y(rate)), kind="grid")
        picture.text(52, y(rate) + 4, str(rate), "end quiet")
    for minute in range(0, int(whole / 60) + 1, 5):
        picture.text(x(minute * 60), 270, f"{minute} min", "middle quiet")
    for name, color in (("plain", "red"), ("probes", "blue")):
        picture.line(
            *((x(at + length / 2), y(float(row[name]) / length)) for at, row in zip(seconds, rows, strict=True)),
            kind=f"curve {color}",
        )
    picture.text(60, 20, "retries a second", "quiet")
    picture.text(500, 20, "without probes", "red strong")
    picture.text(620, 20, "with probes", "blue strong")
    picture.text(60, 290, "a new event every second all the time; retries are counted in steps of ten seconds", "quiet")
    return picture


def waits() -> Picture:
    """Which waits are kept in flight and which as delays: core::in_flight::longest_delayed."""
    picture = Picture("Which waits are kept in flight and which as delays, when a queue fills up", 290)
    at = logarithmic(1, 12 * 3600, 240, 40)

    def x(share: float) -> float:
        return 90 + share * 5.6

    picture.rectangle(x(0), 40, x(100) - x(0), 200, "blue soft")
    corners = [(x(50), 240), (x(50), at(900)), (x(100), at(12 * 3600)), (x(110), 40), (x(110), 240)]
    for kind in ("page", "amber soft"):
        picture.add("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), kind=kind)
    picture.line((x(100), 30), (x(100), 240), kind="line dash")
    picture.text(x(100), 24, "IN_FLIGHT_MAX", "middle quiet")
    for seconds, name in ((1, "1 s"), (60, "1 m"), (900, "15 m"), (12 * 3600, "12 h")):
        picture.line((x(0), at(seconds)), (x(110), at(seconds)), kind="grid")
        picture.text(80, at(seconds) + 4, name, "end quiet")
    for share in (0, 50, 100):
        picture.text(x(share), 258, f"{share} %", "middle quiet")
    picture.text(x(25), 135, "in flight", "middle strong blue")
    picture.text(x(25), 153, "a visibility timeout", "middle quiet")
    picture.text(x(80), 190, "as a delay", "middle strong amber")
    picture.text(x(80), 208, "sent again, in hops of 15 minutes", "middle quiet")
    picture.text(x(50), 280, "messages in flight, as a share of IN_FLIGHT_MAX", "middle quiet")
    picture.text(20, 24, "length of the wait", "quiet")
    return picture


def claims() -> Picture:
    """Two invocations of the handler that receive the same failure."""
    picture = Picture("Two invocations receive the same failure: one claims it and acts, the other one drops it", 322)
    lanes = {"handler A": 110, "ledger": 380, "handler B": 650}
    for name, x in lanes.items():
        picture.line((x, 50), (x, 284), kind="grid")
        picture.box(x - 75, 16, 150, 34, name)
    a, ledger, b = lanes.values()
    picture.arrow((a, 80), (ledger - 2, 80))
    picture.text((a + ledger) / 2, 73, "claim, if there is none", "middle quiet")
    picture.text(ledger + 8, 84, "held by A, token 1", "green")
    picture.arrow((b, 120), (ledger + 2, 120))
    picture.text((b + ledger) / 2, 113, "claim, if there is none", "middle quiet")
    picture.arrow((ledger, 144), (b - 2, 144))
    picture.text((b + ledger) / 2, 161, "refused: held by A", "middle red")
    picture.text(b + 8, 161, "waits", "quiet")
    picture.rectangle(a - 5, 84, 10, 118, "blue soft", 3)
    picture.text(a + 12, 130, "Invoke: Lambda", "strong")
    picture.text(a + 12, 147, "accepts the retry", "strong")
    picture.arrow((a, 202), (ledger - 2, 202))
    picture.text((a + ledger) / 2, 195, "mark as done, if the token is still 1", "middle quiet")
    picture.text(ledger + 8, 206, "done", "green")
    picture.arrow((b, 240), (ledger + 2, 240))
    picture.text((b + ledger) / 2, 233, "claim", "middle quiet")
    picture.arrow((ledger, 262), (b - 2, 262))
    picture.text((b + ledger) / 2, 279, "refused: done", "middle red")
    picture.text(b + 8, 279, "drops it", "quiet")
    picture.text(20, 308, "If A dies, its lease ends, and B takes the claim over with token 2.", "quiet")
    return picture


def pictures(program: Path) -> dict[str, str]:
    """The files by their names."""
    drawn = {
        "life": life(),
        "architecture": architecture(),
        "backoff": backoff(program),
        "outage": outage(),
        "waits": waits(),
        "claims": claims(),
    }
    return {f"{name}.svg": picture.svg() for name, picture in drawn.items()}


if __name__ == "__main__":
    for name, svg in pictures(Path(sys.argv[1]).resolve()).items():
        (FOLDER / name).write_text(svg)
