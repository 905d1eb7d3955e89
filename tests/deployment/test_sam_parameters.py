"""Tests that the parameters of infra/sam accept all values that the system accepts, and none of another form."""

import json
import re
import tomllib
import unittest
from pathlib import Path

from sam import INFRA, SYSTEM, TEMPLATES, UNITS, parameters_of, seconds


def repeated(value: str) -> str:
    """A value with the characters that it repeats."""
    return re.sub(r"<(.) \* (\d+)>", lambda found: found[1] * int(found[2]), value)


# The settings that are parameters, by the names of these.
SETTINGS = {
    name.title().replace("_", ""): setting
    for name, setting in json.loads((INFRA / "cdk/contract/settings.json").read_text()).items()
    if setting["scope"] in ("policy", "handler") and "alias_of" not in setting
}
# The values of parameters, by their names in the table: each those that it must take, and those that it must refuse.
VALUES: dict[str, tuple[list[str], list[str]]] = {
    name: tuple([repeated(value) for value in row[kind]] for kind in ("takes", "refuses"))
    for row in tomllib.loads(Path(__file__).with_name("parameters.toml").read_text())["values"]
    for name in row["of"]
}


class ParameterTest(unittest.TestCase):
    """The bounds of numbers and durations are the handler's, which refuses to start with a value outside them."""

    # The ranges of the handler.
    DURATIONS = {name: (it["min"], it["max"]) for name, it in SETTINGS.items() if it["type"] == "duration"}
    WHOLES = {name: it["max"] for name, it in SETTINGS.items() if it["type"] == "whole"}
    MALFORMED = (" ", "s", "1.5h", "-1s", "+1s", "01s", "1 s", "1w", "1S", "1h30m", "1s,", "1s\n", "\u0661s")

    def test_every_parameter_is_bounded_and_says_what_it_must_be(self) -> None:
        for path in TEMPLATES:
            for name, parameter in parameters_of(path).items():
                with self.subTest(f"{path.parent.name} {name}"):
                    bounds = {"Number": {"MinValue", "MaxValue"}}.get(parameter["Type"], {"AllowedPattern"})
                    self.assertTrue("AllowedValues" in parameter or bounds <= parameter.keys())
                    self.assertRegex(parameter["ConstraintDescription"], "^must be ")
                    self.assertTrue(parameter["Description"])

    def test_patterns_accept_good_values_and_refuse_bad_ones(self) -> None:
        tried = set()
        for path in TEMPLATES:
            for name, parameter in parameters_of(path).items():
                if "AllowedPattern" in parameter and name not in {*self.DURATIONS, *self.WHOLES}:
                    of_setting = SETTINGS.get(name, {}).get("type")
                    kind = "*Trigger" if name.endswith("Trigger") else of_setting if of_setting in VALUES else name
                    self.assert_takes(path, name, *VALUES[kind])
                    tried.add(kind)
        self.assertEqual(tried, VALUES.keys())

    def test_a_duration_of_the_handlers_range_is_accepted_and_no_text_of_another_form(self) -> None:
        for name, bounds in self.DURATIONS.items():
            shortest, longest = map(seconds, bounds)
            counts = {unit: (-(-shortest // length), longest // length) for unit, length in UNITS.items()}
            good = [f"{count}{unit}" for unit, both in counts.items() for count in both if count]
            self.assert_takes(SYSTEM, name, good, [*self.MALFORMED, "0s", "0", f"{longest}0"])

    def test_a_whole_number_of_the_handlers_range_is_accepted_and_no_text_of_another_form(self) -> None:
        for name, largest in self.WHOLES.items():
            good = ["", "1", str(largest)]
            self.assert_takes(SYSTEM, name, good, ["0", "-1", "1.5", "01", "many", f"{largest}0"])

    def test_texts_leave_room_for_the_other_variables(self) -> None:
        lengths = (parameters_of(SYSTEM)[name]["MaxLength"] for name in ("NonRetryableErrors", "Policies"))
        # Lambda's limit is 4 KiB for all variables.
        self.assertLessEqual(sum(lengths), 3 * 1024)

    def test_defaults_are_accepted_and_an_empty_value_only_if_it_is_the_default(self) -> None:
        for path in TEMPLATES:
            for name, parameter in parameters_of(path).items():
                if "AllowedPattern" in parameter:
                    default = parameter.get("Default")
                    self.assert_takes(path, name, [] if default is None else [default], [] if default == "" else [""])

    def assert_takes(self, path: Path, name: str, good: list[str], bad: list[str]) -> None:
        """A pattern must match the whole value, as in CloudFormation."""
        pattern = re.compile(parameters_of(path)[name]["AllowedPattern"])
        taken = {value for value in good + bad if pattern.fullmatch(value)}
        self.assertEqual((set(good) - taken, taken & set(bad)), (set(), set()), f"{name}: refused, and taken")
