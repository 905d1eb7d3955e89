"""Checks that the local cloud behaves like AWS, according to answers that LocalStack's authors have recorded there.

LocalStack's tests include dated snapshots of AWS's answers. The table in `facts.toml` lists the facts in them that
matter to a retry system, each with its test and the date of its snapshot. Only the facts are used, no text or code.
"""

import argparse
import importlib
import pkgutil
import sys
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import endpoints
import recorded
from endpoints import Endpoint
from recorded import Cloud

# Checks mostly wait, so more of them run at a time than there are cores.
CHECKS_AT_A_TIME = 8

Check = Callable[[Cloud], None]


@dataclass(frozen=True)
class Fact:
    """One row of a table, and the check of the same name."""

    name: str
    fact: str
    # The test in LocalStack's `tests/aws/services`.
    test: str
    recorded: date
    check: Check
    # Why the local cloud differs on purpose. If this is set, the check must fail.
    otherwise: str | None = None

    def complaint(self, endpoint: Endpoint) -> str | None:
        """Runs the check. Returns what is wrong, or None."""
        try:
            self.check(Cloud(endpoint, self.name))
        except Exception as error:
            if self.otherwise is not None:
                return None
            what = str(error) if isinstance(error, AssertionError) else repr(error)
            return f"{self.name}: {self.fact}\n  {self.test}, {self.recorded}\n  {what}"
        if self.otherwise is None:
            return None
        return f"{self.name} holds, although the table says: {self.otherwise}"


def facts() -> list[Fact]:
    """The facts of the table, each with its check.

    Raises:
        ValueError: if a fact has no check, or a check has no fact.
    """
    checks: dict[str, Check] = {}
    for module in pkgutil.iter_modules(recorded.__path__):
        if module.name.endswith("_facts"):
            topic = importlib.import_module(f"{recorded.__name__}.{module.name}")
            checks |= public_functions(topic.__name__, vars(topic))
    return joined(tomllib.loads(Path(__file__).with_name("facts.toml").read_text()), checks)


def public_functions(module: str, members: Mapping[str, object]) -> dict[str, Check]:
    """The public functions that a module defines itself."""
    return {
        name: member
        for name, member in members.items()
        if callable(member) and not name.startswith("_") and member.__module__ == module
    }


def joined(table: Mapping[str, Mapping[str, object]], checks: Mapping[str, Check]) -> list[Fact]:
    """Joins the facts of a table with their checks.

    Raises:
        ValueError: if a fact has no check, or a check has no fact.
    """
    alone = table.keys() ^ checks.keys()
    if alone:
        raise ValueError(f"expected a fact and a check of each name, got one only of {sorted(alone)}")
    return [Fact(name, check=checks[name], **row) for name, row in table.items()]  # type: ignore[arg-type]


def main() -> int:
    """Checks all facts, or only the named ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="comeback-local")
    parser.add_argument("names", nargs="*", help="of facts; all without any")
    arguments = parser.parse_args()

    chosen = [fact for fact in facts() if not arguments.names or fact.name in arguments.names]
    with endpoints.local(arguments.program.resolve()) as local, ThreadPoolExecutor(CHECKS_AT_A_TIME) as pool:
        found = list(pool.map(lambda fact: fact.complaint(local), chosen))
    complaints = [complaint for complaint in found if complaint is not None]
    for complaint in complaints:
        print(complaint, end="\n\n", file=sys.stderr)
    intended = sum(fact.otherwise is not None for fact in chosen)
    print(
        f"{len(chosen)} facts recorded on AWS, {intended} of them not meant to hold here, {len(complaints)} complaints"
    )
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
