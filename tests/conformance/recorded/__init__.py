"""Facts that were recorded on AWS, and checks whether they hold in a local cloud.

For each fact of `facts.toml`, one of the modules has a check with its name: a function that takes a [`Cloud`] and
raises an AssertionError if the fact doesn't hold there.
"""

import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from endpoints import ACCOUNT, PATIENCE_SECONDS, REGION, ROLE, Endpoint
from inputs import zipped

PROGRAM = Path(__file__).with_name("function.py").read_bytes()

# An error as a function itself reports it.
ERROR = {"errorType": "OrderError", "errorMessage": "no stock"}

# The status and the code of a refusal.
NOT_FOUND = 404, "ResourceNotFoundException"
INVALID = 400, "InvalidParameterValueException"

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


def create_function(
    aws: Cloud,
    own: str = "f",
    do: dict[str, Any] | None = None,
    variables: dict[str, str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Creates a function with the code `function.py`. `do` or, without that, its event says what it does."""
    environment = {"Variables": {"DO": json.dumps(do), **(variables or {})}}
    described = {
        "FunctionName": aws.name(own),
        "Role": ROLE,
        "Runtime": "provided.al2023",
        "Handler": "bootstrap",
        "Code": {"ZipFile": zipped({"bootstrap": PROGRAM})},
        "Environment": environment,
    }
    return dict(aws.functions.create_function(**{**described, **settings}))


def function(aws: Cloud, own: str = "f", **settings: Any) -> str:
    """Creates a function, and waits until it can be invoked. Returns its name."""
    create_function(aws, own, **settings)
    aws.functions.get_waiter("function_active_v2").wait(FunctionName=aws.name(own))
    return aws.name(own)


def function_arn(name: str) -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"


def received(aws: Cloud, queue: str, **parameters: Any) -> list[dict[str, Any]]:
    """The messages of one receive."""
    return list(aws.sqs.receive_message(QueueUrl=queue, **parameters).get("Messages", []))


def let_a_second_pass(aws: Cloud) -> None:
    """Waits for one second of the implementation's clock, by means of a delayed message."""
    clock = aws.queue("clock")
    aws.sqs.send_message(QueueUrl=clock, MessageBody="over", DelaySeconds=1)
    aws.receive(clock)


def dead_letter_queue(aws: Cloud, source: str = "source") -> tuple[str, str]:
    """Creates the queue `dead`, and a queue that moves a message there after one receive."""
    dead = aws.queue("dead")
    policy = {"deadLetterTargetArn": aws.queue_arn("dead"), "maxReceiveCount": 1}
    return dead, aws.queue(source, RedrivePolicy=json.dumps(policy))


def give_up(aws: Cloud, queue: str, *bodies: str) -> None:
    """Sends messages with these bodies, and makes SQS move all messages of the queue to its dead-letter queue."""
    for body in bodies:
        aws.sqs.send_message(QueueUrl=queue, MessageBody=body)
    for _ in range(2):
        received(aws, queue, MaxNumberOfMessages=10, VisibilityTimeout=0)
