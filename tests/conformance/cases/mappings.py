"""Event source mappings from a queue to a function."""

from typing import Any

from answers import Notebook
from bootstrap import zipped
from endpoints import ACCOUNT, REGION, ROLE

TOLD = (
    "UUID",
    "BatchSize",
    "MaximumBatchingWindowInSeconds",
    "EventSourceArn",
    "FunctionArn",
    "FunctionResponseTypes",
    "ScalingConfig",
)


def created_and_told(aws: Notebook) -> None:
    mapping = _create(aws, _function_and_queue(aws))
    aws.function("GetEventSourceMapping", UUID=mapping["UUID"], told=TOLD)


def created_with_all_that_the_handler_needs(aws: Notebook) -> None:
    _create(
        aws,
        _function_and_queue(aws),
        BatchSize=10,
        MaximumBatchingWindowInSeconds=0,
        FunctionResponseTypes=["ReportBatchItemFailures"],
        ScalingConfig={"MaximumConcurrency": 5},
    )


def settings_that_cannot_be(aws: Notebook) -> None:
    of = _function_and_queue(aws)
    _create(aws, of, BatchSize=0)
    _create(aws, of, BatchSize=10_001, MaximumBatchingWindowInSeconds=1)
    _create(aws, of, BatchSize=11)
    _create(aws, of, MaximumBatchingWindowInSeconds=301)
    _create(aws, of, FunctionResponseTypes=["Unknown"])


def of_what_does_not_exist(aws: Notebook) -> None:
    of = _function_and_queue(aws)
    _create(aws, {**of, "FunctionName": aws.name("none")})
    _create(aws, {**of, "EventSourceArn": _queue_arn(aws.name("none"))})


def created_twice(aws: Notebook) -> None:
    of = _function_and_queue(aws)
    _create(aws, of)
    _create(aws, of)


def changed(aws: Notebook) -> None:
    mapping = _create(aws, _function_and_queue(aws))
    aws.function("UpdateEventSourceMapping", UUID=mapping["UUID"], BatchSize=5, told=TOLD)
    aws.function("UpdateEventSourceMapping", UUID=mapping["UUID"], BatchSize=0, told=TOLD)


def listed(aws: Notebook) -> None:
    of = _function_and_queue(aws)
    _create(aws, of)
    function = of["FunctionName"]
    mappings = aws.function("ListEventSourceMappings", FunctionName=function)
    assert len(mappings["EventSourceMappings"]) == 1, mappings
    mappings = aws.function("ListEventSourceMappings", EventSourceArn=of["EventSourceArn"])
    assert len(mappings["EventSourceMappings"]) == 1, mappings


def deleted(aws: Notebook) -> None:
    mapping = _create(aws, _function_and_queue(aws))
    aws.function("DeleteEventSourceMapping", UUID=mapping["UUID"], told=("UUID", "State"))
    aws.function("GetEventSourceMapping", UUID=mapping["UUID"])
    aws.function("DeleteEventSourceMapping", UUID=mapping["UUID"])


def that_do_not_exist(aws: Notebook) -> None:
    uuid = "00000000-0000-4000-8000-000000000000"
    aws.function("GetEventSourceMapping", UUID=uuid)
    aws.function("UpdateEventSourceMapping", UUID=uuid, BatchSize=5)


def _function_and_queue(aws: Notebook) -> dict[str, str]:
    aws.queue()
    aws.function(
        "CreateFunction",
        FunctionName=aws.name("f"),
        Role=ROLE,
        Runtime="provided.al2023",
        Handler="bootstrap",
        Code={"ZipFile": zipped(b"program")},
    )
    return {"FunctionName": aws.name("f"), "EventSourceArn": _queue_arn(aws.name("queue"))}


def _create(aws: Notebook, of: dict[str, str], **settings: Any) -> dict[str, Any]:
    return aws.function("CreateEventSourceMapping", told=TOLD, **of, **settings)


def _queue_arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
