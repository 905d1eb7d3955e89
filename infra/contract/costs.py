"""What `infra/cost` says of prices, for documents, SAM's dashboard and `comeback simulate`."""

import json
import sys

from model import ROOT

sys.path.append(str(ROOT / "infra/cost"))

import cost
import tables

COUNTED = cost.Counted(json.loads((ROOT / "infra/cost/counted.json").read_text()))


def dollars(name: str) -> str:
    return f"{cost.PRICES[name]['dollars']:.10f}".rstrip("0")


def prices_of_retries() -> str:
    """Returns what `comeback simulate` knows of the costs."""
    kinds = (
        ("The price of a million retries", "RETRIES", cost.retry),
        (
            "A million further hops of waits that one visibility timeout can't cover",
            "HOPS",
            lambda counted, way: cost.handled(counted, "waits", way),
        ),
        ("A million dead letters", "DEAD_LETTERS", cost.dead_letter),
    )
    lines = []
    for said, name, usage in kinds:
        busy, quiet = (tables.million(usage(COUNTED, cost.Way(size)))[1:] for size in (cost.BUSY, cost.QUIET))
        lines += [
            f"/// {said}, in batches of ten and in batches of one.",
            f"const {name}: [f64; 2] = [{busy}, {quiet}];",
        ]
    return "\n".join(
        [
            *lines,
            "/// A million requests of Lambda.",
            f"const REQUESTS: f64 = {dollars('lambda_request')};",
            "/// A second of Lambda with a GB of memory, on arm64.",
            f"const GB_SECOND: f64 = {rust_digits(dollars('gb_second'))};",
        ]
    )


def rust_digits(number: str) -> str:
    """Returns a number with its digits after the point in groups of three."""
    whole, fraction = number.split(".")
    return f"{whole}.{'_'.join(fraction[at : at + 3] for at in range(0, len(fraction), 3))}"
