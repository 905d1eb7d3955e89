"""Compares the systems that CDK's construct and SAM's application make, so that they never drift apart: both examples
as they are, and with every option of both switched on.

It compares what is stated by hand in both: queues, their policies, the mapping, roles, the handler and its environment,
recursion, the event invoke config and the ledger: all properties except names, the descriptions of functions and the
location of code. Alarms are made from one file, infra/cdk/contract/alarms.json.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import everything
import sam
from system import System
from template import Template


def synthesised(assembly: Path) -> Template:
    """The only stack of a CDK application."""
    (path,) = assembly.glob("*.template.json")
    return Template(json.loads(path.read_text()))


def differences(of_cdk: Template, of_sam: Template) -> Iterator[str]:
    """The facts that only one of them has, sorted so that related facts are side by side."""
    made_by_cdk, made_by_sam = (System(list(each.resources())).facts() for each in (of_cdk, of_sam))
    only = [(fact, "CDK") for fact in made_by_cdk - made_by_sam]
    only += [(fact, "SAM") for fact in made_by_sam - made_by_cdk]
    return (f"only {who}: {fact}" for fact, who in sorted(only))


def main() -> int:
    """Prints the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", type=Path, help="the synthesized CDK example, cdk.out")
    parser.add_argument("everything", type=Path, help="the output of everything.js")
    arguments = parser.parse_args()
    pairs = {
        "the examples": (arguments.example, sam.read(sam.EXAMPLE)),
        "with everything": (arguments.everything, everything.switch_on(sam.read(sam.EXAMPLE))),
    }
    count = 0
    for name, (assembly, document) in pairs.items():
        template = sam.transformed_document(document, sam.EXAMPLE.parent)
        for difference in differences(synthesised(assembly), template):
            print(f"{name}: {difference}", file=sys.stderr)
            count += 1
    print(f"CDK's systems and SAM's: {count} differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
