"""What the facts of facts.yaml need in a local cloud, and the checks of those that steps can't say."""

import base64
import functools
import json
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import TestCase

from botocore.exceptions import ClientError
from endpoints import ACCOUNT, PATIENCE_SECONDS, REGION, ROLE, Endpoint
from inputs import zipped

PROGRAM = Path(__file__).with_name("function.py").read_bytes()

same = TestCase().assertEqual

# Far longer than any check takes.
EVENTUALLY_SECONDS = 20
POLL_SECONDS = 0.05


class Cloud:
    """The implementation under test, with names that are unique to one check."""

    def __init__(self, endpoint: Endpoint, check: str) -> None:
        self.sqs = endpoint.client("sqs")
        self.functions = endpoint.client("lambda")
        self.s3 = endpoint.client("s3")
        # Unique to the check, and short enough for the name of a function.
        self.prefix = f"{zlib.crc32(check.encode()):08x}-"

    def name(self, own: str) -> str:
        return self.prefix + own

    def queue(self, own: str = "queue", **attributes: str) -> str:
        return self.sqs.create_queue(QueueName=self.name(own), Attributes=attributes)["QueueUrl"]

    def queue_arn(self, own: str = "queue") -> str:
        """The ARN of one of this check's queues, which need not exist."""
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{self.name(own)}"

    def receive(self, queue: str) -> dict[str, Any]:
        """Waits for the next message in a queue and deletes it."""
        for _ in range(PATIENCE_SECONDS // 20):
            for message in self.sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", []):
                self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
                return dict(message)
        raise AssertionError(f"expected a message in {queue}, got none")

    def records(self, queue: str) -> list[tuple[str, str]]:
        """The bodies and receive counts of the next batch that a function has forwarded to a queue."""
        batch = json.loads(self.receive(queue)["Body"])["Records"]
        return [(each["body"], each["attributes"]["ApproximateReceiveCount"]) for each in batch]

    def function(
        self,
        own: str = "f",
        do: dict[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        **settings: Any,
    ) -> str:
        """Creates a function with the code `function.py`, and waits until it can be invoked. Returns its name."""
        described = {
            "FunctionName": self.name(own),
            "Role": ROLE,
            "Runtime": "provided.al2023",
            "Handler": "bootstrap",
            "Code": {"ZipFile": zipped({"bootstrap": PROGRAM})},
            "Environment": {"Variables": {"DO": json.dumps(do), **(variables or {})}},
        }
        self.functions.create_function(**{**described, **settings})
        self.functions.get_waiter("function_active_v2").wait(FunctionName=self.name(own))
        return self.name(own)


def refused(code: tuple[int, str, str], call: Callable[..., Any], **parameters: Any) -> None:
    try:
        answer = call(**parameters)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        same((status, error.response["Error"]["Code"], error.response["Error"]["Message"]), code)
        return
    raise AssertionError(f"expected a refusal, got {answer}")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"it doesn't hold within {EVENTUALLY_SECONDS} s")
        time.sleep(POLL_SECONDS)


def a_batch_has_at_most_ten_entries(aws: Cloud) -> None:
    queue, handle = aws.queue(), {"ReceiptHandle": "x"}
    text = "Maximum number of entries per request are 10. You have sent 20."
    for operation, entry in (
        (aws.sqs.send_message_batch, {"MessageBody": "x"}),
        (aws.sqs.delete_message_batch, handle),
        (aws.sqs.change_message_visibility_batch, {**handle, "VisibilityTimeout": 0}),
    ):
        entries = [{"Id": str(number), **entry} for number in range(20)]
        code = (400, "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", text)
        refused(code, operation, QueueUrl=queue, Entries=entries)


def a_move_task_moves_to_the_named_queue(aws: Cloud) -> None:
    dead, destination = aws.queue("dead"), aws.queue("destination")
    policy = {"deadLetterTargetArn": aws.queue_arn("dead"), "maxReceiveCount": 1}
    source = aws.queue("source", RedrivePolicy=json.dumps(policy))
    bodies = ["message-1", "message-2"]
    for body in bodies:
        aws.sqs.send_message(QueueUrl=source, MessageBody=body)
    for _ in range(2):
        aws.sqs.receive_message(QueueUrl=source, MaxNumberOfMessages=10, VisibilityTimeout=0)
    arns = {"SourceArn": aws.queue_arn("dead"), "DestinationArn": aws.queue_arn("destination")}
    handle = json.loads(base64.b64decode(aws.sqs.start_message_move_task(**arns)["TaskHandle"]))
    same(handle, {"taskId": str(uuid.UUID(handle["taskId"])), "sourceArn": arns["SourceArn"]})
    moved = aws.sqs.receive_message(QueueUrl=destination, MaxNumberOfMessages=10)["Messages"]
    same(sorted(message["Body"] for message in moved), bodies)
    (task,) = aws.sqs.list_message_move_tasks(SourceArn=arns["SourceArn"])["Results"]
    del task["StartedTimestamp"]
    counts = {"ApproximateNumberOfMessagesMoved": 2, "ApproximateNumberOfMessagesToMove": 2}
    same(task, {**counts, **arns, "Status": "COMPLETED"})
    same("Messages" in aws.sqs.receive_message(QueueUrl=dead), False)


def a_move_task_is_cancelled_by_its_handle(aws: Cloud) -> None:
    aws.queue()

    def handle(queue: str) -> str:
        told = {"taskId": str(uuid.uuid4()), "sourceArn": aws.queue_arn(queue)}
        return base64.b64encode(json.dumps(told).encode()).decode()

    absent = (404, "ResourceNotFoundException")
    for text, expected in (
        ("foobared", (400, "InvalidParameterValue", "Value for parameter TaskHandle is invalid.")),
        (handle("none"), (*absent, "The resource that you specified for the SourceArn parameter doesn't exist.")),
        (handle("queue"), (*absent, "Task does not exist.")),
    ):
        refused(expected, aws.sqs.cancel_message_move_task, TaskHandle=text)


def a_mapping_passes_through_states(aws: Cloud) -> None:
    with mapped(aws, {}) as (source, forwarded, mapping):
        of = {"UUID": mapping["UUID"]}
        same(mapping["State"], "Creating")
        # A delivered message shows that the mapping is enabled.
        aws.sqs.send_message(QueueUrl=source, MessageBody="1")
        aws.receive(forwarded)
        same(aws.functions.get_event_source_mapping(**of)["State"], "Enabled")
        same(aws.functions.update_event_source_mapping(BatchSize=5, **of)["State"], "Updating")
        eventually(lambda: aws.functions.get_event_source_mapping(**of)["State"] == "Enabled")
        same(aws.functions.delete_event_source_mapping(**of)["State"], "Deleting")


def only_the_named_failures_of_a_batch_come_again(aws: Cloud) -> None:
    with mapped(aws, {"fail": ["bad"]}) as (source, forwarded, _):
        for body in ("good", "bad"):
            aws.sqs.send_message(QueueUrl=source, MessageBody=body)
        seen: list[tuple[str, str]] = []
        while len(seen) < 3:
            seen += aws.records(forwarded)
        same(sorted(seen), [("bad", "1"), ("bad", "2"), ("good", "1")])


def a_report_that_is_wrong_fails_the_whole_batch(aws: Cloud) -> None:
    names = ("not-of-this-batch", "", None, 123)
    wrong = [*({"itemIdentifier": name} for name in names), {"foo": 123}, {"foo": None}]
    for number, each in enumerate(wrong):
        comes_again(aws, {"answer": {"batchItemFailures": [each]}}, str(number))


def an_error_fails_the_whole_batch(aws: Cloud) -> None:
    comes_again(aws, {"error": {"errorType": "OrderError", "errorMessage": "no stock"}})


def comes_again(aws: Cloud, do: dict[str, Any], own: str = "") -> None:
    """Checks that a message comes again if the function does this."""
    with mapped(aws, do, own) as (source, forwarded, _):
        aws.sqs.send_message(QueueUrl=source, MessageBody="1")
        same([aws.records(forwarded), aws.records(forwarded)], [[("1", "1")], [("1", "2")]])


def what_says_nothing_of_failures_is_success(aws: Cloud) -> None:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    for number, response in enumerate(("", [], None, {}, {"batchItemFailures": []}, {"batchItemFailures": None})):
        with mapped(aws, {"answer": response}, str(number)) as (source, forwarded, _):
            aws.sqs.send_message(QueueUrl=source, MessageBody="1")
            aws.receive(forwarded)
            asked = functools.partial(aws.sqs.get_queue_attributes, QueueUrl=source, AttributeNames=names)
            eventually(lambda asked=asked: {*asked()["Attributes"].values()} == {"0"})


@contextmanager
def mapped(aws: Cloud, do: dict[str, Any], own: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Maps a queue, whose failed messages are visible again after three seconds, to a new function that is warm.

    The function forwards its events to another queue, and then does this. Ends the mapping, so that it stops polling.
    """
    forwarded, source = aws.queue(f"forwarded{own}"), aws.queue(f"source{own}", VisibilityTimeout="3")
    name = aws.function(f"f{own}", do={"forward": forwarded, **do}, Timeout=3)
    # The function only returns for this event, whatever its variable DO says.
    aws.functions.invoke(FunctionName=name, Payload=json.dumps("warm up"))
    mapping = aws.functions.create_event_source_mapping(
        FunctionName=name,
        EventSourceArn=aws.queue_arn(f"source{own}"),
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    try:
        yield source, forwarded, mapping
    finally:
        with suppress(ClientError):
            aws.functions.delete_event_source_mapping(UUID=mapping["UUID"])
