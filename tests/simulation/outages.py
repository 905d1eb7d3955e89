#!/usr/bin/env python3
"""Plays the outages of docs/design/outages.md and docs/design/outages-probed.md, and writes what is printed into the
rows of their tables.

    tests/simulation/outages.py [--large] [WORD ...]    only rows whose options contain all of the words
    tests/simulation/outages.py --check [--large]       compares instead of writing, and fails if a row is stale

A row is played with the options in its first cell; its other cells follow from the head of the table. The same options
give the same figures on every machine. Time and memory, which don't, are printed beside them.

Rows with more than 100,000 events take minutes and gigabytes each, and are left as they are without --large.
"""

import argparse
import json
import re
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs/design/outages.md", ROOT / "docs/design/outages-probed.md"]
TABLE = re.compile(r"(<!-- generated: (?:[^,]+), by tests/simulation/outages\.py -->\n)(.*?)(<!-- end: )", re.DOTALL)
# The profile of benchmarks optimises across crates: a quarter of the time less.
CARGO = ["--quiet", "--locked", "--profile", "bench", "--package", "simulation"]

LARGE = 100_000
ARRIVALS, RATE = 1200, 10

COLUMNS = {
    "events": "events",
    "waited at once": "waited_at_once",
    "retries while down": "retries_while_down",
    "first success after": "first_success_after",
    "95 % after": "recovered_after",
    "A late p50": "a_late_p50",
    "p99": "a_late_p99",
    "max": "a_late_max",
    "A late max": "a_late_max",
    "B late max": "b_late_max",
}
SECONDS = {"first_success_after", "recovered_after"}


def number_of(options: list[str], name: str, default: int) -> int:
    return int(options[options.index(name) + 1]) if name in options else default


def is_large(options: list[str]) -> bool:
    return number_of(options, "--rate", RATE) * number_of(options, "--arrivals", ARRIVALS) > LARGE


def written(name: str, figure: float | None) -> str:
    if figure is None:
        return "never"
    if name in SECONDS:
        return f"{figure} s"
    return f"{figure:.1f}" if isinstance(figure, float) else f"{figure:,}"


def played(options: list[str]) -> dict:
    began = time.monotonic()
    command = ["cargo", "run", *CARGO, "--", "outage", "--json", *options]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"{shlex.join(options)}: {process.stdout}{process.stderr}")
    # The largest of all children so far, in kilobytes: rows are played from the smallest to the largest.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"{time.monotonic() - began:.0f} s, at most {peak} MiB so far: {shlex.join(options)}", file=sys.stderr)
    return json.loads(process.stdout)


def row(line: str, head: list[str], asked: argparse.Namespace) -> str:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    options = shlex.split(cells[0].strip("`"))
    if not all(word in cells[0] for word in asked.words) or (is_large(options) and not asked.large):
        return line
    figures = played(options)
    new = [written(COLUMNS[name], figures[COLUMNS[name]]) for name in head[1:]]
    return f"| {' | '.join([cells[0], *new])} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("words", nargs="*", metavar="WORD")
    asked = parser.parse_args()
    subprocess.run(["cargo", "build", *CARGO], cwd=ROOT, check=True)
    stale = []
    for page in PAGES:
        text = page.read_text()

        def made(table: re.Match) -> str:
            head, line, *rows = table[2].splitlines(keepends=True)
            names = [cell.strip() for cell in head.strip().strip("|").split("|")]
            return table[1] + head + line + "".join(row(one, names, asked) for one in rows) + table[3]

        new = TABLE.sub(made, text)
        if new == text:
            continue
        stale.append(page)
        if not asked.check:
            page.write_text(new)
    if asked.check and stale:
        sys.exit(f"stale: {', '.join(str(page.relative_to(ROOT)) for page in stale)}; run tests/simulation/outages.py")


if __name__ == "__main__":
    main()
