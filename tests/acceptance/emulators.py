"""The scenarios and questions that each emulator can't handle, by name, and why."""

from play import sentence
from questions import QUESTIONS
from scenarios import SCENARIOS

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

CANT = {"ministack": MINISTACK, "local": LOCAL}


def rows() -> list[str]:
    """The rows of the table in docs/acceptance.md."""
    names = [*map(sentence, SCENARIOS), *map(sentence, QUESTIONS)]
    return [f"| {name} | {MINISTACK.get(name, 'yes')} | {LOCAL.get(name, 'yes')} |" for name in names]
