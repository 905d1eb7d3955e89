"""What was recorded on AWS, and how a local cloud is held to it: one module a topic.

`TOPIC_facts.toml` is the table of a topic's facts and `TOPIC_facts.py` has a check of the same
name for each: a function that is given a [`Cloud`] and raises an AssertionError where the fact doesn't
hold there.
"""

import time
import zlib
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from endpoints import ACCOUNT, PATIENCE_SECONDS, REGION, Endpoint

# Far longer than anything here takes.
EVENTUALLY_SECONDS = 20
POLL_SECONDS = 0.05


class Cloud:
    """The implementation that is asked, as one check sees it."""

    def __init__(self, endpoint: Endpoint, check: str) -> None:
        self.endpoint = endpoint
        self.sqs = endpoint.client("sqs")
        self.functions = endpoint.client("lambda")
        # Short enough for a function's name.
        self._prefix = f"{zlib.crc32(check.encode()):08x}-"

    def name(self, own: str) -> str:
        """A name that no other check uses."""
        return self._prefix + own

    def queue(self, own: str = "queue", **attributes: str) -> str:
        """A new queue, by its URL."""
        created = self.sqs.create_queue(QueueName=self.name(own), Attributes=attributes)
        return str(created["QueueUrl"])

    def queue_arn(self, own: str = "queue") -> str:
        """The ARN of a queue of this check, whether it exists or not."""
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name(own)}"

    def receive(self, queue: str, **parameters: Any) -> dict[str, Any]:
        """Takes the next message out of a queue, with all its attributes, as soon as there is one.

        Raises:
            AssertionError: if none comes.
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
    """The status, the code and the message that a call is refused with.

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
    """Holds an answer to what was recorded.

    Raises:
        AssertionError: with both, if they are not equal.
    """
    if got != expected:
        raise AssertionError(f"recorded {expected!r}, got {got!r}")


def eventually(holds: Callable[[], bool]) -> None:
    """Waits until something holds that nobody tells of.

    Raises:
        AssertionError: if it doesn't come to hold.
    """
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"it doesn't hold within {EVENTUALLY_SECONDS} s")
        time.sleep(POLL_SECONDS)
