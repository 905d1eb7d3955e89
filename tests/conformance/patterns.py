"""Patterns in tables."""

from collections.abc import Iterator


def expanded(pattern: str) -> Iterator[str]:
    """All texts that match a pattern: `a{b,c}` matches `ab` and `ac`."""
    before, brace, rest = pattern.partition("{")
    if not brace:
        yield pattern
        return
    choices, _, after = rest.partition("}")
    for choice in choices.split(","):
        yield from expanded(before + choice + after)
