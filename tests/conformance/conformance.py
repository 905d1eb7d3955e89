"""Makes the same calls to the local cloud and to moto, and compares the answers.

Neither is AWS, but different people wrote them from the same documentation. Where they agree, both are probably right.
Where they differ, `differences.toml` says which of them is right according to AWS's documentation. The run fails if a
difference is not in that table, if it has changed, or if a listed one no longer exists.

With `--localstack` or `--localemu`, that emulator takes the place of moto, and the differences are only listed: the
answer of the local cloud first.

Implementations choose their own identifiers, times and addresses, so placeholders replace them. Identifiers are
numbered in the order of their first use. So a comparison still shows whether two answers have the same identifier, or
whether a receive returns a new handle. Error messages are free text and left out; an error is recorded as its status,
its code, its type and whose fault it is.
"""

import json
import re
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, Self

import endpoints
import yaml
from botocore import xform_name
from botocore.exceptions import ClientError
from endpoints import ACCOUNT, PATIENCE_SECONDS, REGION, Endpoint
from inputs import zipped
from patterns import expanded
from recorded import Cloud

# Cases mostly wait, so more of them run at a time than there are cores.
CASES_AT_A_TIME = 8

CASES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())
TOLD = CASES.pop("told")

TABLE = Path(__file__).with_name("differences.toml")

RIGHT = ("local", "moto", "both")

# Matches any text at the end of a listed answer.
ANYTHING = " …"


@dataclass(frozen=True)
class Difference:
    """The two answers to one step of a case."""

    local: str
    moto: str

    def is_like(self, listed: Self) -> bool:
        return is_like(self.local, listed.local) and is_like(self.moto, listed.moto)

    def render(self, place: str) -> str:
        """Formats the difference as a line of the table."""
        return f'"{place}" = {{ local = {_quoted(self.local)}, moto = {_quoted(self.moto)} }}'


def is_like(answer: str, listed: str) -> bool:
    """Whether an answer is the listed one, which may end with `ANYTHING`."""
    if listed.endswith(ANYTHING):
        return answer.startswith(listed.removesuffix(ANYTHING))
    return answer == listed


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else json.dumps(text)


def listed() -> dict[str, Difference]:
    """The differences whose right answer was looked up in the documentation, by place: `topic/case/step`."""
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


# Lists that SQS may return in any order, with the member to sort their items by.
UNORDERED = {"Messages": "Body", "Successful": "Id", "Failed": "Id"}


def expanded_names(text: str) -> str:
    """A text with the ARNs and addresses that its placeholders stand for."""
    text = text.replace("<function>-", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:<case>-")
    return text.replace("<arn>-", f"arn:aws:sqs:{REGION}:{ACCOUNT}:<case>-").replace(
        "<url>-", f"<endpoint>/{ACCOUNT}/<case>-"
    )


class Notebook:
    """Makes the calls of one case to one endpoint, and records the answers."""

    times = frozenset(
        {
            "ApproximateFirstReceiveTimestamp",
            "CreatedTimestamp",
            "LastModified",
            "LastModifiedTimestamp",
            "SentTimestamp",
        }
    )
    identifiers = frozenset({"MessageId", "ReceiptHandle", "UUID", "NextToken"})
    # Strings that contain JSON, whose white space may differ.
    documents = frozenset({"RedrivePolicy"})
    # Each implementation invents the id of the caller.
    callers = frozenset({"SenderId"})
    # Clients treat these like absent members.
    nothing: tuple[Any, ...] = (None, [], {})
    # For a longer text its length is enough, because the cases repeat one character.
    length_max = 400

    def __init__(self, endpoint: Endpoint, case: str) -> None:
        # By step: the operation, and the position of this call among the case's calls to it.
        self.answers: dict[str, str] = {}
        self._endpoint = endpoint
        self._cloud = Cloud(endpoint, case)
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
                    self._write("raw", self._text_of(*self._send(None, **parameters)))
                else:
                    self._call(operation, self._meant(parameters), told.get(members, ()))

    def _make_queue(self, given: Any) -> None:
        ((own, attributes),) = (given if isinstance(given, dict) else {given: {}}).items()
        self._queue = self._cloud.queue(own, **self._meant(attributes))

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
                return (
                    expanded_names(value)
                    .replace("<case>-", self._cloud.prefix)
                    .replace("<endpoint>", self._endpoint.url)
                )
        return value

    def _send(self, url: str | None, headers: Mapping[str, str], body: str) -> tuple[int, Message, bytes]:
        scope = f"local/20260101/{REGION}/sqs/aws4_request"
        credential = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
        signed = {"Authorization": credential, **headers}
        request = urllib.request.Request(url or self._endpoint.url, body.encode(), signed)
        try:
            response = urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            return response.status, response.headers, response.read()

    @staticmethod
    def _text_of(status: int, headers: Message, body: bytes) -> str:
        kind = str(headers["Content-Type"])
        if status < 300:
            return f"{status} {kind}"
        shape = json.loads(body).get("__type") if "json" in kind else None
        return f"{status} {shape} {headers['x-amzn-query-error']} {kind}"

    def _made(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        clients = (self._cloud.sqs, self._cloud.functions, self._cloud.s3)
        client = next(each for each in clients if operation in each.meta.service_model.operation_names)
        shape = client.meta.service_model.operation_model(operation).input_shape
        parameters = {name: value for name, value in self._completed(parameters, shape).items() if value is not None}
        answer = getattr(client, xform_name(operation))(**parameters)
        if operation == "GetObject":
            answer["Body"] = answer["Body"].read()
        return answer

    def _completed(self, parameters: dict[str, Any], shape: Any) -> dict[str, Any]:
        if "Bucket" in shape.members:
            return {"Bucket": self._cloud.name("bucket"), **parameters}
        is_of_queue = "QueueUrl" in shape.members
        return {"QueueUrl": self._queue, **parameters} if is_of_queue else parameters

    def _call(self, operation: str, parameters: dict[str, Any], told: Sequence[str]) -> None:
        try:
            answer = self._made(operation, parameters)
        except ClientError as error:
            told, metadata = error.response["Error"], error.response["ResponseMetadata"]
            # SDKs have an exception type for an error only if it is a shape in the service's model.
            shapes = self._cloud.sqs.meta.service_model.shape_names
            shape = told.get("QueryErrorCode") if told.get("QueryErrorCode") in shapes else None
            parts = (metadata["HTTPStatusCode"], told.get("Code"), shape, told.get("Type"))
            self._write(operation, " ".join(str(part) for part in parts if part))
            return
        status = answer.pop("ResponseMetadata")["HTTPStatusCode"]
        lengths = {key: len(answer[key[1:]]) for key in told if key.startswith("#")}
        is_of_sqs = operation in self._cloud.sqs.meta.service_model.operation_names
        shown = answer if is_of_sqs else {key: answer.get(key) for key in told} | lengths
        self._write(operation, f"{status} {json.dumps(self._masked(shown), sort_keys=True)}")

    def _write(self, operation: str, text: str) -> None:
        self._calls[operation] = self._calls.get(operation, 0) + 1
        self.answers[f"{operation} {self._calls[operation]}"] = text

    def _masked(self, value: Any, key: str = "") -> Any:
        if key in self.times:
            return "<time>"
        if key in self.callers:
            return "<caller>"
        if key in self.identifiers:
            return self._numbered(key, str(value))
        if isinstance(value, dict):
            # An entry of a batch that failed has an error message too.
            free = {"Message"} if "Code" in value else set()
            return {
                name: self._masked(member, name)
                for name, member in value.items()
                if name not in free and member not in self.nothing
            }
        if isinstance(value, list):
            by = UNORDERED.get(key)
            items = value if by is None else sorted(value, key=lambda item: str(item[by]))
            return [self._masked(item) for item in items]
        if isinstance(value, bytes):
            return f"<bytes {value.hex()}>"
        if isinstance(value, str):
            if key in self.documents and value.startswith("{"):
                return self._masked(json.loads(value))
            value = value.replace(self._endpoint.url, "<endpoint>").replace(self._cloud.prefix, "<case>-")
            uuid = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value)
            if uuid:
                value = value.replace(uuid[0], self._numbered("UUID", uuid[0]))
            return value if len(value) <= self.length_max else f"<{len(value)} characters>"
        return value

    def _numbered(self, kind: str, identifier: str) -> str:
        number = 1 + sum(seen == kind for seen, _ in self._seen)
        return self._seen.setdefault((kind, identifier), f"<{kind} {number}>")


def ask(endpoint: Endpoint, cases: Mapping[str, list[Any]]) -> dict[str, dict[str, str]]:
    def answers(item: tuple[str, list[Any]]) -> dict[str, str]:
        name, steps = item
        notebook = Notebook(endpoint, name)
        try:
            notebook.play(steps, TOLD)
        except Exception as error:
            error.add_note(f"in {name} at {endpoint.name}, after {notebook.answers}")
            raise
        return notebook.answers

    with ThreadPoolExecutor(CASES_AT_A_TIME) as pool:
        return dict(zip(cases, pool.map(answers, cases.items()), strict=True))


def main() -> int:
    program, *options = sys.argv[1:]
    package = options[0].removeprefix("--") if options else None
    cases = {f"{topic}/{name}": steps for topic, those in CASES.items() for name, steps in those.items()}
    with (
        endpoints.local(Path(program).resolve()) as local,
        endpoints.localstack(package=package) if package else endpoints.moto() as other,
        ThreadPoolExecutor(2) as pool,
    ):
        ours, theirs = pool.map(lambda endpoint: ask(endpoint, cases), (local, other))
    found = {
        f"{name}/{step}": Difference(own, theirs[name][step])
        for name in cases
        for step, own in ours[name].items()
        if own != theirs[name][step]
    }
    told = f"{len(cases)} cases, {sum(map(len, ours.values()))} answers, {len(found)} of them differ"
    if package:
        print(told, *(f"{place}\n  {each.local}\n  {each.moto}" for place, each in found.items()), sep="\n")
        return 0
    wrong = complaints(listed(), found)
    print(f"{told}, {len(wrong)} complaints" if wrong else f"{told}, all of those are looked up")
    for complaint in wrong:
        print(complaint, end="\n\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
