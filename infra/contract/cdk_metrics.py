"""The metrics of the handler in CDK: the construct's methods, their statistics and their list."""

import re

from model import HANDLER
from text import WIDTH, wrapped

# What the methods for metrics say of their statistics.
STATISTICS = {"Sum": "sum", "Maximum": "maximum", "p99": "99th percentile"}


def methods() -> str:
    """Returns a method for each metric of the handler."""
    blocks = []
    for name, unit, statistic, said in HANDLER["metrics"]:
        # The links are those of the page that has the table.
        said = re.sub(r" \(\[.+?\]\(.+?\)\)", "", said) + ("" if unit == "Count" else f", in {unit.lower()}")
        said = f"{said[0].upper()}{said[1:]}. By default the {STATISTICS[statistic]}."
        line = f"  /** {said} */"
        lines = [
            *([line] if len(line) <= WIDTH else ["  /**", *wrapped(said, "   * "), "   */"]),
            f"  public metric{name}(options: RetryMetricOptions = {{}}): cloudwatch.IMetric {{",
            f"    return this._metric('{name}', options);",
            "  }",
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def list_of_methods() -> str:
    return "\n".join(wrapped(", ".join(f"`metric{name}`" for name, *_ in HANDLER["metrics"]), ""))


def statistics() -> str:
    """Returns the statistics of those metrics that are not summed up."""
    return "\n".join(f"  {name}: '{statistic}'," for name, _, statistic, _ in HANDLER["metrics"] if statistic != "Sum")
