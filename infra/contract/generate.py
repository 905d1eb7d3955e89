#!/usr/bin/env python3
"""Writes the parts of templates and documents that repeat the contract.

    infra/contract/generate.py            writes them
    infra/contract/generate.py --check    fails if one of them is stale

`infra/cdk/contract` is the contract as data: alarms.json, prices.json and records.json are written by hand,
settings.json has the handler's own table of its settings, last_chance.json when an event's last attempt is due, and
table.json the names in the ledger's table. CDK and Terraform read them. What can't read has its part between two lines
that name the part. The tables of what a retry costs come from `infra/cost`.
"""

import json
import re
import sys
from collections.abc import Callable
from functools import partial

import alarms
import cdk
import cdk_metrics
import documents
import sam
import sam_alarms
import terraform
from costs import COUNTED, prices_of_retries, tables
from model import ALARMS, ALL_OPTIONS, HANDLER, OF_ERRORS, OPTIONS, ROOT, SETTINGS, SWITCHES

# The parts: the file, the comment that begins and ends each, and what is between them.
PARTS: list[tuple[str, str, Callable[[], str]]] = [
    ("docs/settings.md", "settings", documents.table_of_settings),
    ("scripts/comeback/src/operate/simulate/rules/cost.rs", "prices", prices_of_retries),
    ("infra/sam/template.yaml", "key of the ledger", sam.key_of_table),
    ("docs/metrics.md", "metrics", lambda: documents.table_of_names("metric | unit | statistic | meaning", "metrics")),
    ("docs/metrics.md", "fields", lambda: documents.table_of_names("field | meaning", "log_fields")),
    ("docs/reasons.md", "reasons", documents.table_of_reasons),
    ("infra/cdk/lib/retry-policy.ts", "properties", lambda: cdk.properties("policy")),
    ("infra/cdk/lib/retry-policy.ts", "properties of errors", cdk.properties_of_errors),
    ("infra/cdk/lib/props.ts", "properties", lambda: cdk.properties("handler")),
    ("infra/cdk/lib/metric-methods.ts", "methods", cdk_metrics.methods),
    ("infra/cdk/lib/metrics.ts", "statistics", cdk_metrics.statistics),
    ("infra/terraform/variables.tf", "attributes of a function", terraform.attributes_of_function),
    ("infra/terraform/variables.tf", "attributes of a queue", lambda: terraform.attributes(OPTIONS["policy"])),
    ("infra/terraform/variables.tf", "attributes of an error", lambda: terraform.attributes(OF_ERRORS)),
    ("infra/terraform/variables.tf", "settings of functions only", terraform.functions_only),
    ("infra/terraform/variables.tf", "variables of policies", lambda: terraform.variables("policy")),
    ("infra/terraform/variables.tf", "variables of the handler", lambda: terraform.variables("handler")),
    ("infra/terraform/variables.tf", "names of alarms", terraform.names_of_alarms),
    ("infra/terraform/settings.tf", "values of a target", lambda: terraform.values(OPTIONS["policy"], "target", 8)),
    ("infra/terraform/settings.tf", "values of an error", lambda: terraform.values(OF_ERRORS, "error", 12)),
    ("infra/terraform/settings.tf", "values of all functions", lambda: terraform.values(ALL_OPTIONS, "var", 6)),
    ("infra/terraform/alarms.tf", "switches", terraform.switches),
    ("infra/sam/template.yaml", "parameters of policies", lambda: sam.parameters_of_settings("policy")),
    ("infra/sam/template.yaml", "parameters of the handler", lambda: sam.parameters_of_settings("handler")),
    ("infra/sam/template.yaml", "variables of the handler", sam.variables_of_settings),
    ("infra/sam/template.yaml", "rules of settings", sam.rules_of_settings),
    ("infra/sam/template.yaml", "conditions of settings", sam.conditions_of_settings),
    ("infra/sam/template.yaml", "parameters of alarms", lambda: sam_alarms.parameters(False)),
    ("infra/sam/template.yaml", "conditions of alarms", lambda: sam_alarms.conditions(False)),
    ("infra/sam/template.yaml", "alarms", lambda: sam_alarms.resources(False)),
    (
        "infra/sam/template.yaml",
        "prices",
        lambda: sam.prices(("lambda_request", "gb_second", "gb_of_log", "sqs_request"), 10),
    ),
    ("infra/sam/template.yaml", "price of a write", lambda: sam.prices(("write_of_dynamodb",), 16)),
    ("infra/sam/target-alarms.yaml", "parameters of switches", sam_alarms.parameters_of_switches),
    ("infra/sam/target-alarms.yaml", "parameters of alarms", lambda: sam_alarms.parameters(True)),
    ("infra/sam/target-alarms.yaml", "conditions of alarms", lambda: sam_alarms.conditions(True)),
    ("infra/sam/target-alarms.yaml", "alarms", lambda: sam_alarms.resources(True)),
    ("infra/cdk/README.md", "properties", cdk.table_of_properties),
    ("docs/deploy/cdk-operations.md", "alarms", documents.table_of_alarms),
    ("docs/deploy/cdk-operations.md", "methods", cdk_metrics.list_of_methods),
    ("docs/deploy/sam-parameters.md", "parameters", sam.table_of_parameters),
    ("docs/deploy/sam-parameters.md", "triggers", sam_alarms.table_of_triggers),
    (
        "docs/deploy/terraform-inputs.md",
        "inputs",
        lambda: terraform.table_of_blocks("variable", "name | | description"),
    ),
    ("docs/deploy/terraform-inputs.md", "outputs", lambda: terraform.table_of_blocks("output", "name | description")),
    *(
        ("infra/COST.md", made.__name__, partial(made, COUNTED))
        for made in (
            tables.summary,
            tables.ledger,
            tables.sizes,
            tables.event,
            tables.month,
            tables.queue,
            tables.parts,
            tables.fixed,
        )
    ),
    ("README.md", "alternatives", lambda: tables.alternatives(COUNTED)),
    ("infra/COST.md", "deployment", tables.deployment),
    ("README.md", "price of alarms", tables.price_of_alarms),
    ("docs/cost-sources.md", "counts", lambda: tables.counts(COUNTED)),
    ("docs/cost-sources.md", "prices", tables.prices),
]


def written(text: str, part: str, content: str) -> str:
    """Returns a text with the part between its two lines."""
    marked = re.compile(rf"^(?P<begin>.*generated: {part}\b.*\n)(?:.*\n)*?(?P<end>.*end: {part}\b.*\n)", re.MULTILINE)
    found = marked.search(text)
    if not found:
        sys.exit(f"there is no part {part!r}: expected two lines with 'generated: {part}' and 'end: {part}'")
    blank = "\n" if "<!--" in found["begin"] else ""
    return text[: found.start()] + f"{found['begin']}{blank}{content}\n{blank}{found['end']}" + text[found.end() :]


def main() -> None:
    """Writes or checks all parts, if nothing is wrong with the alarms."""
    is_check = sys.argv[1:] == ["--check"]
    if faults := alarms.faults(ALARMS, SWITCHES, (ROOT / "docs/runbook.md").read_text()):
        sys.exit("\n".join(faults))
    stale = []

    def write(file: str, text: str) -> None:
        path = ROOT / file
        if path.exists() and path.read_text() == text:
            return
        stale.append(file)
        if not is_check:
            path.write_text(text)

    write("infra/cdk/contract/settings.json", json.dumps(SETTINGS, indent=2, ensure_ascii=False) + "\n")
    for part in ("table", "last_chance"):
        write(f"infra/cdk/contract/{part}.json", json.dumps(HANDLER[part], indent=2) + "\n")
    # A part may be made from a file that has an earlier part, such as a table of Terraform's variables.
    for file, part, content in PARTS:
        write(file, written((ROOT / file).read_text(), part, content()))
    if is_check and stale:
        sys.exit(f"run infra/contract/generate.py: stale are {', '.join(sorted(set(stale)))}")


if __name__ == "__main__":
    main()
