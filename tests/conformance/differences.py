"""Where the two differ, as the table in `differences.toml` has it, and whether it is still so.

The documentation of AWS decides who is right. A difference that nobody has looked up fails the run,
and so does one that is listed but no longer there, or no longer what it was.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

TABLE = Path(__file__).with_name("differences.toml")

RIGHT = ("local", "moto", "both")

# Where a case made a call at one of them and not at the other.
NO_CALL = "no such call"


# At the end of a listed answer: whatever comes behind.
ANYTHING = " …"


@dataclass(frozen=True)
class Difference:
    """What each of them answers to one step of a case."""

    local: str
    moto: str

    def is_like(self, listed: Self) -> bool:
        """Whether it is the one that is listed."""
        return _is_like(self.local, listed.local) and _is_like(self.moto, listed.moto)

    def render(self, place: str) -> str:
        """The difference as the table has it."""
        return f'"{place}" = {{ local = {_quoted(self.local)}, moto = {_quoted(self.moto)} }}'


def _is_like(answer: str, listed: str) -> bool:
    if listed.endswith(ANYTHING):
        return answer.startswith(listed.removesuffix(ANYTHING))
    return answer == listed


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else json.dumps(text)


@dataclass(frozen=True)
class Table:
    """The differences that were looked up, by their places: `topic/case/step`."""

    listed: Mapping[str, Difference]

    @classmethod
    def read(cls) -> Self:
        """The table of the repository.

        Raises:
            ValueError: if an entry does not say what it has to.
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
        """What is not as the table has it."""
        unlisted = [
            f"not in {TABLE.name}, or not like this:\n{difference.render(place)}"
            for place, difference in found.items()
            if place not in self.listed or not difference.is_like(self.listed[place])
        ]
        gone = [f"in {TABLE.name}, but they agree: {place}" for place in self.listed if place not in found]
        return unlisted + gone


def expanded(pattern: str) -> Iterator[str]:
    """Every place that a pattern means: `a{b,c}` is `ab` and `ac`."""
    before, brace, rest = pattern.partition("{")
    if not brace:
        yield pattern
        return
    choices, _, after = rest.partition("}")
    for choice in choices.split(","):
        yield from expanded(before + choice + after)
