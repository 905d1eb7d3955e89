"""Plays all scenarios at the same time, and asks all questions, except for those that an emulator can't handle."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
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


# The scenarios and questions that each emulator can't handle, by name, and why.
NO_WRAPPERS = "ministack starts no wrapper and no extension"
NO_MOVES = "ministack has no StartMessageMoveTask"

MINISTACK = {
    "a stopped loop is given up with its reason": "ministack does not follow a loop through a queue",
    "the redrive of the console brings dead letters back": NO_MOVES,
    "a python function behind the layer never sees an envelope": NO_WRAPPERS,
    "a node function behind the layer never sees an envelope": NO_WRAPPERS,
    "the queues refuse strangers": "its root user, who runs this, passes all policies",
    "an alarm goes off": "ministack makes no metrics from log lines, and evaluates no expressions",
    "whether a redrive keeps message attributes": NO_MOVES,
}

NO_TABLE = "the local cloud has no DynamoDB, so there is no ledger and no register"

LOCAL = {
    "a failure that is delivered twice is retried once": NO_TABLE,
    "an operator has a waiting event retried now": NO_TABLE,
    "an operator cancels a waiting event": NO_TABLE,
    "events of a paused function wait until it is resumed": NO_TABLE,
    "the queues refuse strangers": "the local cloud checks no permissions",
    "an alarm goes off": "the local cloud has no alarms",
    "what the record of a stopped recursive loop looks like": "its Python has no boto3",
}

NO_JAR = "LocalStack's DynamoDB is a jar that it downloads, so there is no ledger and no register"
NO_STOP = "LocalStack stops no loop"
NO_LAYERS = "its functions run as processes, without layers"

LOCALSTACK = {
    "poison is set aside with all its bytes": "its mapping parses JSON, and writes it in its own way",
    "a failure that is delivered twice is retried once": NO_JAR,
    "an operator has a waiting event retried now": NO_JAR,
    "an operator cancels a waiting event": NO_JAR,
    "events of a paused function wait until it is resumed": NO_JAR,
    "a stopped loop is given up with its reason": NO_STOP,
    "a python function behind the layer never sees an envelope": NO_LAYERS,
    "a node function behind the layer never sees an envelope": NO_LAYERS,
    "the queues refuse strangers": "LocalStack checks no permissions",
    "an alarm goes off": "the deployment by API calls has no alarms",
    "the doctor finds no problem": "its policy simulator knows no wildcards",
    "what the record of a stopped recursive loop looks like": NO_STOP,
    "the status names each function": "it does not find the destinations of a function that is named by its ARN",
}

CANT = {"ministack": MINISTACK, "local": LOCAL, "localstack": LOCALSTACK}

# A scenario, or a question with its answer.
Part = Callable[[World], str | None]


@dataclass(frozen=True)
class Result:
    """The result of a scenario or a question."""

    name: str
    result: str
    # The reason of a failure or a skip, or the answer.
    said: str
    seconds: float


def sentence(function: Callable[..., Any]) -> str:
    """The name of a function, as a sentence."""
    return function.__name__.replace("_", " ")


def public_functions(module: Mapping[str, Any]) -> tuple[Part, ...]:
    """The public functions that a module defines itself, in order."""
    return tuple(
        member
        for name, member in module.items()
        if callable(member) and member.__module__ == module["__name__"] and not name.startswith("_")
    )


def play(parts: Sequence[Part], world: World, cant: Mapping[str, str]) -> Iterator[Result]:
    """Plays all parts at the same time, or as many as an emulator can handle. Yields each result when it is known.

    Raises:
        Stopped: if a signal came, when all parts have ended.
    """
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
    except Skipped as reason:
        return result(SKIPPED, str(reason))
    except Stopped:
        return result(SKIPPED, "a signal ended the run")
    except Failed as difference:
        return result(FAILED, str(difference))
    except (BotoCoreError, ClientError) as error:
        return result(FAILED, said(error))
    except Exception as error:
        # An error in the run itself must not end the other parts, and must not count as a pass.
        return result(FAILED, f"{type(error).__name__}: {error}")
    return result(PASSED, "") if answer is None else result(ANSWERED, answer)
