"""Makes the same calls to the local cloud and to moto, and compares the answers.

Neither is AWS, but different people wrote them from the same documentation. Where they agree, both are probably right.
Where they differ, `differences.toml` says what the documentation requires.
"""

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

import endpoints
import yaml
from answers import Answer, Notebook
from differences import NO_CALL, Difference, Table
from endpoints import Endpoint

# Cases mostly wait, so more of them run at a time than there are cores.
CASES_AT_A_TIME = 8


CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())
TOLD = CASES.pop("told")


def ask(endpoint: Endpoint, cases: Mapping[str, list[Any]]) -> dict[str, list[Answer]]:
    """Runs all cases at one endpoint. Returns their answers."""
    clients = {service: endpoint.client(service) for service in ("sqs", "lambda")}

    def answers(item: tuple[str, list[Any]]) -> list[Answer]:
        name, steps = item
        notebook = Notebook(endpoint, clients, name)
        try:
            notebook.play(steps, TOLD)
        except Exception as error:
            error.add_note(f"in {name} at {endpoint.name}, after {notebook.answers}")
            raise
        return notebook.answers

    with ThreadPoolExecutor(CASES_AT_A_TIME) as pool:
        return dict(zip(cases, pool.map(answers, cases.items()), strict=True))


def compare(ours: list[Answer], theirs: list[Answer]) -> dict[str, Difference]:
    """Compares the answers to one case. Returns the steps that differ."""
    absent = Answer("", NO_CALL)
    pairs = zip_longest(ours, theirs, fillvalue=absent)
    return {own.step or other.step: Difference(own.text, other.text) for own, other in pairs if own.text != other.text}


def main() -> int:
    """Runs all cases at both endpoints, and prints complaints about unlisted differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="comeback-local")
    arguments = parser.parse_args()

    table = Table.read()
    cases = {f"{topic}/{name}": steps for topic, those in CASES.items() for name, steps in those.items()}
    with (
        endpoints.local(arguments.program.resolve()) as local,
        endpoints.moto() as moto,
        ThreadPoolExecutor(2) as pool,
    ):
        ours, theirs = pool.map(lambda endpoint: ask(endpoint, cases), (local, moto))
    found = {
        f"{name}/{step}": difference for name in cases for step, difference in compare(ours[name], theirs[name]).items()
    }
    complaints = table.complaints(found)
    for complaint in complaints:
        print(complaint, end="\n\n", file=sys.stderr)
    answers = sum(map(len, ours.values()))
    print(f"{len(cases)} cases, {answers} answers, {len(found)} of them differ", end=", ")
    print(f"{len(complaints)} complaints" if complaints else "all of those are looked up")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
