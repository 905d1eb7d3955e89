"""Measures the calls, CPU time, memory and start-up time of the retry handler beside those of the floor.

The floor is a program with the same crates that makes the same calls and does nothing else.

Each handler runs as Lambda would run it. The two take turns, so a machine that is slow for a while slows down both.
Ratios compare only runs of the same round. Both get the same batches of ten, with half of the messages waiting and half
due (`messages.py`), and must handle every message. The endpoints are on loopback and answer at once (`cloud.py`).

CPU per message is the CPU time of a long run minus that of a short one, divided by the difference in messages. This
excludes the start of the process. The start-up time comes from the short run and ends at the first answer. The peak
memory comes from the long run. Each figure is the median of the rounds, with the minimum and the maximum.

Beside that, the handler runs in each round with what a function's way of retries needs: an envelope with a ledger, or
no envelope (`TRANSPARENT`), where the ledger has the notes that the handler itself has written before. It also runs
with policies for six errors, of which all failures here have the last one. The second table compares these. With
`--before` it also has an earlier build of the handler: it shows what a change costs those who don't use it.

The third table counts what a retry takes of the ledger (`count.py`).

A slow result doesn't fail the bench, because times depend on the machine. The tables show which goals are reached. The
exit code says whether measuring worked, and whether a retry takes no more of the ledger than it may.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from cloud import READS, Cloud, NotMeasured
from count import MODES, WITHIN_LIMITS, counted, noted, of_a_retry, over_limits
from messages import ACCOUNT, ARRANGEMENTS, BATCH_SIZE, REGION, Events, batches
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

PATTERNS = ["Throttling*", "RateLimited*", "CardDeclined", "*Unavailable", "Runtime.OutOfMemory", "ReadTimeout"]
ERRORS = {pattern: {} for pattern in PATTERNS}

PLAIN, LEDGER, DROP_IN = "without a ledger", "envelope, with a ledger", "without an envelope, with a ledger"
LARGE = "the same, payloads of 256 KiB"
BEFORE = "the earlier build, without a ledger"

# What our handler's settings cost, and which of these they are compared with.
WAYS = {
    PLAIN: (MODES["plain"].environment, PLAIN),
    "`ERRORS`, without a ledger": ({"POLICIES": json.dumps({"*": {"ERRORS": ERRORS}})}, PLAIN),
    LEDGER: (MODES["ledger"].environment, PLAIN),
    DROP_IN: (MODES["drop_in"].environment, LEDGER),
    LARGE: (MODES["drop_in"].environment, DROP_IN),
}

# The payloads of `LARGE`, of which there are fewer.
LARGE_KIB, LARGE_PART = 256, 10

# Units of figures: the name, the size and the number of digits after the point.
CALLS, MICROSECONDS, MILLISECONDS, MEBIBYTES = ("", 1, 2), (" µs", 1e-6, 0), (" ms", 1e-3, 1), (" MiB", 2**20, 2)


class Pair(NamedTuple):
    """A short run, and the long run directly after it."""

    short: Run
    long: Run

    @property
    def cpu_per_message(self) -> float:
        return (self.long.cpu_seconds - self.short.cpu_seconds) / (self.long.messages - self.short.messages)


# The pairs of our handler and of the floor in each round.
Rounds = list[tuple[Pair, Pair]]


# The pair of each way in each round.
Ways = dict[str, list[Pair]]


async def measure(
    ours: Handler, floor: Handler, handlers: dict[str, Handler], rounds: int, count: int
) -> tuple[dict[str, Rounds], Ways]:
    """Runs ours and the floor in turn, with every arrangement of messages in each round, and then these handlers."""
    measured: dict[str, Rounds] = {arrangement: [] for arrangement in ARRANGEMENTS}
    ways: Ways = {name: [] for name in handlers}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = Path(folder) / "log"

        async def pair(handler: Handler, arrangement: str) -> Pair:
            short = await run(handler, batches(arrangement, SHORT_BATCHES), log)
            return Pair(short, await run(handler, batches(arrangement, SHORT_BATCHES + count), log))

        async def pair_without_envelopes(handler: Handler, kib: int, part: int) -> Pair:
            # Long runs have the events of short ones, and more.
            counts = [(SHORT_BATCHES + more) // part for more in (0, count)]
            notes = await noted(handler, batches("mixed", counts[1], Events.MIXED, kib), log)
            runs = []
            for each in counts:
                made = batches("mixed", each, Events.MIXED, kib)
                # Writes are answered as fast as to the handlers beside this one, so all wait for their calls alike.
                cloud = Cloud(made, table=notes, asked_of_table=READS)
                runs.append(await run(handler, made, log, cloud))
                cloud.check()
            return Pair(*runs)

        async def pair_of(name: str, handler: Handler) -> Pair:
            if name in (DROP_IN, LARGE):
                return await pair_without_envelopes(handler, *((LARGE_KIB, LARGE_PART) if name == LARGE else (1, 1)))
            return await pair(handler, "mixed")

        # The first run isn't measured. It fills the file cache and lets Python compile its modules.
        for handler in (ours, floor):
            await run(handler, batches("mixed", SHORT_BATCHES), log)
        for number in range(1, rounds + 1):
            print(f"round {number} of {rounds}", file=sys.stderr)
            for arrangement, pairs in measured.items():
                pairs.append((await pair(ours, arrangement), await pair(floor, arrangement)))
            for name, handler in handlers.items():
                ways[name].append(await pair_of(name, handler))
    return measured, ways


def row(
    name: str, unit: tuple[str, float, int], ours: list[float], floors: list[float], limit: float | None = None
) -> list[str]:
    """The line of the table for the values of all rounds. The goal is a limit, or a multiple of the floor's value."""
    suffix, size, digits = unit

    def spread(values: list[float]) -> str:
        middle, low, high = (f"{of(values) / size:.{digits}f}" for of in (statistics.median, min, max))
        return f"{middle}{suffix}" + ("" if low == high else f" ({low} to {high})")

    # Computed for each round, then the median.
    ratio = statistics.median(one / other for one, other in zip(ours, floors, strict=True)) if floors else 0
    if limit is None:
        goal, is_reached = f"≤ {PART} × the floor", ratio <= PART
    else:
        goal, is_reached = f"≤ {spread([limit])}", statistics.median(ours) <= limit
    compared = [spread(floors), f"{ratio:.2f}"] if floors else ["–", "–"]
    return [name, spread(ours), *compared, goal, "yes" if is_reached else "NO"]


def table(measured: dict[str, Rounds], zipped_bytes: int) -> str:
    def of(rounds: Rounds, value: Callable[[Pair], float]) -> tuple[list[float], list[float]]:
        return [value(ours) for ours, _ in rounds], [value(floor) for _, floor in rounds]

    every = [pairs for rounds in measured.values() for pairs in rounds]
    rows = [
        ["figure", "retry-handler", "floor", "ratio", "must reach", "reached?"],
        *(
            row(f"AWS calls per message, {name}", CALLS, *of(rounds, calls_per_message), limit=CALLS_MAX[name])
            for name, rounds in measured.items()
        ),
        *(
            row(f"CPU per message, {name}", MICROSECONDS, *of(rounds, lambda pair: pair.cpu_per_message))
            for name, rounds in measured.items()
        ),
        row("process start to first answer", MILLISECONDS, *of(every, lambda pair: pair.short.start_seconds)),
        row("peak memory", MEBIBYTES, *of(every, lambda pair: pair.long.peak_bytes)),
        row("zipped bootstrap", MEBIBYTES, [zipped_bytes], [], limit=ZIP_MAX_BYTES),
    ]
    return aligned(rows)


def table_of_ways(ways: Ways) -> str:
    """The calls and the CPU time of each way, and the ratio to the one that it is compared with."""
    rows = [["each batch half and half", "AWS calls per message", "CPU per message", "ratio", "to"]]
    for name, own in ways.items():
        other = WAYS[name][1] if name in WAYS else PLAIN
        pairs = zip(own, ways[other], strict=True)
        ratio = statistics.median(one.cpu_per_message / base.cpu_per_message for one, base in pairs)
        calls = statistics.median(map(calls_per_message, own))
        cpu = statistics.median(pair.cpu_per_message for pair in own) / MICROSECONDS[1]
        compared = ["–", "–"] if name == other else [f"{ratio:.2f}", other]
        rows.append([name, f"{calls:.2f}", f"{cpu:.0f} µs", *compared])
    return aligned(rows)


def table_of_ledger(document: Mapping[str, Any]) -> str:
    """What a retry takes of the ledger, in full batches."""
    names = ("writes", "write units", "transactions", "reads", "read units")
    rows = [["of one retry, in full batches", *names, "must reach"]]
    for mode, limits in WITHIN_LIMITS.items():
        taken = of_a_retry(document, mode, BATCH_SIZE)
        goal = ", ".join(f"{most} {what}" for what, most in limits.items())
        rows.append([mode, *(f"{taken[name]:g}" for name in names), f"≤ {goal}"])
    return aligned(rows)


def aligned(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in rows)


def calls_per_message(pair: Pair) -> float:
    return pair.long.calls / pair.long.messages


def zipped_size(bootstrap: Path) -> int:
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            archive.write(bootstrap, "bootstrap")
        return file.tell()


def main() -> int:
    parser = argparse.ArgumentParser(description="What a failed event costs.")
    parser.add_argument("bootstrap", type=Path, help="the retry handler, a release build")
    parser.add_argument("floor", type=Path, help="the floor, a release build")
    parser.add_argument("--before", type=Path, help="an earlier build of the retry handler")
    parser.add_argument("--rounds", type=int, default=7, help="how often all is measured")
    parser.add_argument("--batches", type=int, default=300, help="by how many a long run is longer")
    arguments = parser.parse_args()

    ours = Handler("retry-handler", [str(arguments.bootstrap.resolve())], {})
    # Our handler learns the queue from its messages. The floor needs a setting.
    queue_url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/retry-queue"
    floor = Handler("floor", [str(arguments.floor.resolve())], {"RETRY_QUEUE_URL": queue_url})
    handlers = {name: replace(ours, environment=environment) for name, (environment, _) in WAYS.items()}
    if arguments.before:
        handlers[BEFORE] = Handler("the earlier build", [str(arguments.before.resolve())], {})
    try:
        measured, ways = asyncio.run(measure(ours, floor, handlers, arguments.rounds, arguments.batches))
        document = asyncio.run(counted(arguments.bootstrap, WITHIN_LIMITS))
        tables = (table(measured, zipped_size(arguments.bootstrap)), table_of_ways(ways), table_of_ledger(document))
        print(*tables, sep="\n\n")
    except (NotMeasured, OSError) as error:
        print(f"could not measure: {error}", file=sys.stderr)
        return 1
    messages = len(ARRANGEMENTS) * arguments.rounds * arguments.batches * BATCH_SIZE
    print(f"\nMedians (least to most) of {arguments.rounds} rounds, {messages:,} messages each side.")
    over = list(over_limits(document))
    print(*over, sep="\n", end="", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
