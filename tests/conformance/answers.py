"""Calls and their answers, written down so that implementations can be compared to the letter.

What is an implementation's own choice, an identifier, a time, its address, is replaced by a word
for it. Identifiers are numbered in the order in which they are first seen, so it still shows where
two answers tell the same one, or where a receive hands out a new handle. Texts of errors are free
and left out: an error is its status, its code, its type, and whose fault it is.
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
from endpoints import PATIENCE_SECONDS, REGION, Endpoint

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
# JSON in a string: its spaces are free.
DOCUMENTS = frozenset({"RedrivePolicy"})
# Who calls is made up by either.
CALLERS = frozenset({"SenderId"})

# What SQS may tell in any order: nothing of it depends on the order.
UNORDERED = {"Messages": "Body", "Successful": "Id", "Failed": "Id"}


# No client can tell these from a member that is not there.
NOTHING: tuple[Any, ...] = (None, [], {})


@dataclass(frozen=True)
class Answer:
    """What one call of a case was answered."""

    # The operation, and which call to it this is in its case.
    step: str
    text: str


class Notebook:
    """One endpoint as a case sees it: calls are made, and their answers written down."""

    def __init__(self, endpoint: Endpoint, clients: Mapping[str, Any], case: str) -> None:
        self.answers: list[Answer] = []
        self._endpoint = endpoint
        self._clients = clients
        # Short enough for a function's name, and the case's own.
        self._prefix = f"{zlib.crc32(case.encode()):08x}-"
        self._seen: dict[tuple[str, str], str] = {}
        self._calls: dict[str, int] = {}

    def name(self, own: str) -> str:
        """A name that no other case uses."""
        return self._prefix + own

    def queue(self, own: str = "queue", **attributes: str) -> str:
        """A queue to work with; its creation is not what the case is about."""
        created = self._clients["sqs"].create_queue(QueueName=self.name(own), Attributes=attributes)
        return str(created["QueueUrl"])

    def sqs(self, operation: str, **parameters: Any) -> dict[str, Any]:
        """Calls SQS."""
        return self._call("sqs", operation, parameters, None)

    def function(self, operation: str, *, told: Sequence[str] = (), **parameters: Any) -> dict[str, Any]:
        """Calls Lambda. `told` are the members of the answer that are compared: AWS adds new ones
        every year, and nobody tells all."""
        return self._call("lambda", operation, parameters, told)

    def raw(self, headers: Mapping[str, str], body: bytes) -> None:
        """Writes to SQS what no client would write."""
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

    def _call(
        self,
        service: str,
        operation: str,
        parameters: Mapping[str, Any],
        told: Sequence[str] | None,
    ) -> dict[str, Any]:
        client = self._clients[service]
        method = client.meta.method_to_api_mapping
        name = next(name for name, api in method.items() if api == operation)
        try:
            answer: dict[str, Any] = getattr(client, name)(**parameters)
        except ClientError as error:
            self._write(operation, _error(error, client.meta.service_model.shape_names))
            return {}
        status = answer.pop("ResponseMetadata")["HTTPStatusCode"]
        shown = answer if told is None else {key: answer.get(key) for key in told}
        self._write(operation, f"{status} {json.dumps(self._masked(shown), sort_keys=True)}")
        return answer

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
            # Of one entry of a batch the text is as free as that of a whole refusal.
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
            # A long text is told by its length: the cases make theirs of one character.
            return value if len(value) <= 400 else f"<{len(value)} characters>"
        return value

    def _numbered(self, kind: str, identifier: str) -> str:
        number = 1 + sum(seen == kind for seen, _ in self._seen)
        return self._seen.setdefault((kind, identifier), f"<{kind} {number}>")


def _error(error: ClientError, shapes: Sequence[str]) -> str:
    told = error.response["Error"]
    status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    # SDKs make a type of its own of a shape that the service's model has, and of no other.
    shape = told.get("QueryErrorCode") if told.get("QueryErrorCode") in shapes else None
    parts = (told.get("Code"), shape, told.get("Type"))
    return " ".join(str(part) for part in (status, *parts) if part)
