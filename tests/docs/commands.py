"""The reference of the program `comeback`, from its own help.

python3 tests/docs/commands.py PROGRAM     writes docs/operate/commands.md
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/operate/commands.md"

HEAD = """\
# Commands

Everything that `comeback COMMAND --help` says. [The operator's program](../operate.md) explains what the commands are
for. This page is made by `tests/docs/commands.py`, and a test compares it with the program.
"""


def sections(program: Path, *command: str) -> Iterator[str]:
    """A section for this command, and for each of its subcommands."""
    asked = [program, *command, "--help"]
    said = subprocess.run(asked, check=True, capture_output=True, text=True, env={}).stdout
    lines = "\n".join(line.rstrip() for line in said.strip().splitlines())
    yield f"## comeback {' '.join(command)}".rstrip() + f"\n\n```text\n{lines}\n```\n"
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", said, re.MULTILINE)
    for name in re.findall(r"^  (\S+)", listed[1] if listed else "", re.MULTILINE):
        if name != "help":
            yield from sections(program, *command, name)


def page(program: Path) -> str:
    """The whole page."""
    return "\n".join([HEAD, *sections(program)])


if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1]).resolve()))
