"""What docs/start says happens, if somebody types what it says, the reference of commands, and pictures.

Needs the debug builds.

tests/docs/run starts this.
"""

import os
import tempfile
import unittest
from pathlib import Path

import commands
import pictures
from pages import ROOT, TARGET, Reader, blocks, essence


class PageTest(unittest.TestCase):
    """Each page in a folder of its own, with a local cloud of its own."""

    def follow(self, name: str, at_least: int) -> None:
        """Follows a page to its end."""
        page = blocks((ROOT / "docs/start" / name).read_text())
        with tempfile.TemporaryDirectory() as folder, Reader(Path(folder), os.environ["PATH"]) as reader:
            (Path(folder) / "node_modules").symlink_to(os.environ["NODE_MODULES"])
            ran = list(reader.follow(page))
        self.assertGreaterEqual(len(ran), at_least)

    def test_on_your_machine(self) -> None:
        self.follow("local.md", 10)

    def test_your_own_function(self) -> None:
        self.follow("function.md", 4)


class CommandsTest(unittest.TestCase):
    """The reference of the program."""

    def test_it_is_what_the_program_says(self) -> None:
        made = commands.page(TARGET / "comeback")
        self.assertEqual(commands.PAGE.read_text(), made, "python3 tests/docs/commands.py PROGRAM writes it")


class PictureTest(unittest.TestCase):
    """The pictures of docs/pictures."""

    def test_they_are_what_the_code_draws(self) -> None:
        for name, svg in pictures.pictures(TARGET / "comeback").items():
            made = "python3 tests/docs/pictures.py PROGRAM draws it"
            self.assertEqual((pictures.FOLDER / name).read_text(), svg, f"{name}: {made}")


class EssenceTest(unittest.TestCase):
    """What may differ in a line."""

    def test_numbers_differ_and_words_do_not(self) -> None:
        for line, other, is_same in (
            ("waits 1.0 s for attempt 1", "waits 12.5 s for attempt 2", True),
            ("15:35:44.157Z  orders   is given up", "16:01:00.001Z orders is given up", True),
            ("is given up: not_retryable", "is given up: max_age_exceeded", False),
            ("attempt 1 fails", "attempt 1 succeeds", False),
        ):
            self.assertEqual(essence(line) == essence(other), is_same, line)


if __name__ == "__main__":
    unittest.main()
