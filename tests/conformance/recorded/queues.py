"""What checks of several tables do with queues."""

import json
from typing import Any

from recorded import Cloud


def received(aws: Cloud, queue: str, **parameters: Any) -> list[dict[str, Any]]:
    """What one receive hands out."""
    return list(aws.sqs.receive_message(QueueUrl=queue, **parameters).get("Messages", []))


def let_a_second_pass(aws: Cloud) -> None:
    """Waits for a message that is delayed for a second."""
    clock = aws.queue("clock")
    aws.sqs.send_message(QueueUrl=clock, MessageBody="over", DelaySeconds=1)
    aws.receive(clock)


def dead_letter_queue(aws: Cloud, source: str = "source") -> tuple[str, str]:
    """The queue `dead`, and one that gives a message up to it after a receive."""
    dead = aws.queue("dead")
    policy = {"deadLetterTargetArn": aws.queue_arn("dead"), "maxReceiveCount": 1}
    return dead, aws.queue(source, RedrivePolicy=json.dumps(policy))


def give_up(aws: Cloud, queue: str, *bodies: str) -> None:
    """Has a queue give up all its messages, and those with these bodies."""
    for body in bodies:
        aws.sqs.send_message(QueueUrl=queue, MessageBody=body)
    for _ in range(2):
        received(aws, queue, MaxNumberOfMessages=10, VisibilityTimeout=0)
