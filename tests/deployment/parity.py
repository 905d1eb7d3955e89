"""Compares the system that CDK's example makes with the one that SAM's makes, so that they never drift.

Compared are queues, their policies, the mapping, roles, the handler with its environment, recursion, the event
invoke config, the ledger and alarms: all their properties but names, descriptions and where code lies.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import sam
from system import System
from template import Template

SAM_EXAMPLE = Path(__file__).resolve().parents[2] / "infra" / "sam" / "example" / "template.yaml"


def synthesised(assembly: Path) -> Template:
    """The only stack of a CDK application."""
    (path,) = assembly.glob("*.template.json")
    return Template(json.loads(path.read_text()))


def differences(cdk: Template, sam: Template) -> Iterator[str]:
    """Each fact that one of them has and the other one lacks, related ones side by side."""
    made_by = {name: System(list(template.resources())).facts() for name, template in {"CDK": cdk, "SAM": sam}.items()}
    only = [(fact, "CDK") for fact in made_by["CDK"] - made_by["SAM"]]
    only += [(fact, "SAM") for fact in made_by["SAM"] - made_by["CDK"]]
    return (f"only {who}: {fact}" for fact, who in sorted(only))


def main() -> int:
    """Prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assembly", type=Path, help="the synthesised CDK example, cdk.out")
    arguments = parser.parse_args()
    found = list(differences(synthesised(arguments.assembly), sam.transformed(SAM_EXAMPLE)))
    for difference in found:
        print(difference, file=sys.stderr)
    print(f"CDK's example beside SAM's: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
