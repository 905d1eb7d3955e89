"""Makes the same calls to the local cloud and to moto, and compares the answers.

Neither is AWS, but different people wrote them from the same documentation. Where they agree, both are probably right.
Where they differ, `differences.toml` says which of them is right according to AWS's documentation. The run fails if a
difference is not in that table, if it has changed, or if a listed one no longer exists.

Implementations choose their own identifiers, times and addresses, so placeholders replace them. Identifiers are
numbered in the order of their first use. So a comparison still shows whether two answers have the same identifier, or
whether a receive returns a new handle. Error messages are free text and left out; an error is recorded as its status,
its code, its type and whose fault it is.
"""

import argparse
import json
import re
import sys
import tomllib
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

import endpoints
import yaml
from botocore.exceptions import ClientError
from endpoints import ACCOUNT, PATIENCE_SECONDS, REGION, Endpoint
from inputs import zipped

# Cases mostly wait, so more of them run at a time than there are cores.
CASES_AT_A_TIME = 8


CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())
TOLD = CASES.pop("told")


TABLE = Path(__file__).with_name("differences.toml")

RIGHT = ("local", "moto", "both")

# Stands for the missing answer if only one of the two got this call in a case.
NO_CALL = "no such call"


# Matches any text at the end of a listed answer.
ANYTHING = " …"


@dataclass(frozen=True)
class Difference:
    """The two answers to one step of a case."""

    local: str
    moto: str

    def is_like(self, listed: Self) -> bool:
        """Whether it matches the listed difference."""
        return _is_like(self.local, listed.local) and _is_like(self.moto, listed.moto)

    def render(self, place: str) -> str:
        """Formats the difference as a line of the table."""
        return f'"{place}" = {{ local = {_quoted(self.local)}, moto = {_quoted(self.moto)} }}'


def _is_like(answer: str, listed: str) -> bool:
    if listed.endswith(ANYTHING):
        return answer.startswith(listed.removesuffix(ANYTHING))
    return answer == listed


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else json.dumps(text)


def listed() -> dict[str, Difference]:
    """The differences whose right answer was looked up in the documentation, by place: `topic/case/step`.

    Raises:
        ValueError: if an entry has the wrong keys, says wrongly who is right, or lists a place twice.
    """
    found: dict[str, Difference] = {}
    for entry in tomllib.loads(TABLE.read_text())["difference"]:
        if entry.keys() != {"what", "right", "documentation", "answers"} or entry["right"] not in RIGHT:
            raise ValueError(f"expected what, right (one of {RIGHT}), documentation and answers; got {entry}")
        for pattern, answers in entry["answers"].items():
            for place in expanded(pattern):
                if place in found:
                    raise ValueError(f"expected {place} once")
                found[place] = Difference(**answers)
    return found


def complaints(table: Mapping[str, Difference], found: Mapping[str, Difference]) -> list[str]:
    """Compares the found differences with the table. Returns a text for each that is unlisted, changed or gone."""
    unlisted = [
        f"not in {TABLE.name}, or not like this:\n{difference.render(place)}"
        for place, difference in found.items()
        if place not in table or not difference.is_like(table[place])
    ]
    return unlisted + [f"in {TABLE.name}, but they agree: {place}" for place in table if place not in found]


def expanded(pattern: str) -> Iterator[str]:
    """All places that match a pattern: `a{b,c}` matches `ab` and `ac`."""
    before, brace, rest = pattern.partition("{")
    if not brace:
        yield pattern
        return
    choices, _, after = rest.partition("}")
    for choice in choices.split(","):
        yield from expanded(before + choice + after)


IDENTIFIERS = frozenset({"MessageId", "ReceiptHandle", "UUID", "NextToken"})
TIMES = frozenset(
    {
        "ApproximateFirstReceiveTimestamp",
        "CreatedTimestamp",
        "LastModified",
        "LastModifiedTimestamp",
        "SentTimestamp",
    }
)
# Strings that contain JSON, whose white space may differ.
DOCUMENTS = frozenset({"RedrivePolicy"})
# Each implementation invents the id of the caller.
CALLERS = frozenset({"SenderId"})

# Lists that SQS may return in any order, with the member to sort their items by.
UNORDERED = {"Messages": "Body", "Successful": "Id", "Failed": "Id"}


# Clients treat these like absent members.
NOTHING: tuple[Any, ...] = (None, [], {})


@dataclass(frozen=True)
class Answer:
    """The answer to one call of a case."""

    # The operation, and the position of this call among the case's calls to it.
    step: str
    text: str


class Notebook:
    """Makes the calls of one case to one endpoint, and records the answers."""

    def __init__(self, endpoint: Endpoint, clients: Mapping[str, Any], case: str) -> None:
        self.answers: list[Answer] = []
        self._endpoint = endpoint
        self._clients = clients
        # A prefix that is unique to the case, and short enough for the name of a function.
        self._prefix = f"{zlib.crc32(case.encode()):08x}-"
        self._seen: dict[tuple[str, str], str] = {}
        self._calls: dict[str, int] = {}
        # The URL of the queue that was made last.
        self._queue: str | None = None

    def play(self, steps: Sequence[Mapping[str, Any]], told: Mapping[str, Sequence[str]]) -> None:
        """Makes the steps of a case. cases.yaml says what they mean, and has the members that are told."""
        for step in steps:
            ((what, given),) = step.items()
            operation, _, members = what.partition(" ")
            for parameters in given if isinstance(given, list) else [given]:
                if operation == "queue":
                    self._make_queue(parameters)
                elif operation == "raw":
                    self._send(parameters["headers"], parameters["body"].encode())
                else:
                    self._call(operation, self._meant(parameters), told.get(members, ()))

    def _make_queue(self, given: Any) -> None:
        ((own, attributes),) = (given if isinstance(given, dict) else {given: {}}).items()
        created = self._clients["sqs"].create_queue(QueueName=self._prefix + own, Attributes=self._meant(attributes))
        self._queue = str(created["QueueUrl"])

    def _meant(self, value: Any) -> Any:
        """A value of cases.yaml with what its placeholders stand for."""
        match value:
            case dict():
                return {self._meant(name): self._meant(member) for name, member in value.items()}
            case list():
                return [self._meant(member) for member in value]
            case str():
                if found := re.fullmatch(r"<(.) \* (\d+)>", value):
                    return found[1] * int(found[2])
                if found := re.fullmatch(r"<(bytes|zip) (.+)>", value):
                    return bytes.fromhex(found[2]) if found[1] == "bytes" else zipped({"bootstrap": found[2].encode()})
                for (_, identifier), placeholder in self._seen.items():
                    if placeholder == value:
                        return identifier
                value = value.replace("<arn>-", f"arn:aws:sqs:{REGION}:{ACCOUNT}:<case>-")
                return value.replace("<case>-", self._prefix).replace("<endpoint>", self._endpoint.url)
        return value

    def _send(self, headers: Mapping[str, str], body: bytes) -> None:
        scope = f"local/20260101/{REGION}/sqs/aws4_request"
        credential = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
        request = urllib.request.Request(
            self._endpoint.url, body, {"Authorization": credential, **headers}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
                text = f"{response.status} {response.headers['Content-Type']}"
        except urllib.error.HTTPError as error:
            with error:
                kind = str(error.headers["Content-Type"])
                shape = json.loads(error.read()).get("__type") if "json" in kind else None
                text = f"{error.code} {shape} {error.headers['x-amzn-query-error']} {kind}"
        self._write("raw", text)

    def _call(self, operation: str, parameters: dict[str, Any], told: Sequence[str]) -> None:
        service, client = next(
            (service, client)
            for service, client in self._clients.items()
            if operation in client.meta.service_model.operation_names
        )
        shape = client.meta.service_model.operation_model(operation).input_shape
        if service == "sqs" and "QueueUrl" in shape.members and operation != "CreateQueue":
            parameters = {"QueueUrl": self._queue, **parameters}
        parameters = {name: value for name, value in parameters.items() if value is not None}
        method = client.meta.method_to_api_mapping
        name = next(name for name, api in method.items() if api == operation)
        try:
            answer: dict[str, Any] = getattr(client, name)(**parameters)
        except ClientError as error:
            self._write(operation, _error(error, client.meta.service_model.shape_names))
            return
        status = answer.pop("ResponseMetadata")["HTTPStatusCode"]
        lengths = {key: len(answer[key[1:]]) for key in told if key.startswith("#")}
        shown = answer if service == "sqs" else {key: answer.get(key) for key in told} | lengths
        self._write(operation, f"{status} {json.dumps(self._masked(shown), sort_keys=True)}")

    def _write(self, operation: str, text: str) -> None:
        self._calls[operation] = self._calls.get(operation, 0) + 1
        self.answers.append(Answer(f"{operation} {self._calls[operation]}", text))

    def _masked(self, value: Any, key: str = "") -> Any:
        if key in TIMES:
            return "<time>"
        if key in CALLERS:
            return "<caller>"
        if key in IDENTIFIERS:
            return self._numbered(key, str(value))
        if isinstance(value, dict):
            # An entry of a batch that failed has an error message too.
            free = {"Message"} if "Code" in value else set()
            return {
                name: self._masked(member, name)
                for name, member in value.items()
                if name not in free and member not in NOTHING
            }
        if isinstance(value, list):
            by = UNORDERED.get(key)
            items = value if by is None else sorted(value, key=lambda item: str(item[by]))
            return [self._masked(item) for item in items]
        if isinstance(value, bytes):
            return f"<bytes {value.hex()}>"
        if isinstance(value, str):
            if key in DOCUMENTS:
                return self._masked(json.loads(value))
            value = value.replace(self._endpoint.url, "<endpoint>").replace(self._prefix, "<case>-")
            uuid = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value)
            if uuid:
                value = value.replace(uuid[0], self._numbered("UUID", uuid[0]))
            # For a long text its length is enough, because the cases repeat one character.
            return value if len(value) <= 400 else f"<{len(value)} characters>"
        return value

    def _numbered(self, kind: str, identifier: str) -> str:
        number = 1 + sum(seen == kind for seen, _ in self._seen)
        return self._seen.setdefault((kind, identifier), f"<{kind} {number}>")


def _error(error: ClientError, shapes: Sequence[str]) -> str:
    told = error.response["Error"]
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    # SDKs have an exception type for an error only if it is a shape in the service's model.
    shape = told.get("QueryErrorCode") if told.get("QueryErrorCode") in shapes else None
    parts = (told.get("Code"), shape, told.get("Type"))
    return " ".join(str(part) for part in (status, *parts) if part)


def ask(endpoint: Endpoint, cases: Mapping[str, list[Any]]) -> dict[str, list[Answer]]:
    """Runs all cases at one endpoint. Returns their answers."""
    clients = {service: endpoint.client(service) for service in ("sqs", "lambda")}

    def answers(item: tuple[str, list[Any]]) -> list[Answer]:
        name, steps = item
        notebook = Notebook(endpoint, clients, name)
        try:
            notebook.play(steps, TOLD)
        except Exception as error:
            error.add_note(f"in {name} at {endpoint.name}, after {notebook.answers}")
            raise
        return notebook.answers

    with ThreadPoolExecutor(CASES_AT_A_TIME) as pool:
        return dict(zip(cases, pool.map(answers, cases.items()), strict=True))


def compare(ours: list[Answer], theirs: list[Answer]) -> dict[str, Difference]:
    """Compares the answers to one case. Returns the steps that differ."""
    absent = Answer("", NO_CALL)
    pairs = zip_longest(ours, theirs, fillvalue=absent)
    return {own.step or other.step: Difference(own.text, other.text) for own, other in pairs if own.text != other.text}


def main() -> int:
    """Runs all cases at both endpoints, and prints complaints about unlisted differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path, help="comeback-local")
    arguments = parser.parse_args()

    table = listed()
    cases = {f"{topic}/{name}": steps for topic, those in CASES.items() for name, steps in those.items()}
    with (
        endpoints.local(arguments.program.resolve()) as local,
        endpoints.moto() as moto,
        ThreadPoolExecutor(2) as pool,
    ):
        ours, theirs = pool.map(lambda endpoint: ask(endpoint, cases), (local, moto))
    found = {
        f"{name}/{step}": difference for name in cases for step, difference in compare(ours[name], theirs[name]).items()
    }
    wrong = complaints(table, found)
    for complaint in wrong:
        print(complaint, end="\n\n", file=sys.stderr)
    answers = sum(map(len, ours.values()))
    print(f"{len(cases)} cases, {answers} answers, {len(found)} of them differ", end=", ")
    print(f"{len(wrong)} complaints" if wrong else "all of those are looked up")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
