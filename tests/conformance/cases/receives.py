"""Receives: the number of messages, waiting times, and receive counts."""

from answers import Notebook

COUNT = ["ApproximateReceiveCount"]


def from_an_empty_queue(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=1)


def one_where_nobody_says_how_many(aws: Notebook) -> None:
    queue = _with_messages(aws, 2)
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def ten_at_most(aws: Notebook) -> None:
    queue = _with_messages(aws, 11)
    aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)
    aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)


def numbers_that_cannot_be(aws: Notebook) -> None:
    queue = _with_messages(aws, 1)
    for number in (0, 11, -1):
        aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=number)


def waits_that_cannot_be(aws: Notebook) -> None:
    queue = _with_messages(aws, 1)
    for seconds in (21, -1):
        aws.sqs("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=seconds)
    aws.sqs("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=20)


def visibility_timeouts_that_cannot_be(aws: Notebook) -> None:
    queue = _with_messages(aws, 1)
    for seconds in (43_201, -1):
        aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=seconds)
    aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=43_200)


def counted(aws: Notebook) -> None:
    queue = _with_messages(aws, 1)
    for _ in range(3):
        aws.sqs(
            "ReceiveMessage",
            QueueUrl=queue,
            VisibilityTimeout=0,
            MessageSystemAttributeNames=COUNT,
        )


def again_when_the_visibility_timeout_ends(aws: Notebook) -> None:
    queue = _with_messages(aws, 1)
    asked = {"QueueUrl": queue, "MessageSystemAttributeNames": COUNT}
    aws.sqs("ReceiveMessage", VisibilityTimeout=1, **asked)
    aws.sqs("ReceiveMessage", **asked)
    aws.sqs("ReceiveMessage", WaitTimeSeconds=10, **asked)


def by_their_queues_visibility_timeout(aws: Notebook) -> None:
    queue = aws.queue(VisibilityTimeout="0")
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=60)
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def by_their_queues_wait_time(aws: Notebook) -> None:
    queue = aws.queue(ReceiveMessageWaitTimeSeconds="10")
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", DelaySeconds=1)
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def _with_messages(aws: Notebook, count: int) -> str:
    queue = aws.queue()
    for number in range(count):
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody=f"{number:02}")
    return queue
