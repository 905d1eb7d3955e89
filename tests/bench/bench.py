"""What a failed event costs: the retry handler beside a Python peer, measured in one run.

Both run as Lambda would run them, in turn and in rounds: a machine that is slow for a while is slow
for both, and what is compared is two neighbours of one round. The work is the same, batches of ten
with half the messages waiting and half due (`messages.py`), against endpoints on loopback that
answer at once (`cloud.py`), and both must have done all of it.

CPU per message is the difference between a long run and a short one, by the messages between:
starting a process is no part of it. The start is the short run's, from the process to its first
answer; peak memory is the long run's. A figure is the median of the rounds, with the least and the
most.

Nothing here passes or fails by a clock: the table says what was reached, and the exit code only
whether it could be measured.
"""

import argparse
import asyncio
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cloud import NotMeasured
from messages import ACCOUNT, ARRANGEMENTS, BATCH_SIZE, REGION, batches
from process import Handler, Run, run
from table import CALLS, MEBIBYTES, MICROSECONDS, MILLISECONDS, Figure, Unit, render

PEER = Path(__file__).resolve().parent / "peer"

# After these a handler is warm: its connections are open, and what Python caches is cached.
SHORT_BATCHES = 20

ZIP_MAX_BYTES = 4 * 2**20

# An attempt is a call of its own; the least possible is that ten waits, or the five of a mixed
# batch, share one: 0.55 and 0.60.
CALLS_MAX = {"sorted": 0.56, "mixed": 0.60}


@dataclass(frozen=True)
class Pair:
    """A short run and a long one, neighbours in time."""

    short: Run
    long: Run

    @property
    def cpu_per_message(self) -> float:
        """Seconds of CPU that one more message costs."""
        cpu = self.long.cpu_seconds - self.short.cpu_seconds
        return cpu / (self.long.messages - self.short.messages)


@dataclass(frozen=True)
class Sides:
    """What was measured of the two handlers, round by round."""

    ours: list[Pair] = field(default_factory=list)
    peers: list[Pair] = field(default_factory=list)

    def figure(
        self,
        name: str,
        unit: Unit,
        value: Callable[[Pair], float],
        limit: float | None = None,
        part: float | None = None,
    ) -> Figure:
        """The line of one value of theirs."""
        return Figure(name, unit, [*map(value, self.ours)], [*map(value, self.peers)], limit, part)


async def measure(ours: Handler, peer: Handler, rounds: int, count: int) -> dict[str, Sides]:
    """Runs both handlers in every arrangement, in turn, round by round."""
    measured = {arrangement: Sides() for arrangement in ARRANGEMENTS}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = Path(folder) / "log"

        async def pair(handler: Handler, arrangement: str) -> Pair:
            short = await run(handler, batches(arrangement, SHORT_BATCHES), log)
            return Pair(short, await run(handler, batches(arrangement, SHORT_BATCHES + count), log))

        # Once unmeasured: from then on all files are cached, and Python has compiled its own.
        for handler in (ours, peer):
            await run(handler, batches("mixed", SHORT_BATCHES), log)
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr)
            for arrangement, sides in measured.items():
                sides.ours.append(await pair(ours, arrangement))
                sides.peers.append(await pair(peer, arrangement))
    return measured


def figures(measured: dict[str, Sides], zipped_bytes: int) -> list[Figure]:
    """What is to be said of it."""
    every = Sides(
        [pair for sides in measured.values() for pair in sides.ours],
        [pair for sides in measured.values() for pair in sides.peers],
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
                part=1 / 10,
            )
            for arrangement, sides in measured.items()
        ),
        every.figure(
            "process start to first answer",
            MILLISECONDS,
            lambda pair: pair.short.start_seconds,
            part=1 / 20,
        ),
        every.figure("peak memory", MEBIBYTES, lambda pair: pair.long.peak_bytes, part=1 / 3),
        Figure("zipped bootstrap", MEBIBYTES, [zipped_bytes], [], limit=ZIP_MAX_BYTES),
    ]


def zipped_size(bootstrap: Path) -> int:
    """The size of what is deployed: the program alone, as `bootstrap`, in a zip."""
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            archive.write(bootstrap, "bootstrap")
        return file.tell()


def main() -> int:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description="What a failed event costs.")
    parser.add_argument("bootstrap", type=Path, help="the retry handler, a release build")
    parser.add_argument("--rounds", type=int, default=7, help="how often all is measured")
    parser.add_argument("--batches", type=int, default=300, help="by how many a long run is longer")
    arguments = parser.parse_args()

    ours = Handler("retry-handler", [str(arguments.bootstrap.resolve())], {})
    peer = Handler(
        "peer",
        [sys.executable, "-m", "awslambdaric", "app.handler"],
        {
            # Ours finds its queue in the messages; the peer has to be told.
            "RETRY_QUEUE_URL": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/retry-queue",
            "PYTHONPATH": str(PEER),
        },
    )
    try:
        measured = asyncio.run(measure(ours, peer, arguments.rounds, arguments.batches))
        print(render(figures(measured, zipped_size(arguments.bootstrap))))
    except (NotMeasured, OSError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    messages = len(ARRANGEMENTS) * arguments.rounds * arguments.batches * BATCH_SIZE
    print(f"\nMedians (least to most) of {arguments.rounds} rounds, {messages:,} messages each side.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
