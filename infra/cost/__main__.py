"""The tables of COST.md.

python3 infra/cost            checks that the page has the computed tables
python3 infra/cost --write    writes the tables into the page
"""

import argparse
import json
import sys
from pathlib import Path

from model import Counted
from tables import filled, tables

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "COST.md"
COUNTED = HERE / "counted.json"


def main() -> int:
    """Writes the page's tables, or compares them."""
    parser = argparse.ArgumentParser(prog="infra/cost", description="The tables of COST.md.")
    parser.add_argument("--write", action="store_true", help="write them into the page")
    arguments = parser.parse_args()
    page = PAGE.read_text()
    made = filled(page, tables(Counted.of(json.loads(COUNTED.read_text()))))
    if arguments.write:
        PAGE.write_text(made)
    elif made != page:
        print("infra/COST.md has outdated tables; run: python3 infra/cost --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
