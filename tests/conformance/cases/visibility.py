"""Visibility changes and deletions: which receipt handles are valid for them."""

from answers import Notebook

COUNT = ["ApproximateReceiveCount"]


def let_go(aws: Notebook) -> None:
    queue, handle = _held(aws)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    _change(aws, queue, handle, 0)
    aws.sqs("ReceiveMessage", QueueUrl=queue, MessageSystemAttributeNames=COUNT)


def shortened(aws: Notebook) -> None:
    queue, handle = _held(aws)
    _change(aws, queue, handle, 1)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=10, MessageSystemAttributeNames=COUNT)


def lengthened(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
    received = aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=1)
    _change(aws, queue, received["Messages"][0]["ReceiptHandle"], 600)
    aws.sqs("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=2)


def limits(aws: Notebook) -> None:
    queue, handle = _held(aws)
    for seconds in (43_140, 43_201, -1):
        _change(aws, queue, handle, seconds)
    aws.sqs("ChangeMessageVisibility", QueueUrl=queue, ReceiptHandle=handle)


def twelve_hours_count_from_the_receive(aws: Notebook) -> None:
    queue, handle = _held(aws)
    aws.sqs("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=1)
    _change(aws, queue, handle, 43_200)
    _change(aws, queue, handle, 43_140)


def of_a_deleted_message(aws: Notebook) -> None:
    queue, handle = _held(aws)
    aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    _change(aws, queue, handle, 10)


def of_a_visible_message(aws: Notebook) -> None:
    queue, handle = _held(aws)
    _change(aws, queue, handle, 0)
    _change(aws, queue, handle, 10)


def by_a_handle_of_an_earlier_receive(aws: Notebook) -> None:
    queue, handle = _held(aws)
    _change(aws, queue, handle, 0)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    _change(aws, queue, handle, 0)
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def deleted_by_a_handle_of_an_earlier_receive(aws: Notebook) -> None:
    queue, handle = _held(aws)
    _change(aws, queue, handle, 0)
    received = aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    _change(aws, queue, received["Messages"][0]["ReceiptHandle"], 0)
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def deleted_when_visible_again(aws: Notebook) -> None:
    queue, handle = _held(aws)
    _change(aws, queue, handle, 0)
    aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def by_no_handle(aws: Notebook) -> None:
    queue = aws.queue()
    for handle in ("", "x"):
        _change(aws, queue, handle, 10)
        aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    aws.sqs("ChangeMessageVisibility", QueueUrl=queue, VisibilityTimeout=10)
    aws.sqs("DeleteMessage", QueueUrl=queue)


def by_a_handle_of_another_queue(aws: Notebook) -> None:
    _, handle = _held(aws)
    other = aws.queue("other")
    _change(aws, other, handle, 10)
    aws.sqs("DeleteMessage", QueueUrl=other, ReceiptHandle=handle)


def _held(aws: Notebook) -> tuple[str, str]:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
    received = aws.sqs("ReceiveMessage", QueueUrl=queue)
    return queue, received["Messages"][0]["ReceiptHandle"]


def _change(aws: Notebook, queue: str, handle: str, seconds: int) -> None:
    aws.sqs(
        "ChangeMessageVisibility",
        QueueUrl=queue,
        ReceiptHandle=handle,
        VisibilityTimeout=seconds,
    )
