"""Checks of facts about Amazon SQS and its message move tasks."""

import base64
import json
import urllib.error
import urllib.request
import uuid
from typing import Any

from endpoints import PATIENCE_SECONDS

from recorded import Cloud, dead_letter_queue, give_up, let_a_second_pass, received, refusal, same

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
PARAMETER = (400, "InvalidParameterValue")
GONE = "The resource that you specified for the {} parameter doesn't exist."
GROUP = "MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length."


# Messages


def a_handle_still_works_when_its_visibility_timeout_has_ended(aws: Cloud) -> None:
    queue = aws.queue(VisibilityTimeout="1")
    handle = _held(aws, queue)
    let_a_second_pass(aws)
    aws.sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=2)


def a_message_is_deleted_by_a_handle_whose_visibility_timeout_has_ended(aws: Cloud) -> None:
    queue = aws.queue(VisibilityTimeout="1")
    handle = _held(aws, queue)
    let_a_second_pass(aws)
    aws.sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
    same(received(aws, queue), [])


def counts_tell_what_is_visible_and_what_is_held(aws: Cloud) -> None:
    queue = aws.queue(VisibilityTimeout="1")
    for body in "abcdef":
        aws.sqs.send_message(QueueUrl=queue, MessageBody=body)
    received(aws, queue)
    same(_counts(aws, queue), {"": "5", "NotVisible": "1", "Delayed": "0"})
    let_a_second_pass(aws)
    same(_counts(aws, queue), {"": "6", "NotVisible": "0", "Delayed": "0"})


def a_message_has_at_most_a_mebibyte(aws: Cloud) -> None:
    _too_long(aws, aws.queue(), 1_048_576)


def a_queue_limits_the_size_of_its_messages(aws: Cloud) -> None:
    _too_long(aws, aws.queue(MaximumMessageSize="1024"), 1024)


def a_batch_has_at_most_a_mebibyte_in_all(aws: Cloud) -> None:
    attributes = {"k": {"DataType": "String", "StringValue": "x"}}
    entries = [
        {"Id": "1", "MessageBody": "a" * (1_048_576 - 8), "MessageAttributes": attributes},
        {"Id": "2", "MessageBody": "a"},
    ]
    text = "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."
    refused = refusal(aws.sqs.send_message_batch, QueueUrl=aws.queue(), Entries=entries)
    same(refused, (400, "AWS.SimpleQueueService.BatchRequestTooLong", text))


def one_message_of_a_batch_may_be_too_long_for_its_queue(aws: Cloud) -> None:
    bodies = {"fits": 1024, "not": 1025}
    entries = [{"Id": name, "MessageBody": "a" * size} for name, size in bodies.items()]
    queue = aws.queue(MaximumMessageSize="1024")
    sent = aws.sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    same([entry["Id"] for entry in sent["Successful"]], ["fits"])
    (failed,) = sent["Failed"]
    same((failed["Id"], failed["Code"]), ("not", "InvalidParameterValue"))
    same(failed["SenderFault"], True)


def an_empty_body_is_a_missing_one(aws: Cloud) -> None:
    text = "The request must contain the parameter MessageBody."
    refused = refusal(aws.sqs.send_message, QueueUrl=aws.queue(), MessageBody="")
    same(refused, (400, "MissingParameter", text))


def an_attribute_has_a_value(aws: Cloud) -> None:
    attributes = {"ErrorDetails": {"StringValue": "", "DataType": "String"}}
    text = "Message (user) attribute 'ErrorDetails' must contain a non-empty value of type 'String'."
    refused = refusal(aws.sqs.send_message, QueueUrl=aws.queue(), MessageBody="x", MessageAttributes=attributes)
    same(refused, (*PARAMETER, text))


def bytes_in_an_attribute_come_as_they_were_sent(aws: Cloud) -> None:
    value = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"
    attributes = {"attr1": {"BinaryValue": value, "DataType": "Binary"}}
    queue = aws.queue()
    aws.sqs.send_message(QueueUrl=queue, MessageBody="test", MessageAttributes=attributes)
    (message,) = received(aws, queue, MessageAttributeNames=["All"])
    same(message["MessageAttributes"], attributes)
    same(message["MD5OfMessageAttributes"], "8cbe4db156db8a94db8b801b7addb984")


def a_message_belongs_to_the_trace_of_its_request(aws: Cloud) -> None:
    def trace(request: Any, **_: Any) -> None:
        request.headers["X-Amzn-Trace-Id"] = TRACE

    aws.sqs.meta.events.register("before-send.sqs.SendMessage", trace)
    queue = aws.queue()
    aws.sqs.send_message(QueueUrl=queue, MessageBody="test")
    (message,) = received(aws, queue, MessageSystemAttributeNames=["AWSTraceHeader"])
    same(message["Attributes"], {"AWSTraceHeader": TRACE})


def a_standard_queue_knows_groups(aws: Cloud) -> None:
    queue = aws.queue()
    aws.sqs.send_message(QueueUrl=queue, MessageBody="message", MessageGroupId="test")
    (message,) = received(aws, queue, MessageSystemAttributeNames=["MessageGroupId"])
    same(message["Attributes"], {"MessageGroupId": "test"})


def a_group_is_named_by_128_printable_characters(aws: Cloud) -> None:
    queue = aws.queue()
    for group in ("", "a" * 129, "group 123"):
        refused = refusal(aws.sqs.send_message, QueueUrl=queue, MessageBody="x", MessageGroupId=group)
        text = f"Value {group} for parameter MessageGroupId is invalid. Reason: {GROUP}"
        same(refused, (*PARAMETER, text))


def attributes_are_told_by_name_by_prefix_or_all(aws: Cloud) -> None:
    queue = aws.queue(VisibilityTimeout="0")
    values = {"Help.Me": "Me", "Hello": "There", "General": "Kenobi"}
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in values.items()}
    aws.sqs.send_message(QueueUrl=queue, MessageBody="msg", MessageAttributes=attributes)
    everything = {*values}, "4c360f3fdafd970e05fae2f149d997f5"
    for names, told, digest in (
        ([], set(), None),
        (["All"], *everything),
        (["*"], *everything),
        ([".*"], *everything),
        (["Foo", "Help"], set(), None),
        (["Hello", "General"], {"Hello", "General"}, "fca026605781cb4126a1e9044df24232"),
        (["Foo", "Hello"], {"Hello"}, "a311262e065454b75da111d535b8dacd"),
        (["Hel.*"], {"Hello", "Help.Me"}, "83fee93c1bcd8b9a5a923ffacdc636c7"),
        (["AWS."], set(), None),
        (["..foo"], set(), None),
    ):
        (message,) = received(aws, queue, MessageAttributeNames=names)
        same({*message.get("MessageAttributes", {})}, told)
        same(message.get("MD5OfMessageAttributes"), digest)


def system_attributes_are_told_by_name_or_all(aws: Cloud) -> None:
    queue = aws.queue(VisibilityTimeout="0")
    aws.sqs.send_message(QueueUrl=queue, MessageBody="msg")
    everything = {"ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount", "SentTimestamp"}
    everything.add("SenderId")
    for newer, older, told in (
        (["All"], [], everything),
        ([], ["All"], everything),
        (["SenderId"], [], {"SenderId"}),
        (["SenderId", "SequenceNumber"], [], {"SenderId"}),
        (["All"], ["SenderId"], everything),
    ):
        (message,) = received(aws, queue, MessageSystemAttributeNames=newer, AttributeNames=older)
        same({*message["Attributes"]}, told)


def the_sender_is_a_session_of_a_role(aws: Cloud) -> None:
    queue = aws.queue()
    aws.sqs.send_message(QueueUrl=queue, MessageBody="msg")
    (message,) = received(aws, queue, MessageSystemAttributeNames=["SenderId"])
    same(":" in message["Attributes"]["SenderId"], True)


def receives_have_limits(aws: Cloud) -> None:
    queue = aws.queue()
    wait = "Must be >= 0 and <= 20, if provided."
    for name, value, reason in (
        ("MaxNumberOfMessages", 11, "Must be between 1 and 10, if provided."),
        ("WaitTimeSeconds", 21, wait),
        ("WaitTimeSeconds", -1, wait),
    ):
        text = f"Value {value} for parameter {name} is invalid. Reason: {reason}"
        refused = refusal(aws.sqs.receive_message, QueueUrl=queue, **{name: value})
        same(refused, (*PARAMETER, text))


def an_empty_queue_tells_of_no_messages(aws: Cloud) -> None:
    queue = aws.queue()
    for wait in ({}, {"WaitTimeSeconds": 0}, {"WaitTimeSeconds": 1}):
        same("Messages" in aws.sqs.receive_message(QueueUrl=queue, **wait), False)


def a_message_given_up_keeps_what_it_is(aws: Cloud) -> None:
    dead, queue = dead_letter_queue(aws)
    sent = aws.sqs.send_message(
        QueueUrl=queue,
        MessageBody="message-1",
        MessageAttributes={"MyAttribute": {"StringValue": "foobar", "DataType": "String"}},
        MessageSystemAttributes={"AWSTraceHeader": {"StringValue": TRACE, "DataType": "String"}},
    )
    give_up(aws, queue)
    names = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    (message,) = received(aws, dead, **names)
    same(message["MessageId"], sent["MessageId"])
    same(message["MD5OfMessageAttributes"], "adb59cd4678ea5a855436b949cd07ab6")
    attributes = message["Attributes"]
    same(attributes["ApproximateReceiveCount"], "2")
    same(attributes["AWSTraceHeader"], TRACE)
    same(attributes["DeadLetterQueueSourceArn"], aws.queue_arn("source"))


# Batches


def a_batch_has_at_most_ten_entries(aws: Cloud) -> None:
    queue = aws.queue()
    text = "Maximum number of entries per request are 10. You have sent 20."
    for operation, entry in _batches(aws):
        entries = [{"Id": str(number), **entry} for number in range(20)]
        refused = refusal(operation, QueueUrl=queue, Entries=entries)
        same(refused, (400, "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", text))


def entries_of_a_batch_have_ids_of_80_letters_digits_hyphens_and_underscores(aws: Cloud) -> None:
    queue = aws.queue()
    text = (
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
        "It can be at most 80 letters long."
    )
    for entry_id in ("", "testLongId" * 10, "invalid:id"):
        for operation, entry in _batches(aws):
            entries = [{"Id": entry_id, **entry}]
            refused = refusal(operation, QueueUrl=queue, Entries=entries)
            same(refused, (400, "AWS.SimpleQueueService.InvalidBatchEntryId", text))


# Queues


def a_queue_has_these_attributes(aws: Cloud) -> None:
    queue = aws.queue()
    initial = _attributes(aws, queue)
    times = {"CreatedTimestamp", "LastModifiedTimestamp"}
    counts = dict.fromkeys(("", "Delayed", "NotVisible"), "0")
    expected = {
        "DelaySeconds": "0",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "QueueArn": aws.queue_arn(),
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
        "VisibilityTimeout": "30",
        **{f"ApproximateNumberOfMessages{place}": count for place, count in counts.items()},
    }
    same({name: value for name, value in initial.items() if name not in times}, expected)
    same(times <= initial.keys(), True)


def only_what_is_set_changes(aws: Cloud) -> None:
    created = {"MessageRetentionPeriod": "604800", "ReceiveMessageWaitTimeSeconds": "10"}
    changes = {"MaximumMessageSize": "2048", "VisibilityTimeout": "69", "DelaySeconds": "420"}
    queue = aws.queue(**created)
    before = _attributes(aws, queue)
    aws.sqs.set_queue_attributes(QueueUrl=queue, Attributes=changes)
    after = _attributes(aws, queue)
    moment = {"LastModifiedTimestamp": after["LastModifiedTimestamp"]}
    same(after, before | created | changes | moment)


def a_key_of_kms_switches_sqss_own_off_for_good(aws: Cloud) -> None:
    queue = aws.queue()
    key = {"KmsMasterKeyId": "testKeyId", "KmsDataKeyReusePeriodSeconds": "6000"}
    aws.sqs.set_queue_attributes(QueueUrl=queue, Attributes=key)
    same(_encryption(aws, queue), {**key, "SqsManagedSseEnabled": "false"})
    default = {"KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": "300"}
    aws.sqs.set_queue_attributes(QueueUrl=queue, Attributes=default)
    same(_encryption(aws, queue), {"SqsManagedSseEnabled": "false"})


def a_queue_is_encrypted_in_one_way(aws: Cloud) -> None:
    both = {"KmsMasterKeyId": "testKeyId", "SqsManagedSseEnabled": "true"}
    text = "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."
    queue = aws.queue()
    refused = refusal(aws.sqs.set_queue_attributes, QueueUrl=queue, Attributes=both)
    same(refused, (400, "InvalidAttributeName", text))


def a_standard_queue_stays_one(aws: Cloud) -> None:
    queue = aws.queue()
    for value in ("true", "false"):
        fifo = {"FifoQueue": value}
        refused = refusal(aws.sqs.set_queue_attributes, QueueUrl=queue, Attributes=fifo)
        same(refused, (400, "InvalidAttributeName", "Unknown Attribute FifoQueue."))


def an_empty_redrive_policy_takes_it_away(aws: Cloud) -> None:
    _, queue = dead_letter_queue(aws)
    for _ in range(2):
        aws.sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": ""})
        same("RedrivePolicy" in _attributes(aws, queue), False)


def creating_a_queue_again_must_not_change_it(aws: Cloud) -> None:
    attributes = {"ReceiveMessageWaitTimeSeconds": "1", "DelaySeconds": "1"}
    queue = aws.queue(**attributes)
    same(aws.queue(), queue)
    same(aws.queue(DelaySeconds="1"), queue)
    text = "A queue already exists with the same name and a different value for attribute {}"
    refused = refusal(
        aws.sqs.create_queue,
        QueueName=aws.name("queue"),
        Attributes=attributes | {"DelaySeconds": "2"},
    )
    same(refused, (400, "QueueAlreadyExists", text.format("DelaySeconds")))


def queues_are_listed_in_pages(aws: Cloud) -> None:
    urls = [aws.queue(str(number)) for number in range(10)]
    prefix = {"QueueNamePrefix": aws.name("")}
    same(aws.sqs.list_queues(**prefix).get("NextToken"), None)
    first = aws.sqs.list_queues(MaxResults=2, **prefix)
    same(first["QueueUrls"], urls[:2])
    rest = aws.sqs.list_queues(MaxResults=10, NextToken=first["NextToken"], **prefix)
    same((rest["QueueUrls"], rest.get("NextToken")), (urls[2:], None))


def a_queue_is_purged_once_a_minute(aws: Cloud) -> None:
    queue = aws.queue()
    aws.sqs.purge_queue(QueueUrl=queue)
    name = aws.name("queue")
    text = f"Only one PurgeQueue operation on {name} is allowed every 60 seconds."
    refused = refusal(aws.sqs.purge_queue, QueueUrl=queue)
    same(refused, (403, "AWS.SimpleQueueService.PurgeQueueInProgress", text))


def a_queue_keeps_tags(aws: Cloud) -> None:
    queue = aws.queue()
    tags = {"tag1": "value1", "tag2": "value2", "tag3": ""}
    aws.sqs.tag_queue(QueueUrl=queue, Tags=tags)
    same(aws.sqs.list_queue_tags(QueueUrl=queue)["Tags"], tags)
    aws.sqs.untag_queue(QueueUrl=queue, TagKeys=[*tags])
    same("Tags" in aws.sqs.list_queue_tags(QueueUrl=queue), False)


def a_queue_that_is_gone_does_not_exist(aws: Cloud) -> None:
    queue = aws.queue()
    aws.sqs.delete_queue(QueueUrl=queue)
    text = "The specified queue does not exist."
    for refused in (
        refusal(aws.sqs.get_queue_attributes, QueueUrl=queue),
        refusal(aws.sqs.get_queue_url, QueueName=aws.name("queue")),
    ):
        same(refused, (400, "AWS.SimpleQueueService.NonExistentQueue", text))


# Message move tasks


def a_move_task_moves_to_the_named_queue(aws: Cloud) -> None:
    dead, source = dead_letter_queue(aws)
    destination = aws.queue("destination")
    give_up(aws, source, "message-1", "message-2")
    arn = aws.queue_arn("dead")
    started = aws.sqs.start_message_move_task(SourceArn=arn, DestinationArn=aws.queue_arn("destination"))
    handle = json.loads(base64.b64decode(started["TaskHandle"]))
    same(handle, {"taskId": str(uuid.UUID(handle["taskId"])), "sourceArn": arn})
    messages = received(aws, destination, MaxNumberOfMessages=10)
    same({message["Body"] for message in messages}, {"message-1", "message-2"})
    same(
        _task(aws),
        {
            "ApproximateNumberOfMessagesMoved": 2,
            "ApproximateNumberOfMessagesToMove": 2,
            "DestinationArn": aws.queue_arn("destination"),
            "SourceArn": arn,
            "Status": "COMPLETED",
        },
    )
    same(received(aws, dead), [])


def a_move_task_moves_back_to_where_each_message_was(aws: Cloud) -> None:
    _, first = dead_letter_queue(aws)
    _, second = dead_letter_queue(aws, "second")
    give_up(aws, first, "message-1-1", "message-1-2")
    give_up(aws, second, "message-2-1", "message-2-2")
    aws.sqs.start_message_move_task(SourceArn=aws.queue_arn("dead"))
    for number, queue in ((1, first), (2, second)):
        messages = received(aws, queue, MaxNumberOfMessages=10)
        bodies = {message["Body"] for message in messages}
        same(bodies, {f"message-{number}-1", f"message-{number}-2"})
    task = _task(aws)
    same((task["Status"], task["ApproximateNumberOfMessagesMoved"]), ("COMPLETED", 4))
    same("DestinationArn" in task, False)


def a_running_move_task_can_be_cancelled(aws: Cloud) -> None:
    dead, handle = _slow_move_task(aws)
    running = _task(aws)
    same((running["Status"], running["TaskHandle"]), ("RUNNING", handle))
    same(running["MaxNumberOfMessagesPerSecond"], 1)
    moved = aws.sqs.cancel_message_move_task(TaskHandle=handle)
    same(moved["ApproximateNumberOfMessagesMoved"] in range(1, 10), True)
    cancelled = _task(aws)
    same((cancelled["Status"], cancelled["ApproximateNumberOfMessagesToMove"]), ("CANCELLED", 10))
    same("TaskHandle" in cancelled, False)
    same(len(received(aws, dead)), 1)


def a_queue_has_one_move_task_at_a_time(aws: Cloud) -> None:
    _slow_move_task(aws)
    text = "There is already a task running. Only one active task is allowed for a source queue arn at a given time."
    refused = refusal(aws.sqs.start_message_move_task, SourceArn=aws.queue_arn("dead"))
    same(refused, (*PARAMETER, text))


def a_move_task_fails_when_its_destination_is_deleted(aws: Cloud) -> None:
    dead, _ = _slow_move_task(aws)
    aws.sqs.delete_queue(QueueUrl=aws.sqs.get_queue_url(QueueName=aws.name("to"))["QueueUrl"])
    let_a_second_pass(aws)
    task = _task(aws)
    reason = "AWS.SimpleQueueService.NonExistentQueue"
    same((task["Status"], task["FailureReason"]), ("FAILED", reason))
    same(len(received(aws, dead)), 1)


def a_move_task_needs_a_dead_letter_queue_and_a_destination_that_exists(aws: Cloud) -> None:
    dead_letter_queue(aws)
    text = "Source queue must be configured as a Dead Letter Queue."
    for arguments, expected in (
        ({"SourceArn": aws.queue_arn("source")}, (*PARAMETER, text)),
        (
            {"SourceArn": aws.queue_arn("dead"), "DestinationArn": aws.queue_arn("none")},
            (404, "ResourceNotFoundException", GONE.format("DestinationArn")),
        ),
    ):
        same(refusal(aws.sqs.start_message_move_task, **arguments), expected)


def a_move_task_is_cancelled_by_its_handle(aws: Cloud) -> None:
    aws.queue()

    def handle(queue: str) -> str:
        told = {"taskId": str(uuid.uuid4()), "sourceArn": aws.queue_arn(queue)}
        return base64.b64encode(json.dumps(told).encode()).decode()

    absent = (404, "ResourceNotFoundException")
    for text, expected in (
        ("foobared", (*PARAMETER, "Value for parameter TaskHandle is invalid.")),
        (handle("none"), (*absent, GONE.format("SourceArn"))),
        (handle("queue"), (*absent, "Task does not exist.")),
    ):
        same(refusal(aws.sqs.cancel_message_move_task, TaskHandle=text), expected)


# Protocols


def a_request_may_go_to_the_queues_url(aws: Cloud) -> None:
    queue = aws.queue()
    body = json.dumps({"QueueUrl": queue}).encode()
    json_1_0 = "application/x-amz-json-1.0"
    headers = {"Content-Type": json_1_0, "X-Amz-Target": "AmazonSQS.ReceiveMessage"}
    same(_posted(queue, headers, body), (200, json_1_0, "{}"))


def the_query_protocol_is_spoken_too(aws: Cloud) -> None:
    form = b"Action=GetQueueUrl&Version=2012-11-05&QueueName=none"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    status, _, body = _posted(aws.endpoint.url, headers, form)
    same(status, 400)
    same("The specified queue does not exist for this wsdl version." in body, True)


def _held(aws: Cloud, queue: str) -> str:
    """Sends and receives a message. Returns its receipt handle."""
    aws.sqs.send_message(QueueUrl=queue, MessageBody="test")
    (message,) = received(aws, queue)
    return str(message["ReceiptHandle"])


def _attributes(aws: Cloud, queue: str) -> dict[str, str]:
    answer = aws.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])
    return dict(answer["Attributes"])


def _counts(aws: Cloud, queue: str) -> dict[str, str]:
    counts = "ApproximateNumberOfMessages"
    attributes = _attributes(aws, queue)
    return {place: attributes[counts + place] for place in ("", "NotVisible", "Delayed")}


def _encryption(aws: Cloud, queue: str) -> dict[str, str]:
    attributes = _attributes(aws, queue)
    return {name: value for name, value in attributes.items() if "Kms" in name or "Sse" in name}


def _too_long(aws: Cloud, queue: str, limit: int) -> None:
    aws.sqs.send_message(QueueUrl=queue, MessageBody="a" * limit)
    refused = refusal(
        aws.sqs.send_message,
        QueueUrl=queue,
        MessageBody="a" * (limit - 8 + 1),
        MessageAttributes={"k": {"DataType": "String", "StringValue": "x"}},
    )
    reason = f"Message must be shorter than {limit} bytes."
    same(refused, (*PARAMETER, f"One or more parameters are invalid. Reason: {reason}"))


def _batches(aws: Cloud) -> list[tuple[Any, dict[str, Any]]]:
    """All batch operations, each with the members that an entry needs besides its id."""
    handle = {"ReceiptHandle": "x"}
    return [
        (aws.sqs.send_message_batch, {"MessageBody": "x"}),
        (aws.sqs.delete_message_batch, handle),
        (aws.sqs.change_message_visibility_batch, {**handle, "VisibilityTimeout": 0}),
    ]


def _posted(url: str, headers: dict[str, str], body: bytes) -> tuple[int, str | None, str]:
    """Sends a raw request. Returns the status, the content type and the body of its answer."""
    scope = "local/20260101/us-east-1/sqs/aws4_request"
    credential = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    request = urllib.request.Request(url, body, {"Authorization": credential, **headers})
    try:
        response = urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
    except urllib.error.HTTPError as error:
        response = error
    with response:
        return response.status, response.headers["Content-Type"], response.read().decode()


def _slow_move_task(aws: Cloud) -> tuple[str, str]:
    """Starts a task that moves one message a second out of the queue `dead`, which has ten. Returns the queue and the
    task's handle."""
    dead, source = dead_letter_queue(aws)
    aws.queue("to")
    give_up(aws, source, *(f"message-{number}" for number in range(10)))
    started = aws.sqs.start_message_move_task(
        SourceArn=aws.queue_arn("dead"),
        DestinationArn=aws.queue_arn("to"),
        MaxNumberOfMessagesPerSecond=1,
    )
    return dead, str(started["TaskHandle"])


def _task(aws: Cloud) -> dict[str, Any]:
    """The last task of the queue `dead`, without its start time."""
    (task,) = aws.sqs.list_message_move_tasks(SourceArn=aws.queue_arn("dead"))["Results"]
    del task["StartedTimestamp"]
    return dict(task)
