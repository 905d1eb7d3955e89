"""Batches: each entry gets its own answer, unless the whole batch is refused."""

from typing import Any

from answers import Notebook

MESSAGE_BYTES_MAX = 1_048_576


def sent_received_changed_deleted(aws: Notebook) -> None:
    queue = aws.queue()
    handles = _held(aws, queue, 10)
    changes = [{**entry, "VisibilityTimeout": 0} for entry in handles]
    aws.sqs("ChangeMessageVisibilityBatch", QueueUrl=queue, Entries=changes)
    received = aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)
    aws.sqs("DeleteMessageBatch", QueueUrl=queue, Entries=_handles(received))
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def empty(aws: Notebook) -> None:
    queue = aws.queue()
    for operation in ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"):
        aws.sqs(operation, QueueUrl=queue, Entries=[])


def without_entries(aws: Notebook) -> None:
    queue = aws.queue()
    for operation in ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"):
        aws.sqs(operation, QueueUrl=queue)


def of_eleven(aws: Notebook) -> None:
    queue = aws.queue()
    _each_kind(aws, queue, [str(number) for number in range(11)])
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def ids_twice(aws: Notebook) -> None:
    queue = aws.queue()
    _each_kind(aws, queue, ["a", "b", "a"])
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def ids_that_cannot_be(aws: Notebook) -> None:
    queue = aws.queue()
    for name in ("", "two words", "full.stop", "ü", "i" * 81):
        _each_kind(aws, queue, [name])


def ids_that_can_be(aws: Notebook) -> None:
    _send(aws, aws.queue(), [_entry(name) for name in ("i" * 80, "-", "_", "A9")])


def too_long_in_all(aws: Notebook) -> None:
    queue = aws.queue()
    half = MESSAGE_BYTES_MAX // 2
    _send(aws, queue, [_entry("a", "x" * half), _entry("b", "x" * half)])
    _send(aws, queue, [_entry("a", "x" * half), _entry("b", "x" * (half + 1))])


def one_refused_among_others(aws: Notebook) -> None:
    queue = aws.queue()
    for wrong in (
        _entry("wrong", ""),
        _entry("wrong", "\u0001"),
        {**_entry("wrong"), "DelaySeconds": 901},
        {"Id": "wrong"},
    ):
        _send(aws, queue, [_entry("first"), wrong, _entry("last")])


def one_with_a_wrong_attribute_among_others(aws: Notebook) -> None:
    queue = aws.queue()
    attributes = {"a": {"DataType": "Text", "StringValue": "x"}}
    wrong = {**_entry("wrong"), "MessageAttributes": attributes}
    _send(aws, queue, [_entry("first"), wrong])


def one_too_long_for_its_queue(aws: Notebook) -> None:
    queue = aws.queue(MaximumMessageSize="1024")
    _send(aws, queue, [_entry("first"), _entry("wrong", "x" * 1025)])


def with_attributes_and_a_delay(aws: Notebook) -> None:
    queue = aws.queue()
    attributes = {"a": {"DataType": "String", "StringValue": "x"}}
    entries = [
        {**_entry("late"), "DelaySeconds": 900},
        {**_entry("now"), "MessageAttributes": attributes},
    ]
    _send(aws, queue, entries)
    aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"])


def one_visibility_refused_among_others(aws: Notebook) -> None:
    queue = aws.queue()
    first, second, third = _held(aws, queue, 3)
    aws.sqs(
        "ChangeMessageVisibilityBatch",
        QueueUrl=queue,
        Entries=[
            {**first, "VisibilityTimeout": 60},
            {**second, "VisibilityTimeout": 43_201},
            {**third, "VisibilityTimeout": -1},
            {"Id": "bad", "ReceiptHandle": "x", "VisibilityTimeout": 60},
        ],
    )


def a_visibility_of_a_deleted_message_among_others(aws: Notebook) -> None:
    queue = aws.queue()
    kept, gone = _held(aws, queue, 2)
    aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle=gone["ReceiptHandle"])
    entries = [{**entry, "VisibilityTimeout": 60} for entry in (gone, kept)]
    aws.sqs("ChangeMessageVisibilityBatch", QueueUrl=queue, Entries=entries)


def one_deletion_refused_among_others(aws: Notebook) -> None:
    queue = aws.queue()
    (held,) = _held(aws, queue, 1)
    bad = {"Id": "bad", "ReceiptHandle": "x"}
    aws.sqs("DeleteMessageBatch", QueueUrl=queue, Entries=[bad, held])
    aws.sqs("DeleteMessageBatch", QueueUrl=queue, Entries=[held])


def one_message_deleted_twice(aws: Notebook) -> None:
    queue = aws.queue()
    (held,) = _held(aws, queue, 1)
    again = {**held, "Id": "again"}
    aws.sqs("DeleteMessageBatch", QueueUrl=queue, Entries=[held, again])


def _each_kind(aws: Notebook, queue: str, ids: list[str]) -> None:
    _send(aws, queue, [_entry(name) for name in ids])
    handles = [{"Id": name, "ReceiptHandle": "x"} for name in ids]
    aws.sqs("DeleteMessageBatch", QueueUrl=queue, Entries=handles)
    changes = [{**entry, "VisibilityTimeout": 1} for entry in handles]
    aws.sqs("ChangeMessageVisibilityBatch", QueueUrl=queue, Entries=changes)


def _send(aws: Notebook, queue: str, entries: list[dict[str, Any]]) -> None:
    aws.sqs("SendMessageBatch", QueueUrl=queue, Entries=entries)


def _entry(name: str, body: str = "x") -> dict[str, Any]:
    return {"Id": name, "MessageBody": body}


def _held(aws: Notebook, queue: str, count: int) -> list[dict[str, Any]]:
    _send(aws, queue, [_entry(f"m{number}", f"{number}") for number in range(count)])
    received = aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)
    return _handles(received)


def _handles(received: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"Id": f"m{message['Body']}", "ReceiptHandle": message["ReceiptHandle"]} for message in received["Messages"]
    ]
