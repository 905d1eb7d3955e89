"""Wrapped texts, and tables in Markdown."""

import textwrap
from collections.abc import Iterable

WIDTH = 120


def wrapped(text: str, prefix: str) -> list[str]:
    """Returns the lines of a text. Only spaces between words become line breaks."""
    return textwrap.wrap(text, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)


def table(head: str, rows: Iterable[tuple[str, ...]], last: str = "---") -> str:
    columns = "|".join(["---"] * head.count("|") + [last])
    return "\n".join([f"| {head} |", f"|{columns}|", *(f"| {' | '.join(row)} |" for row in rows)])


def shown(default: str | None) -> str:
    """Returns a default as tables show it. A parameter without one is required."""
    return "required" if default is None else f"`{default}`" if default else "none"
