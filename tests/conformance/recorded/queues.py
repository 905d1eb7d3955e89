"""Helpers for queues, which the checks of several topics use."""

import json
from typing import Any

from recorded import Cloud


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
