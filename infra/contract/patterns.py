"""What the text of a setting must look like: a regular expression, and the same in words.

A pattern checks the form, and keeps the number of digits within that of the bounds. The bounds themselves are the
handler's: it doesn't start with a value outside them, and `comeback doctor` names it. A pattern of digits that knows
the bounds has 500 characters, and nobody can read it.
"""

from typing import Any

SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# A text that is not blank. The handler takes away the spaces around it.
TEXT = r"\s*[^,\s][^,]*"


def seconds(duration: str) -> int:
    return int(duration[:-1]) * SECONDS_PER_UNIT[duration[-1]]


def number(largest: int) -> str:
    """A whole number that has no more digits than the largest."""
    return f"[1-9][0-9]{{0,{len(str(largest)) - 1}}}"


def listed(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def form(it: dict[str, Any]) -> dict[str, str]:
    """Returns the pattern of a setting that deployments have an option for, and what it expects."""
    match it["type"]:
        case "duration":
            pattern = f"{number(seconds(it['max']))}[smhd]?"
            expected = f"a duration such as 15m, from {it['min']} to {it['max']}"
        case "durations":
            duration = f"{number(seconds(it['max']))}[smhd]?"
            pattern = f"{duration}(, ?{duration})*"
            expected = f"durations such as {it['example']}, each from {it['min']} to {it['max']}"
        case "whole":
            pattern, expected = number(it["max"]), f"a whole number from 1 to {it['max']}"
        case "choice" | "flag":
            options = it.get("options", ["true", "false"])
            pattern, expected = f"({'|'.join(options)})", listed(options)
        case "list":
            pattern, expected = f"({TEXT}(,{TEXT})*)?", "texts that are not blank, separated by commas"
        case "pointer":
            pattern, expected = it["pattern"].strip("^$"), "a JSON pointer such as /tenant/id"
    return {"pattern": f"^{pattern}$", "expected": expected}
