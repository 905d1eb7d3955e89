"""CDK, SAM and Terraform make the same systems: those of systems.toml, fact by fact. Needs the output of
tests/deployment/run-cdk, and leaves out Terraform where it is not installed.

CDK's and SAM's examples are the same, too: as they are, with every option of both switched on, and with records in a
bucket besides. There, the function is in the template.

All properties are facts, except names, the descriptions of functions and the location of code. Alarms are made from one
file, infra/cdk/contract/alarms.json.
"""

import json
import re
import tomllib
import unittest
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import makers
from patterns import expanded
from sam import INFRA
from system import EXAMPLES, HARDENED, RECORDED

TABLE = tomllib.loads(Path(__file__).with_name("systems.toml").read_text())
SYSTEMS: dict[str, dict[str, Any]] = {row["name"]: row for row in TABLE["system"]}
FIRST = next(iter(SYSTEMS))
NAMES: dict[str, str] = TABLE["names"]
# Ends a difference that is about all facts which begin like this.
ANYTHING = " …"


def contract(said: Any, path: str) -> dict[str, str]:
    """What a file of the contract says, by the path to it. A list is a choice."""
    if isinstance(said, dict):
        return {name: text for key, value in said.items() for name, text in contract(value, f"{path}.{key}").items()}
    return {f"<{path}>": ",".join(said) if isinstance(said, list) else str(said)}


CONTRACT = {
    name: text
    for file in ("table", "records")
    for name, text in contract(json.loads((INFRA / f"cdk/contract/{file}.json").read_text()), file).items()
}


def replaced(text: str, by: Mapping[str, str]) -> str:
    for name, value in by.items():
        text = text.replace(name, value)
    return text


def facts(patterns: Iterable[str]) -> set[str]:
    """The facts that these lines of the table are."""
    found = {fact for pattern in patterns for fact in expanded(replaced(pattern, CONTRACT))}
    return {re.sub("^(the (.+?)'s policy: .*)<self>", r"\1<\2>", fact) for fact in found}


def options(row: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(replaced(json.dumps(row.get("with", {})), NAMES))


def differing(found: set[str], name: str) -> set[str]:
    """These facts with what a system has besides, and without what it lacks."""
    for other in SYSTEMS[name].get("besides", []):
        found = differing(found, other)
    return changed(found, SYSTEMS[name])


def changed(found: set[str], row: Mapping[str, Any]) -> set[str]:
    gone = facts(row.get("removes", []))
    beginnings = tuple(each.removesuffix(ANYTHING) for each in gone if each.endswith(ANYTHING))
    left = {fact for fact in found - gone if not (beginnings and fact.startswith(beginnings))}
    return left | facts(row.get("adds", []))


def expected(name: str, who: str) -> set[str]:
    """The facts of a system, if this one makes it."""
    found = differing(changed(set(), SYSTEMS[FIRST]), name)
    for difference in TABLE["difference"]:
        # Where there is nothing to remove, it adds nothing.
        if difference["of"] == who and changed(found, {"removes": difference["removes"]}) != found:
            found = changed(found, difference)
    return found


def makes(who: str) -> dict[str, dict[str, Any]]:
    return {name: row for name, row in SYSTEMS.items() if who in row.get("of", makers.MAKERS)}


class ParityTest(unittest.TestCase):
    maxDiff = None

    def test_all_make_the_systems_of_the_table(self) -> None:
        for who, make in makers.MAKERS.items():
            made = make({name: options(row) for name, row in makes(who).items()})
            told: set[str] = set()
            for name, system in made.items():
                got = {replaced(fact, {arn: own for own, arn in NAMES.items()}) for fact in system.facts()}
                missing, strange = expected(name, who) - got - told, got - expected(name, who) - told
                # A fault that several systems have is reported for the first.
                told |= missing | strange
                with self.subTest(f"a system {name}, made by {who}"):
                    self.assertFalse(missing | strange, said("expected", missing) + said("got", strange))

    def test_each_line_of_the_table_says_something(self) -> None:
        plain = changed(set(), SYSTEMS[FIRST])
        for name, row in SYSTEMS.items():
            before = set() if name == FIRST else plain
            for other in row.get("besides", []):
                before = differing(before, other)
            with self.subTest(name):
                self.assertLessEqual(facts(row.get("removes", [])), before, "no fact to remove")
                self.assertFalse(facts(row.get("adds", [])) & before, "no new fact")
        for difference in TABLE["difference"]:
            of_others = set().union(*(differing(plain, name) for name in makes(difference["of"])))
            for line in difference["removes"]:
                with self.subTest(difference["why"]):
                    self.assertNotEqual(changed(of_others, {"removes": [line]}), of_others, line)

    def test_the_examples_are_the_same(self) -> None:
        for systems in (EXAMPLES, HARDENED, RECORDED):
            of_cdk, of_sam = (system.facts() for system in systems.values())
            self.assertEqual(of_cdk, of_sam)
        self.assertNotEqual(EXAMPLES["SAM"].facts(), of_sam)
        self.assertIn("the target's role: Allow sqs:SendMessage <retry queue>", of_sam)


def said(what: str, lines: set[str]) -> str:
    return "".join(f"\n  {what}: {line}" for line in sorted(lines))
