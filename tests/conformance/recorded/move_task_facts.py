"""Checks of facts about Amazon SQS's message move tasks."""

import base64
import json
import uuid
from typing import Any

from recorded import Cloud, dead_letter_queue, give_up, let_a_second_pass, received, refusal, same

PARAMETER = (400, "InvalidParameterValue")
GONE = "The resource that you specified for the {} parameter doesn't exist."


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
