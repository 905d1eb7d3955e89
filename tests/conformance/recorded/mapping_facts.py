"""Checks of facts about AWS Lambda's event source mappings."""

import json
from collections.abc import Callable
from typing import Any

from endpoints import ACCOUNT, REGION

from recorded import ERROR, INVALID, NOT_FOUND, Cloud, eventually, function, function_arn, refusal, same

REPORTS = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}

# `function.py` only returns for this event, whatever its variable DO says.
WARM_UP = "warm up"


def a_mapping_is_told_with_these_members(aws: Cloud) -> None:
    _, mapping = _mapped(aws, {})
    uuid = mapping["UUID"]
    told = mapping.keys() - {"LastModified", "ResponseMetadata"}
    same(
        {name: mapping[name] for name in told},
        {
            "BatchSize": 10,
            "EventSourceArn": aws.queue_arn("source"),
            "EventSourceMappingArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:{uuid}",
            "FunctionArn": function_arn(aws.name("f")),
            "FunctionResponseTypes": [],
            "MaximumBatchingWindowInSeconds": 0,
            "State": "Creating",
            "StateTransitionReason": "USER_INITIATED",
            "UUID": uuid,
        },
    )


def a_mapping_passes_through_states(aws: Cloud) -> None:
    forwarded = aws.queue("forwarded")
    source, mapping = _mapped(aws, {"forward": forwarded})
    of = {"UUID": mapping["UUID"]}
    same(mapping["State"], "Creating")
    # A delivered message shows that the mapping is enabled.
    aws.sqs.send_message(QueueUrl=source, MessageBody="1")
    aws.receive(forwarded)
    same(aws.functions.get_event_source_mapping(**of)["State"], "Enabled")
    same(aws.functions.update_event_source_mapping(BatchSize=5, **of)["State"], "Updating")
    eventually(lambda: aws.functions.get_event_source_mapping(**of)["State"] == "Enabled")
    same(aws.functions.delete_event_source_mapping(**of)["State"], "Deleting")


def a_mapping_that_cannot_be_is_refused(aws: Cloud) -> None:
    create = aws.functions.create_event_source_mapping
    absent = {"FunctionName": aws.name("none"), "EventSourceArn": aws.queue_arn("none")}
    existing = {"FunctionName": function(aws), "EventSourceArn": aws.queue_arn("none")}
    destination = {"DestinationConfig": {"OnSuccess": {"Destination": aws.queue_arn("other")}}}
    for of, message in (
        ({"FunctionName": aws.name("none")}, "Unrecognized event source."),
        (absent, "Function does not exist"),
        (
            {**absent, **destination},
            "Unsupported DestinationConfig parameter for given event source mapping type.",
        ),
        (
            existing,
            "Error occurred while ReceiveMessage. SQS Error Code: "
            "AWS.SimpleQueueService.NonExistentQueue. SQS Error Message: The specified queue does "
            "not exist.",
        ),
    ):
        same(refusal(create, **of), (*INVALID, message))


def a_queue_is_mapped_to_a_function_once(aws: Cloud) -> None:
    _, mapping = _mapped(aws, {})
    name, arn = aws.name("f"), aws.queue_arn("source")
    same(
        refusal(aws.functions.create_event_source_mapping, FunctionName=name, EventSourceArn=arn),
        (
            409,
            "ResourceConflictException",
            f'An event source mapping with SQS arn (" {arn} ") and function (" {name} ") already '
            f"exists. Please update or delete the existing mapping with UUID {mapping['UUID']}",
        ),
    )


def mappings_that_there_are_not(aws: Cloud) -> None:
    functions = aws.functions
    of = {"UUID": "00000000-0000-4000-8000-000000000000"}
    message = "The resource you requested does not exist."
    for call in (functions.get_event_source_mapping, functions.delete_event_source_mapping):
        same(refusal(call, **of), (*NOT_FOUND, message))
    same(refusal(functions.update_event_source_mapping, Enabled=False, **of), (*NOT_FOUND, message))
    for of in ({"FunctionName": aws.name("none")}, {"EventSourceArn": aws.queue_arn("none")}):
        same(functions.list_event_source_mappings(**of)["EventSourceMappings"], [])


def a_filter_keeps_messages_from_the_function(aws: Cloud) -> None:
    pattern = json.dumps({"body": ["wanted"]})
    _mapped(aws, {}, FilterCriteria={"Filters": [{"Pattern": pattern}]})


def a_batch_is_told_with_these_members(aws: Cloud) -> None:
    record = _delivered(aws)
    assert record.pop("messageId")
    assert record.pop("receiptHandle")
    attributes = record.pop("attributes")
    same(
        attributes.keys(),
        {
            "ApproximateReceiveCount",
            "SentTimestamp",
            "SenderId",
            "ApproximateFirstReceiveTimestamp",
        },
    )
    same(
        record,
        {
            "body": "1",
            "messageAttributes": {},
            "md5OfBody": "c4ca4238a0b923820dcc509a6f75849b",
            "eventSource": "aws:sqs",
            "eventSourceARN": aws.queue_arn("source"),
            "awsRegion": REGION,
        },
    )


def a_mapping_with_a_window_says_that_a_message_has_no_attributes(aws: Cloud) -> None:
    record = _delivered(aws, MaximumBatchingWindowInSeconds=1)
    same(record.get("md5OfMessageAttributes", "absent"), None)


def message_attributes_are_told_in_lambdas_form(aws: Cloud) -> None:
    sent = {
        "Title": {"DataType": "String", "StringValue": "The Whistler"},
        "Author": {"DataType": "String", "StringValue": "John Grisham"},
        "WeeksOn": {"DataType": "Number", "StringValue": "6"},
    }
    record = _delivered(aws, attributes=sent)
    same(record["md5OfMessageAttributes"], "d25a6aea97eb8f585bfa92d314504a92")
    same(
        record["messageAttributes"],
        {
            name: {
                "stringValue": attribute["StringValue"],
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": attribute["DataType"],
            }
            for name, attribute in sent.items()
        },
    )


def only_the_named_failures_of_a_batch_come_again(aws: Cloud) -> None:
    def scenario(source: str, forwarded: str) -> None:
        for body in ("good", "bad"):
            aws.sqs.send_message(QueueUrl=source, MessageBody=body)
        seen: list[tuple[str, str]] = []
        while len(seen) < 3:
            for record in json.loads(aws.receive(forwarded)["Body"])["Records"]:
                seen.append((record["body"], record["attributes"]["ApproximateReceiveCount"]))
        same(sorted(seen), [("bad", "1"), ("bad", "2"), ("good", "1")])

    _batches(aws, {"fail": ["bad"]}, scenario, **REPORTS)


def a_report_that_is_wrong_fails_the_whole_batch(aws: Cloud) -> None:
    for number, wrong in enumerate(
        (
            {"itemIdentifier": "not-of-this-batch"},
            {"itemIdentifier": ""},
            {"itemIdentifier": None},
            {"itemIdentifier": 123},
            {"foo": 123},
            {"foo": None},
        )
    ):
        report = {"answer": {"batchItemFailures": [wrong]}}
        _batches(aws, report, lambda *of: _comes_again(aws, *of), own=f"{number}", **REPORTS)


def an_error_fails_the_whole_batch(aws: Cloud) -> None:
    _batches(aws, {"error": ERROR}, lambda *of: _comes_again(aws, *of), **REPORTS)


def what_says_nothing_of_failures_is_success(aws: Cloud) -> None:
    for number, response in enumerate(("", [], None, {}, {"batchItemFailures": []}, {"batchItemFailures": None})):
        answer = {"answer": response}
        _batches(aws, answer, lambda *of: _is_done(aws, *of), own=f"{number}", **REPORTS)


def a_message_that_keeps_failing_is_dead_lettered_as_it_is(aws: Cloud) -> None:
    dead_letters = aws.queue("dead")
    redrive = json.dumps({"deadLetterTargetArn": aws.queue_arn("dead"), "maxReceiveCount": 2})

    def scenario(source: str, forwarded: str) -> None:
        sent = aws.sqs.send_message(QueueUrl=source, MessageBody="1")
        message = aws.receive(dead_letters)
        same((message["MessageId"], message["Body"]), (sent["MessageId"], "1"))

    _batches(aws, {"error": ERROR}, scenario, queue={"RedrivePolicy": redrive})


# Helpers


def _mapped(
    aws: Cloud,
    do: dict[str, Any],
    own: str = "",
    queue: dict[str, str] | None = None,
    **settings: Any,
) -> tuple[str, dict[str, Any]]:
    """Maps a queue to a new function that is already warm. Returns the queue's URL and the mapping. Failed messages
    become visible again after three seconds."""
    source = aws.queue(f"source{own}", VisibilityTimeout="3", **(queue or {}))
    name = function(aws, f"f{own}", do=do, Timeout=3)
    aws.functions.invoke(FunctionName=name, Payload=json.dumps(WARM_UP))
    mapping = aws.functions.create_event_source_mapping(
        FunctionName=name, EventSourceArn=aws.queue_arn(f"source{own}"), **settings
    )
    return source, dict(mapping)


def _batches(
    aws: Cloud,
    do: dict[str, Any],
    scenario: Callable[[str, str], None],
    own: str = "",
    **settings: Any,
) -> None:
    """Runs a scenario on a mapped queue, and on the queue to which the function forwards its events. Then deletes the
    mapping, so that it stops polling."""
    forwarded = aws.queue(f"forwarded{own}")
    source, mapping = _mapped(aws, {"forward": forwarded, **do}, own, **settings)
    try:
        scenario(source, forwarded)
    finally:
        aws.functions.delete_event_source_mapping(UUID=mapping["UUID"])


def _delivered(aws: Cloud, attributes: dict[str, Any] | None = None, **settings: Any) -> Any:
    """Sends a message with the body 1. Returns the record that the mapping delivers."""
    records: list[Any] = []

    def scenario(source: str, forwarded: str) -> None:
        aws.sqs.send_message(QueueUrl=source, MessageBody="1", MessageAttributes=attributes or {})
        records.extend(json.loads(aws.receive(forwarded)["Body"])["Records"])

    _batches(aws, {}, scenario, **settings)
    (record,) = records
    return record


def _comes_again(aws: Cloud, source: str, forwarded: str) -> None:
    aws.sqs.send_message(QueueUrl=source, MessageBody="1")
    for count in ("1", "2"):
        (record,) = json.loads(aws.receive(forwarded)["Body"])["Records"]
        same((record["body"], record["attributes"]["ApproximateReceiveCount"]), ("1", count))


def _is_done(aws: Cloud, source: str, forwarded: str) -> None:
    aws.sqs.send_message(QueueUrl=source, MessageBody="1")
    aws.receive(forwarded)
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    of = {"QueueUrl": source, "AttributeNames": names}
    eventually(lambda: {*aws.sqs.get_queue_attributes(**of)["Attributes"].values()} == {"0"})
