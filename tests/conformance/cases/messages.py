"""Messages: their bodies and attributes, and what is returned about them."""

from typing import Any

from answers import Notebook

MESSAGE_BYTES_MAX = 1_048_576


def sent_received_deleted(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="hello")
    received = aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    handle = received["Messages"][0]["ReceiptHandle"]
    aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)


def bodies(aws: Notebook) -> None:
    queue = aws.queue()
    edges = "\u007f\ud7ff\ue000\ufffd"
    for body in ("x", " ", "ünïcödé \U0001f600", "\t\n\r", edges, '{"a": 1.0}'):
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody=body)
    aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)


def characters_that_are_not_carried(aws: Notebook) -> None:
    queue = aws.queue()
    for character in ("\0", "\u0001", "\u0008", "\u000b", "\u000c", "\u001f", "\ufffe", "\uffff"):
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody=f"a{character}b")


def no_body(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="")
    aws.sqs("SendMessage", QueueUrl=queue)


def as_long_as_can_be(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x" * MESSAGE_BYTES_MAX)
    aws.sqs("ReceiveMessage", QueueUrl=queue)


def too_long(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x" * (MESSAGE_BYTES_MAX + 1))
    # The limit counts bytes, not characters.
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="é" * (MESSAGE_BYTES_MAX // 2 + 1))


def attributes_count_as_the_body_does(aws: Notebook) -> None:
    queue = aws.queue()
    attribute = {"k": _string("v")}
    # An attribute's size is that of its name, type and value: 1 + 6 + 1 bytes.
    for length in (MESSAGE_BYTES_MAX - 8, MESSAGE_BYTES_MAX - 7):
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x" * length, MessageAttributes=attribute)


def too_long_for_its_queue(aws: Notebook) -> None:
    queue = aws.queue(MaximumMessageSize="1024")
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x" * 1024)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x" * 1025)


def attributes_of_every_type(aws: Notebook) -> None:
    queue = aws.queue()
    attributes = {
        "text": _string("ünïcödé"),
        "number": {"DataType": "Number", "StringValue": "-12.50"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        "labelled.text": {"DataType": "String.label", "StringValue": "x"},
        "labelled.number": {"DataType": "Number.int", "StringValue": "7"},
        "labelled.bytes": {"DataType": "Binary.gif", "BinaryValue": b"GIF"},
    }
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)
    received = aws.sqs("ReceiveMessage", QueueUrl=queue, MessageAttributeNames=["All"])
    assert received["Messages"], "there is a message"


def attributes_that_are_asked_for(aws: Notebook) -> None:
    for wanted in (["All"], [".*"], ["a"], ["a.*"], ["a.b"], ["none"], [], ["b", "a"]):
        queue = aws.queue("-".join(wanted).replace(".", "").replace("*", "all") or "empty")
        attributes = {name: _string(name) for name in ("a", "b", "a.b")}
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)
        aws.sqs("ReceiveMessage", QueueUrl=queue, MessageAttributeNames=wanted)


def attributes_that_cannot_be(aws: Notebook) -> None:
    queue = aws.queue()
    values: dict[str, Any] = {
        "no type": {"StringValue": "x"},
        "an empty type": {"DataType": "", "StringValue": "x"},
        "an unknown type": {"DataType": "Text", "StringValue": "x"},
        "no value": {"DataType": "String"},
        "an empty value": {"DataType": "String", "StringValue": ""},
        "an empty number": {"DataType": "Number", "StringValue": ""},
        "no number": {"DataType": "Number", "StringValue": "twelve"},
        "bytes for text": {"DataType": "String", "BinaryValue": b"x"},
        "text for bytes": {"DataType": "Binary", "StringValue": "x"},
        "a control character": {"DataType": "String", "StringValue": "\u0001"},
    }
    for value in values.values():
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageAttributes={"a": value})


def attribute_names_that_cannot_be(aws: Notebook) -> None:
    queue = aws.queue()
    for name in ("", "a b", "ä", "AWS.x", "Amazon.x", "aws.x", ".a", "a.", "a..b", "n" * 257):
        attributes = {name: _string("x")}
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)


def attribute_names_that_can_be(aws: Notebook) -> None:
    queue = aws.queue()
    for name in ("n" * 256, "a-b_c.d9", "awsome"):
        attributes = {name: _string("x")}
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)


def ten_attributes_and_eleven(aws: Notebook) -> None:
    queue = aws.queue()
    for count in (10, 11):
        attributes = {f"a{number}": _string("x") for number in range(count)}
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)


def trace_header(aws: Notebook) -> None:
    queue = aws.queue()
    trace = {"AWSTraceHeader": _string("Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")}
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageSystemAttributes=trace)
    aws.sqs("ReceiveMessage", QueueUrl=queue, MessageSystemAttributeNames=["AWSTraceHeader"])


def other_system_attributes(aws: Notebook) -> None:
    queue = aws.queue()
    attributes = {"SenderId": _string("me")}
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageSystemAttributes=attributes)


def what_is_told_of_a_message(aws: Notebook) -> None:
    for number, name in enumerate(("All", "SentTimestamp", "ApproximateReceiveCount", "SenderId", "SequenceNumber")):
        queue = aws.queue(f"{number}")
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
        aws.sqs("ReceiveMessage", QueueUrl=queue, MessageSystemAttributeNames=[name])


def by_the_older_name_of_system_attributes(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
    aws.sqs("ReceiveMessage", QueueUrl=queue, AttributeNames=["ApproximateReceiveCount"])


def unknown_system_attribute(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
    aws.sqs("ReceiveMessage", QueueUrl=queue, MessageSystemAttributeNames=["Unknown"])


def delayed(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", DelaySeconds=1)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=10)


def delayed_by_their_queue(aws: Notebook) -> None:
    queue = aws.queue(DelaySeconds="900")
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="late")
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="now", DelaySeconds=0)
    aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)


def delay_limits(aws: Notebook) -> None:
    queue = aws.queue()
    for delay in (0, 900, 901, -1):
        aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", DelaySeconds=delay)


def of_a_group_in_a_standard_queue(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageGroupId="tenant")
    aws.sqs("ReceiveMessage", QueueUrl=queue, MessageSystemAttributeNames=["All"])


def deduplicated_in_a_standard_queue(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x", MessageDeduplicationId="once")


def _string(value: str) -> dict[str, Any]:
    return {"DataType": "String", "StringValue": value}
