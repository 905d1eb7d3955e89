"""Makes the table of findings in docs/operate/doctor.md from what the program says, and the pictures of docs/pictures
that show figures. The others are drawn by hand, with the same styles.

tests/docs/run --made               writes them, with the debug builds
tests/docs/run --measure MINUTES    measures an outage of this length (10), in twice that

backoff.svg has the figures of `comeback simulate`. outage.svg has those of outage.csv, which were measured on the local
cloud: an event a second, and all runs fail in the first half.
"""

import csv
import json
import math
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from xml.sax.saxutils import escape

import endpoints
from pages import READY, ROOT, TARGET
from recordings import framed

FOLDER, DOCTOR = ROOT / "docs/pictures", ROOT / "docs/operate/doctor.md"
PROGRAM = TARGET / "comeback"

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

    def line(self, *points: tuple[float, float], kind: str = "line") -> None:
        self.add("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), kind=kind)

    def svg(self) -> str:
        page = f'<rect width="{WIDTH}" height="{self.height}" rx="8" class="page"/>'
        return framed(self.title, WIDTH, self.height, STYLE, [page, *self.parts])


DURATIONS = {1: "1 s", 10: "10 s", 60: "1 m", 600: "10 m", 3600: "1 h", 6 * 3600: "6 h", 24 * 3600: "24 h"}


def backoff() -> Picture:
    """The times of attempts, by the handler's own rules."""
    picture = Picture("When attempts fall after the first failure, with full, equal and no jitter", 250)
    policies = [part for jitter in ("full", "equal", "none") for part in ("--policy", f"{jitter}: JITTER={jitter}")]
    asked = [PROGRAM, "simulate", "--outage", "10m", "--json", *policies]
    said = json.loads(subprocess.run(asked, check=True, capture_output=True, env={}).stdout)

    def at(seconds: float) -> float:
        """A logarithmic axis from half a second to a day."""
        return 130 + 605 * math.log(seconds / 0.5, 24 * 3600 / 0.5)

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
            picture.add("circle", cx=round(at(after["median"]), 1), cy=y, r=3.5, kind="blue")
    picture.text(20, 24, "Each dot is the median of an attempt, each bar nine in ten of all events", "quiet")
    return picture


def outage() -> Picture:
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


SIGNS = {"bad": "✗", "warning": "!", "unknown": "?"}


def findings() -> str:
    """The page of the doctor, with a table of all its findings."""
    asked = [PROGRAM, "doctor", "--list", "--json"]
    kinds = json.loads(subprocess.run(asked, check=True, capture_output=True, env={}).stdout)
    rows = [f"| {SIGNS[it['verdict']]} | `{it['name']}` | {it['problem']} | {it['why']} |" for it in kinds]
    table = "\n".join(["| | finding | what is wrong | why it matters |", "|---|---|---|---|", *rows])
    page = DOCTOR.read_text()
    begin, rest = page.split("made by tests/docs/made.py -->\n", 1)
    end = rest[rest.index("<!-- end of findings -->") :]
    return f"{begin}made by tests/docs/made.py -->\n\n{table}\n\n{end}"


def made() -> dict[Path, str]:
    """Everything that is made here, by its path."""
    pictures = {FOLDER / f"{drawn.__name__}.svg": drawn().svg() for drawn in (backoff, outage)}
    return {DOCTOR: findings(), **pictures}


CLOUDS = {"plain": ["--no-ledger"], "probes": ["--set", "PROBE=true"]}
STEP_SECONDS = 10


def measure(minutes: float) -> None:
    """Runs an outage of this length in two local clouds side by side, and counts the handler's retries in steps."""
    rows: list[list[object]] = [["seconds", *CLOUDS]]
    with ExitStack() as started:
        clouds = [
            started.enter_context(endpoints.local(PROGRAM, {}, ["local", "--port", "0", *options], READY))
            for options in CLOUDS.values()
        ]
        begin = time.time()
        until = datetime.fromtimestamp(begin + minutes * 60, UTC).isoformat(timespec="seconds")
        for second in range(round(minutes * 120)):
            event = json.dumps({"id": second, "fail": {"until": until}})
            for cloud in clouds:
                cloud.client("lambda").invoke(FunctionName="example-target", InvocationType="Event", Payload=event)
            time.sleep(max(0, begin + second + 1 - time.time()))
            step, rest = divmod(second + 1, STEP_SECONDS)
            if rest == 0:
                at = (step - 1) * STEP_SECONDS
                rows.append([at, *(retries(cloud, begin + at) for cloud in clouds)])
    (FOLDER / "outage.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))


def retries(cloud: endpoints.Endpoint, begin: float) -> int:
    """How often the handler retried in the step that begins at this time."""
    pages = (
        cloud.client("logs")
        .get_paginator("filter_log_events")
        .paginate(
            logGroupName="/aws/lambda/retry-handler",
            filterPattern='{ $.message = "invoked" }',
            startTime=int(begin * 1000),
            endTime=int((begin + STEP_SECONDS) * 1000),
        )
    )
    return sum(len(page["events"]) for page in pages)


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(float(sys.argv[1]))
    else:
        for path, text in made().items():
            path.write_text(text)
