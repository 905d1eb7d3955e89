"""Compares the systems that CDK's construct and SAM's application make, so that they never drift: both examples as
they are, and with all switched on that both have.

Compared are queues, their policies, the mapping, roles, the handler with its environment, recursion, the event
invoke config, the ledger and alarms: all their properties but names, descriptions and where code lies.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sam
from system import System
from template import Template

SAM_EXAMPLE = Path(__file__).resolve().parents[2] / "infra" / "sam" / "example" / "template.yaml"

# What tests/deployment/everything.js says with CDK's words.
EVERYTHING = {
    "BaseBackoff": "2s",
    "MaxBackoff": "3h",
    "MaxAge": "7d",
    "MaxAttempts": "50",
    "Jitter": "equal",
    "NonRetryableErrors": "ValidationError,*NotFound",
    "Policies": {"Fn::Sub": '{"${Orders}":{"MAX_AGE":"14d","MAX_ATTEMPTS":100}}'},
    "Ledger": "true",
    "KeyArn": {"Fn::GetAtt": ["Key", "Arn"]},
    "MaxConcurrency": "20",
    "LogRetentionDays": "7",
    "Tracing": "Active",
    # An hour more than the longest backoff, as the construct has it by itself.
    "AlarmOldestSeconds": "14400",
}


def synthesised(assembly: Path) -> Template:
    """The only stack of a CDK application."""
    (path,) = assembly.glob("*.template.json")
    return Template(json.loads(path.read_text()))


def with_everything(example: Template) -> Template:
    """SAM's example with all switched on."""
    document = json.loads(json.dumps(example.document))
    resources: dict[str, Any] = document["Resources"]
    resources["Key"] = {"Type": "AWS::KMS::Key"}
    resources["Retry"]["Properties"]["Parameters"] |= EVERYTHING
    resources["OrdersAlarms"]["Properties"]["Parameters"]["Ledger"] = "true"
    # A function that sends to an encrypted queue uses its key.
    resources["OrdersFailures"]["Properties"]["PolicyDocument"]["Statement"].append(
        {
            "Effect": "Allow",
            "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
            "Resource": {"Fn::GetAtt": ["Key", "Arn"]},
        }
    )
    return Template(document, example.parameters, example.nested)


def differences(cdk: Template, sam: Template) -> Iterator[str]:
    """Each fact that one of them has and the other one lacks, related ones side by side."""
    made_by_cdk, made_by_sam = (System(list(each.resources())).facts() for each in (cdk, sam))
    only = [(fact, "CDK") for fact in made_by_cdk - made_by_sam]
    only += [(fact, "SAM") for fact in made_by_sam - made_by_cdk]
    return (f"only {who}: {fact}" for fact, who in sorted(only))


def main() -> int:
    """Prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", type=Path, help="the synthesised CDK example, cdk.out")
    parser.add_argument("everything", type=Path, help="what everything.js synthesises")
    arguments = parser.parse_args()
    example = sam.transformed(SAM_EXAMPLE)
    pairs = {
        "the examples": (arguments.example, example),
        "with everything": (arguments.everything, with_everything(example)),
    }
    count = 0
    for name, (assembly, template) in pairs.items():
        for difference in differences(synthesised(assembly), template):
            print(f"{name}: {difference}", file=sys.stderr)
            count += 1
    print(f"CDK's systems beside SAM's: {count} differences")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
