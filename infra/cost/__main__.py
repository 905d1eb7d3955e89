"""The tables of COST.md and docs/cost-sources.md.

python3 infra/cost            checks that the pages have the computed tables
python3 infra/cost --write    writes the tables into the pages
"""

import argparse
import json
import sys
from pathlib import Path

from model import Counted
from tables import DOCUMENTS, filled, tables

HERE = Path(__file__).resolve().parent
COUNTED = HERE / "counted.json"


def main() -> int:
    """Writes the tables into the pages, or checks the pages."""
    parser = argparse.ArgumentParser(prog="infra/cost", description="The tables of COST.md and docs/cost-sources.md.")
    parser.add_argument("--write", action="store_true", help="write them into the pages")
    arguments = parser.parse_args()
    pages = [page.read_text() for page in DOCUMENTS]
    made = filled(pages, tables(Counted.of(json.loads(COUNTED.read_text()))))
    if arguments.write:
        for page, text in zip(DOCUMENTS, made, strict=True):
            page.write_text(text)
    elif made != pages:
        print("the tables of what a retry costs are outdated; run: python3 infra/cost --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
