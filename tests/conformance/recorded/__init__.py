"""Facts that were recorded on AWS, and checks whether they hold in a local cloud.

For each topic, `TOPIC_facts.toml` is a table of facts, and `TOPIC_facts.py` has a check for each fact, with the fact's
name. A check is a function that takes a [`Cloud`] and raises an AssertionError if the fact doesn't hold there.
"""

import time
import zlib
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from endpoints import ACCOUNT, PATIENCE_SECONDS, REGION, Endpoint

# Far longer than any check takes.
EVENTUALLY_SECONDS = 20
POLL_SECONDS = 0.05


class Cloud:
    """The implementation under test, with names that are unique to one check."""

    def __init__(self, endpoint: Endpoint, check: str) -> None:
        self.endpoint = endpoint
        self.sqs = endpoint.client("sqs")
        self.functions = endpoint.client("lambda")
        # A prefix that is unique to the check, and short enough for the name of a function.
        self._prefix = f"{zlib.crc32(check.encode()):08x}-"

    def name(self, own: str) -> str:
        """A name that no other check uses."""
        return self._prefix + own

    def queue(self, own: str = "queue", **attributes: str) -> str:
        """Creates a queue. Returns its URL."""
        created = self.sqs.create_queue(QueueName=self.name(own), Attributes=attributes)
        return str(created["QueueUrl"])

    def queue_arn(self, own: str = "queue") -> str:
        """The ARN of one of this check's queues, which need not exist."""
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name(own)}"

    def receive(self, queue: str, **parameters: Any) -> dict[str, Any]:
        """Waits for the next message in a queue and deletes it. Returns it with all its attributes.

        Raises:
            AssertionError: if no message arrives.
        """
        for _ in range(PATIENCE_SECONDS // 20):
            received = self.sqs.receive_message(
                QueueUrl=queue,
                WaitTimeSeconds=20,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
                **parameters,
            )
            for message in received.get("Messages", []):
                handle = message["ReceiptHandle"]
                self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
                return dict(message)
        raise AssertionError(f"expected a message in {queue}, got none")


def refusal(call: Callable[..., Any], **parameters: Any) -> tuple[int, str, str]:
    """Makes a call that must be refused. Returns the status, the code and the message of its error.

    Raises:
        AssertionError: if it is not refused.
    """
    try:
        answer = call(**parameters)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return status, error.response["Error"]["Code"], error.response["Error"]["Message"]
    raise AssertionError(f"expected a refusal, got {answer}")


def same(got: Any, expected: Any) -> None:
    """Compares an answer with the recorded one.

    Raises:
        AssertionError: if they are not equal.
    """
    if got != expected:
        raise AssertionError(f"recorded {expected!r}, got {got!r}")


def eventually(holds: Callable[[], bool]) -> None:
    """Polls until a condition holds.

    Raises:
        AssertionError: if it doesn't hold in time.
    """
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"it doesn't hold within {EVENTUALLY_SECONDS} s")
        time.sleep(POLL_SECONDS)
