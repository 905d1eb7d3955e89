"""The output of a run: a table in Markdown, and a JSON document."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from costs import Cost
from play import Result


@dataclass(frozen=True)
class Played:
    """The results of a run, in the form of its JSON document."""

    name: str
    region: str
    emulator: str | None
    seconds: int
    results: list[Result]
    costs: list[Cost]
    # The handlers' warnings and errors, with their counts.
    warnings: dict[str, int]

    @property
    def dollars(self) -> float:
        """What it cost."""
        return sum(each.dollars for each in self.costs)


def markdown(played: Played) -> str:
    """All tables."""
    counts = Counter(each.result for each in played.results)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    rows = [
        f"{played.name} in {played.emulator or played.region}, {played.seconds} s: {told}",
        "",
        "| scenario or question | result | seconds | |",
        "|---|---|---|---|",
        *(f"| {each.name} | {each.result} | {each.seconds:.1f} | {_cell(each.said)} |" for each in played.results),
        "",
        f"At AWS's prices in US East (N. Virginia) about {played.dollars:.2f} dollars:",
        "",
        "| what | how much | dollars |",
        "|---|---|---|",
        *(f"| {each.what} | {each.count:,} | {each.dollars:.4f} |" for each in played.costs),
    ]
    if played.warnings:
        rows += ["", "| what the handlers warned of | times |", "|---|---|"]
        rows += [f"| {_cell(warning)} | {count} |" for warning, count in played.warnings.items()]
    return "\n".join(rows)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def write(path: Path, played: Played) -> None:
    """Writes the JSON document."""
    document = asdict(played) | {"dollars": round(played.dollars, 4)}
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
