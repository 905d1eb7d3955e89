"""Tests what the generator of the contract's copies refuses. It writes nothing as long as an alarm is wrong."""

import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "infra/contract"))

import alarms  # noqa: E402

ALARMS = json.loads((ROOT / "infra/cdk/contract/alarms.json").read_text())
RUNBOOK = (ROOT / "docs/runbook.md").read_text()
SWITCHES = ["ledger", "probe", "register"]


class AlarmsTest(unittest.TestCase):
    def assert_fault(self, alarm: dict[str, str], expected: str) -> None:
        some = {"of": "target", "severity": "page"}
        found = alarms.faults({**ALARMS, "Late": some | alarm}, SWITCHES, f"{RUNBOOK}\n### Late\n")
        self.assertEqual(found, [f"alarms.json: {expected}"])

    def test_all_alarms_are_right(self) -> None:
        self.assertEqual(alarms.faults(ALARMS, SWITCHES, RUNBOOK), [])

    def test_an_unknown_word_is_refused_with_those_that_are_known(self) -> None:
        switches = "ledger, probe, register"
        self.assert_fault({"only_with": "registry"}, f'only_with of Late must be one of {switches}, got "registry"')
        self.assert_fault({"severity": "mail"}, 'severity of Late must be one of page, ticket, got "mail"')
        subjects = "region, dead_letter_queue, handler, queue, target, function"
        self.assert_fault({"of": "queues"}, f'of of Late must be one of {subjects}, got "queues"')

    def test_each_alarm_has_a_section_of_the_runbook_and_each_section_an_alarm(self) -> None:
        without = RUNBOOK.replace("### Lateness\n", "")
        missing = "docs/runbook.md must have a section '### Lateness'"
        self.assertEqual(alarms.faults(ALARMS, SWITCHES, without), [missing])
        idle = "docs/runbook.md has a section '### Late', but there is no such alarm"
        self.assertEqual(alarms.faults(ALARMS, SWITCHES, f"{RUNBOOK}\n### Late\n"), [idle])
