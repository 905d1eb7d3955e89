#!/usr/bin/env python3
"""Puts all defects into one build of a copy of the tree. For each, plays worlds until one breaks a rule: those of
seeds, and then those of kept scripts. If none does, it searches small systems (tests/search). Prints caught.csv: the
defect, the check that caught it, and the seed, the script or the system.

    tests/simulation/defects/run.py [--seeds N] [WORD ...]     only defects whose names contain one of the words
    tests/simulation/defects/run.py --search [WORD ...]        only searches
    tests/simulation/defects/run.py --check                    only look for the text that each replaces, and its row
"""

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from defects import DEFECTS
from plant import NUMBER, plant

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
SCRIPTS = HERE.parent / "scripts"
COPY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "defects"
# A target directory of its own, so that nobody runs a program with a defect by mistake.
TARGET = COPY / "target"
PACKAGES = ["--package", "simulation", "--package", "search"]
CARGO = ["cargo", "build", "--quiet", "--jobs", "2", "--manifest-path", COPY / "Cargo.toml", *PACKAGES]


def copy_tree():
    """Copies the changed files, and deletes those that no longer exist."""
    # An unchanged file must not look newer than its build output.
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for file in COPY.rglob("*.rs"):
        if TARGET not in file.parents and str(file.relative_to(COPY)) not in names:
            file.unlink()
    for name in filter(None, names):
        source, copy = ROOT / name, COPY / name
        if source.is_file() and not (copy.is_file() and copy.read_bytes() == source.read_bytes()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def build(tree):
    if subprocess.run(CARGO, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)}).returncode != 0:
        sys.exit(f"expected that the tree with {tree} compiles")


def play(seeds, number):
    """Returns the check that failed and its seed or script, or two Nones if all held."""
    program = TARGET / "debug" / "simulation"
    planted = {**os.environ, NUMBER: str(number)}
    run = [program, "run", "--seeds", str(seeds), "--threads", "2", "--brief"]
    played = subprocess.run(run, capture_output=True, env=planted)
    said = played.stdout.decode(errors="replace")
    if found := re.search(r"^seed (\d+): (\w+): ", said, re.MULTILINE):
        return found[2], f"seed {found[1]}"
    if found := re.search(r"^(DrawsSpread): ", said, re.MULTILINE):
        return found[1], f"all {seeds} worlds"
    if played.returncode != 0:
        return "a panic", played.stderr.decode()[-300:]
    names = [str(script.relative_to(SCRIPTS.parent)) for script in sorted(SCRIPTS.glob("*.script"))]
    play = [program, "play", *names]
    played = subprocess.run(play, capture_output=True, text=True, cwd=SCRIPTS.parent, env=planted)
    if found := re.search(r"^(scripts/\S+): (\w+): ", played.stdout, re.MULTILINE):
        return found[2], found[1]
    rule, system = search(number)
    return rule, system and f"search: {system}"


def search(number):
    """Returns the rule that a search found broken and the system, or two Nones if all rules held."""
    planted = {**os.environ, NUMBER: str(number)}
    searched = subprocess.run([TARGET / "debug" / "search"], capture_output=True, text=True, env=planted)
    if found := re.search(r"^([^:\n]+): (\w+): ", searched.stdout, re.MULTILINE):
        return found[2], found[1]
    return (None, None) if searched.returncode == 0 else ("a panic", searched.stderr[-300:])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=2000)
    arguments.add_argument("--search", action="store_true")
    arguments.add_argument("--check", action="store_true")
    arguments.add_argument("words", nargs="*")
    arguments = arguments.parse_args()
    defects = [(name, f"shared/{place.replace('/', '/src/', 1)}.rs", *texts) for name, place, *texts in DEFECTS]
    for name, path, old, _ in defects:
        if (found := (ROOT / path).read_text().count(old)) != 1:
            sys.exit(f"{name}: expected once in {path}, found {found} times: {old}")
    searched, caught = (list(csv.DictReader((HERE / f"{by}.csv").open())) for by in ("searched", "caught"))
    if alone := {each["defect"] for each in searched} - {each["defect"] for each in caught}:
        sys.exit(f"expected rows of caught.csv for what the search finds, but none for {sorted(alone)}")
    if arguments.check:
        unlike = {name for name, *_ in DEFECTS} ^ {each["defect"] for each in caught}
        if unlike:
            sys.exit(f"expected a row of caught.csv for each defect, and none beside them: {sorted(unlike)}")
        found = {each["defect"]: f"{each['caught by']} search: {each['in']}" for each in searched}
        for each in caught:
            by = f"{each['caught by']} {each['in']}"
            if each["in"].startswith("search: ") and found.get(each["defect"]) != by:
                sys.exit(f"expected what searched.csv says of {each['defect']!r}, got {by!r}")
        told = {each["in"] for each in caught if each["in"].startswith("scripts/")}
        if gone := {script for script in told if not (SCRIPTS.parent / script).is_file()}:
            sys.exit(f"expected that a script of caught.csv is there: {sorted(gone)}")
        if not told:
            sys.exit("expected a defect that only a script catches, got none in caught.csv")
        if f"each of {len(DEFECTS)} defects" not in " ".join((HERE.parent / "README.md").read_text().split()):
            sys.exit(f"README.md: expected that it says how many defects there are, {len(DEFECTS)}")
        return 0
    copy_tree()
    chosen = {
        number: defect
        for number, defect in enumerate(defects, 1)
        if not arguments.words or any(word in defect[0] for word in arguments.words)
    }
    # A constant has no body that could be chosen, so such a defect needs a build of its own.
    alone = plant(COPY, chosen)
    build("all of the defects")
    missed = 0
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["defect", "where", "caught by", "in"])
    for number, (name, path, old, new) in sorted(chosen.items(), key=lambda it: it[0] in alone):
        file = COPY / path
        text = file.read_text()
        if number in alone:
            file.write_text(text.replace(old, new))
            build(name)
        check, seed = search(number) if arguments.search else play(arguments.seeds, number)
        file.write_text(text)
        missed += check is None
        rows.writerow([name, path.removeprefix("shared/"), check or "nothing", seed or ""])
        sys.stdout.flush()
    return missed


if __name__ == "__main__":
    sys.exit(main())
