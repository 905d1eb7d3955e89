"""Counts the instructions that builds of the retry handler take for a message, with valgrind.

    python3 tests/bench/instructions.py PROGRAM ...

CPU time differs between two runs of one program by a tenth and more on a busy machine; this doesn't. So it shows what a
change costs those who don't use what it brings. As in the bench, each batch is half and half, and the start of the
process doesn't count.

Needs Linux, Python 3.11 or later, and valgrind.
"""

import asyncio
import re
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench import SHORT_BATCHES
from count import LEDGER
from messages import batches
from process import Handler, run

# What is switched on.
MODES: dict[str, Mapping[str, str]] = {"without a ledger": {}, "with a ledger": LEDGER}

BATCHES = 100


async def instructions(program: str, environment: Mapping[str, str], count: int, folder: Path) -> tuple[int, int]:
    """The instructions of a run of so many batches, and its messages."""
    counted = folder / "counted"
    command = ["/usr/bin/valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={counted}", program]
    handler = Handler(program, command, environment)
    # valgrind writes what it has counted when it is told to end.
    ran = await run(handler, batches("mixed", count), folder / "log", ends_by=signal.SIGTERM)
    found = re.search(r"^(?:summary|totals): (\d+)", counted.read_text(), re.MULTILINE)
    if not found:
        sys.exit(f"expected that {counted} has a sum")
    return int(found[1]), ran.messages


async def main(programs: list[str]) -> None:
    for program in programs:
        for mode, environment in MODES.items():
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                short = await instructions(program, environment, SHORT_BATCHES, Path(folder))
                long = await instructions(program, environment, SHORT_BATCHES + BATCHES, Path(folder))
            each = round((long[0] - short[0]) / (long[1] - short[1]))
            print(f"{program}, {mode}: {each:,} instructions a message")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    asyncio.run(main([str(Path(program).resolve()) for program in sys.argv[1:]]))
