"""The regular expressions for settings, which CloudFormation checks before it deploys anything."""

from typing import Any


def numbers(low: int, high: int) -> str:
    """Returns a regular expression for the whole numbers in a range that begins below 10."""
    digits = len(str(high))
    if digits == 1:
        return f"[{low}-{high}]"
    parts = [f"[{low}-9]"] if low > 1 else []
    if digits > 1 + (low > 1):
        parts.append(f"[1-9][0-9]{{{int(low > 1)},{digits - 2}}}")
    return "|".join(parts + same_length("1" + "0" * (digits - 1), str(high)))


def same_length(low: str, high: str) -> list[str]:
    """Returns regular expressions for the numbers in a range of numbers that have the same length."""
    if len(low) == 1:
        return [low if low == high else f"[{low}-{high}]"]
    rest = len(low) - 1
    any_rest = "[0-9]" + (f"{{{rest}}}" if rest > 1 else "")
    if low[1:] == "0" * rest and high[1:] == "9" * rest:
        return [(low[0] if low[0] == high[0] else f"[{low[0]}-{high[0]}]") + any_rest]
    if low[0] == high[0]:
        return [low[0] + part for part in same_length(low[1:], high[1:])]
    below = str(int(high[0]) - 1)
    full = (low[0] if low[0] == below else f"[{low[0]}-{below}]") + any_rest
    return [full, *same_length(high[0] + "0" * rest, high)]


SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration: str) -> int:
    return int(duration[:-1]) * SECONDS_PER_UNIT[duration[-1]]


def pattern(it: dict[str, Any]) -> str:
    if it["type"] == "whole":
        return f"^({numbers(1, it['max'])})?$"
    units = []
    is_list = it["type"] == "durations"
    for unit, per_unit in SECONDS_PER_UNIT.items():
        (low, high) = (-(-seconds(it["min"]) // per_unit), seconds(it["max"]) // per_unit)
        if high:
            units.append(f"({numbers(low, high)}){unit}{'?' if unit == 's' else ''}")
    duration = "|".join(units)
    return f"^(({duration})(, ?({duration}))*)?$" if is_list else f"^({duration})$"
