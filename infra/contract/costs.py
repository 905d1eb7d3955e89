"""What `infra/cost` says of prices, for documents, SAM's dashboard and `comeback simulate`."""

import json
import sys

from model import ROOT

sys.path.append(str(ROOT / "infra/cost"))

import cost
import tables

COUNTED = cost.Counted(json.loads((ROOT / "infra/cost/counted.json").read_text()))
PRICES = cost.PRICES


def dollars(name: str) -> str:
    return f"{PRICES[name]['dollars']:.10f}".rstrip("0")


def prices_of_retries() -> str:
    """Returns what `comeback simulate` knows of the costs."""

    def dead_letter(mode: str, size: int) -> cost.Usage:
        """With a ledger, only single dead letters are counted. What they take of it is the same in a full batch."""
        way = cost.Way(size, mode)
        if ("given_up", size, mode) in COUNTED.batches:
            return cost.dead_letter(COUNTED, way)
        single, plain = (cost.dead_letter(COUNTED, cost.Way(cost.QUIET, each)) for each in (mode, "plain"))
        of_ledger = cost.Usage({price: single[price] - plain[price] for price in single if cost.is_of_table(price)})
        return cost.dead_letter(COUNTED, cost.Way(size)) + of_ledger

    lines = []
    for said, name, mode in (
        ("With envelopes, and without a ledger", "WITH_ENVELOPES", "plain"),
        ("Without envelopes", "DROP_IN", "drop_in"),
    ):
        usages = {
            "retry": [cost.retry(COUNTED, cost.Way(size, mode)) for size in (cost.BUSY, cost.QUIET)],
            "hop": [cost.handled(COUNTED, "waits", cost.Way(size, mode)) for size in (cost.BUSY, cost.QUIET)],
            "dead_letter": [dead_letter(mode, size) for size in (cost.BUSY, cost.QUIET)],
        }
        members = (
            f"{member}: [{', '.join(tables.million(each)[1:] for each in both)}]" for member, both in usages.items()
        )
        lines += [
            f"/// {said}.",
            f"const {name}: Prices =",
            f"    Prices {{ {', '.join(members)} }};",
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
