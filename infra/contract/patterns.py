"""The regular expressions for settings, which CloudFormation checks before it deploys anything.

They check the form, and keep the number of digits within that of the bounds. The bounds themselves are the handler's:
it doesn't start with a value outside them, and `comeback doctor` names it. A pattern of digits that knows the bounds
has 500 characters, and nobody can read it.
"""

from typing import Any

SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration: str) -> int:
    return int(duration[:-1]) * SECONDS_PER_UNIT[duration[-1]]


def number(largest: int) -> str:
    """A whole number that has no more digits than the largest."""
    return f"[1-9][0-9]{{0,{len(str(largest)) - 1}}}"


def pattern(it: dict[str, Any]) -> str:
    if it["type"] == "whole":
        return f"^({number(it['max'])})?$"
    duration = f"{number(seconds(it['max']))}[smhd]?"
    return f"^({duration}(, ?{duration})*)?$" if it["type"] == "durations" else f"^{duration}$"
