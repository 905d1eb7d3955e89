"""Plays all scenarios at the same time, and asks all questions, except for those that an emulator can't handle."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws import Stopped, said
from botocore.exceptions import BotoCoreError, ClientError
from world import Failed, Skipped, World

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"
ANSWERED = "answered"

# An emulator shares this machine with the processes of its functions. With more parts at a time, AWS calls of the
# handler would time out.
EMULATOR_PARTS = 8

# The table of docs/acceptance.md. A cell is "yes", or says why an emulator can't handle the scenario or question.
_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "acceptance.md").read_text()
ROWS = re.findall(r"^\| (.+) \| (.+) \| (.+) \| (.+) \| (.+) \|$", _PAGE, re.MULTILINE)[1:]
CANT = {
    emulator: {row[0]: row[column] for row in ROWS if row[column] != "yes"}
    for column, emulator in enumerate(("ministack", "local", "localstack", "localemu"), 1)
}

# A scenario, or a question with its answer.
Part = Callable[[World], str | None]


@dataclass(frozen=True)
class Result:
    name: str
    result: str
    # The reason of a failure or a skip, or the answer.
    said: str
    seconds: float


def sentence(function: Callable[..., Any]) -> str:
    return function.__name__.replace("_", " ")


def public_functions(module: Mapping[str, Any]) -> tuple[Part, ...]:
    """The public functions that a module defines itself, in order."""
    return tuple(
        member
        for name, member in module.items()
        if callable(member) and member.__module__ == module["__name__"] and not name.startswith("_")
    )


def play(parts: Sequence[Part], world: World, cant: Mapping[str, str]) -> Iterator[Result]:
    """Plays all parts at the same time, or as many as an emulator can handle. Yields each result when it is known."""
    with ThreadPoolExecutor(EMULATOR_PARTS if world.account.emulator else len(parts)) as pool:
        for future in as_completed(pool.submit(_play, part, world, cant) for part in parts):
            yield future.result()
    if world.stop.is_set():
        raise Stopped


def _play(part: Part, world: World, cant: Mapping[str, str]) -> Result:
    name, began = sentence(part), time.monotonic()

    def result(kind: str, text: str) -> Result:
        return Result(name, kind, text, round(time.monotonic() - began, 1))

    if name in cant:
        return result(SKIPPED, cant[name])
    try:
        answer = part(world)
    except (Skipped, Stopped) as reason:
        return result(SKIPPED, str(reason) or "a signal ended the run")
    except (Failed, BotoCoreError, ClientError) as error:
        return result(FAILED, said(error))
    except Exception as error:
        # An error in the run itself must not end the other parts, and must not count as a pass.
        return result(FAILED, f"{type(error).__name__}: {error}")
    return result(PASSED, "") if answer is None else result(ANSWERED, answer)
