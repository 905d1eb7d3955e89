"""A table that compares the figures of both handlers, and shows whether ours reaches its goals."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

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
