"""Makes the same calls to the local cloud and to moto, and compares the answers.

Neither is AWS, but different people wrote them from the same documentation. Where they agree, both are probably right.
Where they differ, `differences.toml` says which of them is right according to AWS's documentation. The run fails if a
difference is not in that table, if it has changed, or if a listed one no longer exists.
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

import endpoints
import yaml
from answers import Answer, Notebook
from endpoints import Endpoint

# Cases mostly wait, so more of them run at a time than there are cores.
CASES_AT_A_TIME = 8


CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())
TOLD = CASES.pop("told")


TABLE = Path(__file__).with_name("differences.toml")

RIGHT = ("local", "moto", "both")

# Stands for the missing answer if only one of the two got this call in a case.
NO_CALL = "no such call"


# Matches any text at the end of a listed answer.
ANYTHING = " …"


@dataclass(frozen=True)
class Difference:
    """The two answers to one step of a case."""

    local: str
    moto: str

    def is_like(self, listed: Self) -> bool:
        """Whether it matches the listed difference."""
        return _is_like(self.local, listed.local) and _is_like(self.moto, listed.moto)

    def render(self, place: str) -> str:
        """Formats the difference as a line of the table."""
        return f'"{place}" = {{ local = {_quoted(self.local)}, moto = {_quoted(self.moto)} }}'


def _is_like(answer: str, listed: str) -> bool:
    if listed.endswith(ANYTHING):
        return answer.startswith(listed.removesuffix(ANYTHING))
    return answer == listed


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else json.dumps(text)


@dataclass(frozen=True)
class Table:
    """The differences whose right answer was looked up in the documentation, by place: `topic/case/step`."""

    listed: Mapping[str, Difference]

    @classmethod
    def read(cls) -> Self:
        """Reads the repository's table.

        Raises:
            ValueError: if an entry has the wrong keys, says wrongly who is right, or lists a place twice.
        """
        listed: dict[str, Difference] = {}
        for entry in tomllib.loads(TABLE.read_text())["difference"]:
            if entry.keys() != {"what", "right", "documentation", "answers"}:
                raise ValueError(f"expected what, right, documentation, answers; got {[*entry]}")
            if entry["right"] not in RIGHT:
                raise ValueError(f"expected one of {RIGHT} to be right, got {entry['right']}")
            for pattern, answers in entry["answers"].items():
                for place in expanded(pattern):
                    if place in listed:
                        raise ValueError(f"expected {place} once")
                    listed[place] = Difference(**answers)
        return cls(listed)

    def complaints(self, found: Mapping[str, Difference]) -> list[str]:
        """Compares the found differences with the table. Returns a text for each that is unlisted, changed or gone."""
        unlisted = [
            f"not in {TABLE.name}, or not like this:\n{difference.render(place)}"
            for place, difference in found.items()
            if place not in self.listed or not difference.is_like(self.listed[place])
        ]
        gone = [f"in {TABLE.name}, but they agree: {place}" for place in self.listed if place not in found]
        return unlisted + gone


def expanded(pattern: str) -> Iterator[str]:
    """All places that match a pattern: `a{b,c}` matches `ab` and `ac`."""
    before, brace, rest = pattern.partition("{")
    if not brace:
        yield pattern
        return
    choices, _, after = rest.partition("}")
    for choice in choices.split(","):
        yield from expanded(before + choice + after)


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
