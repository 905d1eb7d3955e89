"""Checks the differences between the local cloud and moto against the table in `differences.toml`.

For each difference, the table says which of them is right according to AWS's documentation. The run fails if a
difference is not in the table, if it has changed, or if a listed one no longer exists.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

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
