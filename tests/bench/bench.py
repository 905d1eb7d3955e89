"""Measures the calls, CPU time, memory and start-up time of the retry handler beside those of the floor.

The floor is a program with the same crates that makes the same calls and does nothing else.

Each handler runs as Lambda would run it. The two take turns, so a machine that is slow for a while slows down both.
Ratios compare only runs of the same round. Both get the same batches of ten, with half of the messages waiting and half
due (`messages.py`), and must handle every message. The endpoints are on loopback and answer at once (`cloud.py`).

CPU per message is the CPU time of a long run minus that of a short one, divided by the difference in messages. This
excludes the start of the process. The start-up time comes from the short run and ends at the first answer. The peak
memory comes from the long run. Each figure is the median of the rounds, with the minimum and the maximum.

A slow result doesn't fail the bench, because times depend on the machine. The table shows which goals are reached, and
the exit code only says whether measuring worked.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cloud import NotMeasured
from messages import ACCOUNT, ARRANGEMENTS, BATCH_SIZE, REGION, batches
from process import Handler, Run, run

# What the handler may cost, as a multiple of the floor.
PART = 1.3

# After this many batches a handler is warm: its connections are open and its caches are filled.
SHORT_BATCHES = 20

ZIP_MAX_BYTES = 9 * 2**19

# Half of the messages need one Invoke each. The other half wait, and share a call with the other waiting messages of
# their batch: ten of them if it is sorted, five if it is mixed. So the minimum is 0.5 + 0.5/10 = 0.55 calls per message
# for sorted batches, and 0.5 + 0.5/5 = 0.60 for mixed ones. The messages in flight are counted once in a run.
CALLS_MAX = {"sorted": 0.56, "mixed": 0.61}


HEADING = ("figure", "retry-handler", "floor", "ratio", "must reach", "reached?")


@dataclass(frozen=True)
class Unit:
    """The unit in which a value is shown."""

    name: str
    size: float
    digits: int

    def show(self, value: float) -> str:
        """Formats the number, without the unit's name."""
        return f"{value / self.size:.{self.digits}f}"


CALLS = Unit("", 1, 2)
MICROSECONDS = Unit(" µs", 1e-6, 0)
MILLISECONDS = Unit(" ms", 1e-3, 1)
MEBIBYTES = Unit(" MiB", 2**20, 2)


@dataclass(frozen=True)
class Figure:
    """One line of the table, with the values of all rounds in order."""

    name: str
    unit: Unit
    ours: Sequence[float]
    floors: Sequence[float]
    # The goal is either an absolute maximum, in the unit of the values, or a multiple of the floor's value.
    limit: float | None = None
    part: float | None = None

    @property
    def ratio(self) -> float:
        """Our value divided by the floor's: computed for each round, then the median."""
        pairs = zip(self.ours, self.floors, strict=True)
        return statistics.median(ours / floor for ours, floor in pairs)

    def cells(self) -> list[str]:
        """The cells of the line."""
        goal, reached = self._goal()
        return [
            self.name,
            self._spread(self.ours),
            self._spread(self.floors) if self.floors else "–",
            f"{self.ratio:.2f}" if self.floors else "–",
            goal,
            "yes" if reached else "NO",
        ]

    def _goal(self) -> tuple[str, bool]:
        if self.part is not None:
            return f"≤ {self.part} × the floor", self.ratio <= self.part
        assert self.limit is not None
        shown = f"≤ {self.unit.show(self.limit)}{self.unit.name}"
        return shown, statistics.median(self.ours) <= self.limit

    def _spread(self, values: Sequence[float]) -> str:
        middle, low, high = (self.unit.show(of(values)) for of in (statistics.median, min, max))
        middle += self.unit.name
        return middle if low == high else f"{middle} ({low} to {high})"


def render(figures: Sequence[Figure]) -> str:
    """Formats the table, for terminals and as Markdown."""
    lines = [list(HEADING), *(figure.cells() for figure in figures)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


@dataclass(frozen=True)
class Pair:
    """A short run, and the long run directly after it."""

    short: Run
    long: Run

    @property
    def cpu_per_message(self) -> float:
        """CPU seconds for each additional message."""
        cpu = self.long.cpu_seconds - self.short.cpu_seconds
        return cpu / (self.long.messages - self.short.messages)


@dataclass(frozen=True)
class Sides:
    """The measurements of both handlers, in the order of the rounds."""

    ours: list[Pair] = field(default_factory=list)
    floors: list[Pair] = field(default_factory=list)

    def figure(
        self,
        name: str,
        unit: Unit,
        value: Callable[[Pair], float],
        limit: float | None = None,
        part: float | None = None,
    ) -> Figure:
        """The line of the table for a value that is computed from each pair of runs."""
        return Figure(name, unit, [*map(value, self.ours)], [*map(value, self.floors)], limit, part)


async def measure(ours: Handler, floor: Handler, rounds: int, count: int) -> dict[str, Sides]:
    """Runs both handlers in turn, with every arrangement of messages in each round."""
    measured = {arrangement: Sides() for arrangement in ARRANGEMENTS}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = Path(folder) / "log"

        async def pair(handler: Handler, arrangement: str) -> Pair:
            short = await run(handler, batches(arrangement, SHORT_BATCHES), log)
            return Pair(short, await run(handler, batches(arrangement, SHORT_BATCHES + count), log))

        # The first run isn't measured. It fills the file cache and lets Python compile its modules.
        for handler in (ours, floor):
            await run(handler, batches("mixed", SHORT_BATCHES), log)
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr)
            for arrangement, sides in measured.items():
                sides.ours.append(await pair(ours, arrangement))
                sides.floors.append(await pair(floor, arrangement))
    return measured


def figures(measured: dict[str, Sides], zipped_bytes: int) -> list[Figure]:
    """The lines of the table."""
    every = Sides(
        [pair for sides in measured.values() for pair in sides.ours],
        [pair for sides in measured.values() for pair in sides.floors],
    )
    return [
        *(
            sides.figure(
                f"AWS calls per message, {arrangement}",
                CALLS,
                lambda pair: pair.long.calls / pair.long.messages,
                limit=CALLS_MAX[arrangement],
            )
            for arrangement, sides in measured.items()
        ),
        *(
            sides.figure(
                f"CPU per message, {arrangement}",
                MICROSECONDS,
                lambda pair: pair.cpu_per_message,
                part=PART,
            )
            for arrangement, sides in measured.items()
        ),
        every.figure(
            "process start to first answer",
            MILLISECONDS,
            lambda pair: pair.short.start_seconds,
            part=PART,
        ),
        every.figure("peak memory", MEBIBYTES, lambda pair: pair.long.peak_bytes, part=PART),
        Figure("zipped bootstrap", MEBIBYTES, [zipped_bytes], [], limit=ZIP_MAX_BYTES),
    ]


def zipped_size(bootstrap: Path) -> int:
    """The size of the deployment package: a zip with the program as `bootstrap`."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            archive.write(bootstrap, "bootstrap")
        return file.tell()


def main() -> int:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description="What a failed event costs.")
    parser.add_argument("bootstrap", type=Path, help="the retry handler, a release build")
    parser.add_argument("floor", type=Path, help="the floor, a release build")
    parser.add_argument("--rounds", type=int, default=7, help="how often all is measured")
    parser.add_argument("--batches", type=int, default=300, help="by how many a long run is longer")
    arguments = parser.parse_args()

    ours = Handler("retry-handler", [str(arguments.bootstrap.resolve())], {})
    # Our handler learns the queue from its messages. The floor needs a setting.
    queue_url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/retry-queue"
    floor = Handler("floor", [str(arguments.floor.resolve())], {"RETRY_QUEUE_URL": queue_url})
    try:
        measured = asyncio.run(measure(ours, floor, arguments.rounds, arguments.batches))
        print(render(figures(measured, zipped_size(arguments.bootstrap))))
    except (NotMeasured, OSError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    messages = len(ARRANGEMENTS) * arguments.rounds * arguments.batches * BATCH_SIZE
    print(f"\nMedians (least to most) of {arguments.rounds} rounds, {messages:,} messages each side.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
