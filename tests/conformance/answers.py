"""Makes calls and records their answers in a form that can be compared between implementations.

Implementations choose their own identifiers, times and addresses, so placeholders replace them. Identifiers are
numbered in the order of their first use. So a comparison still shows whether two answers have the same identifier, or
whether a receive returns a new handle. Error messages are free text and left out; an error is recorded as its status,
its code, its type and whose fault it is.
"""

import json
import re
import urllib.error
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError
from endpoints import ACCOUNT, PATIENCE_SECONDS, REGION, Endpoint
from inputs import zipped

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
