"""Redrive policies: a message that is received too often goes to the dead-letter queue."""

import json
from typing import Any

from answers import Notebook
from endpoints import ACCOUNT, REGION

TOLD = ["All"]


def after_so_many_receives(aws: Notebook) -> None:
    dead, queue = _queues(aws, 2)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="poison")
    for _ in range(4):
        aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=0)
    aws.sqs("ReceiveMessage", QueueUrl=dead, MessageSystemAttributeNames=TOLD)


def while_a_receive_waits_at_the_dead_letter_queue(aws: Notebook) -> None:
    dead, queue = _queues(aws, 1)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="poison")
    aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=0)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("ReceiveMessage", QueueUrl=dead, WaitTimeSeconds=10)


def keeps_body_attributes_and_id(aws: Notebook) -> None:
    dead, queue = _queues(aws, 1)
    attributes = {"a": {"DataType": "String", "StringValue": "x"}}
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="p", MessageAttributes=attributes)
    aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=0)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("ReceiveMessage", QueueUrl=dead, MessageAttributeNames=["All"])


def good_messages_come_beside_bad_ones(aws: Notebook) -> None:
    dead, queue = _queues(aws, 1)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="bad")
    aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=0)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="good")
    aws.sqs("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10)
    aws.sqs("ReceiveMessage", QueueUrl=dead, MaxNumberOfMessages=10)


def sources_are_listed(aws: Notebook) -> None:
    dead, queue = _queues(aws, 3)
    aws.sqs("ListDeadLetterSourceQueues", QueueUrl=dead)
    aws.sqs("ListDeadLetterSourceQueues", QueueUrl=queue)


def moved_back(aws: Notebook) -> None:
    _, queue = _queues(aws, 1)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="p")
    aws.sqs("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=0)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("StartMessageMoveTask", SourceArn=_arn(aws.name("dead")))
    aws.sqs("ListMessageMoveTasks", SourceArn=_arn(aws.name("dead")))
    aws.sqs("ReceiveMessage", QueueUrl=queue, MessageSystemAttributeNames=TOLD)


def told_as_it_was_set(aws: Notebook) -> None:
    _, queue = _queues(aws, 3)
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=["RedrivePolicy"])


def taken_away(aws: Notebook) -> None:
    _, queue = _queues(aws, 1)
    aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={"RedrivePolicy": ""})
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=["RedrivePolicy"])


def numbers_of_receives(aws: Notebook) -> None:
    aws.queue("dead")
    queue = aws.queue()
    for count in (1, 1000, "7", 0, 1001, -1, "many", None):
        _set(aws, queue, {"deadLetterTargetArn": _arn(aws.name("dead")), "maxReceiveCount": count})


def policies_that_cannot_be(aws: Notebook) -> None:
    aws.queue("dead")
    queue = aws.queue()
    dead = _arn(aws.name("dead"))
    _set(aws, queue, {"deadLetterTargetArn": dead})
    _set(aws, queue, {"maxReceiveCount": 3})
    _set(aws, queue, {"deadLetterTargetArn": _arn(aws.name("none")), "maxReceiveCount": 3})
    _set(aws, queue, {"deadLetterTargetArn": "no arn", "maxReceiveCount": 3})
    for text in ("no json", "[]", "{}"):
        aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={"RedrivePolicy": text})


def created_with_a_queue_that_does_not_exist(aws: Notebook) -> None:
    policy = {"deadLetterTargetArn": _arn(aws.name("none")), "maxReceiveCount": 3}
    attributes = {"RedrivePolicy": json.dumps(policy)}
    aws.sqs("CreateQueue", QueueName=aws.name("queue"), Attributes=attributes)


def _queues(aws: Notebook, receives: int) -> tuple[str, str]:
    dead = aws.queue("dead")
    policy = {"deadLetterTargetArn": _arn(aws.name("dead")), "maxReceiveCount": receives}
    return dead, aws.queue(RedrivePolicy=json.dumps(policy))


def _set(aws: Notebook, queue: str, policy: dict[str, Any]) -> None:
    attributes = {"RedrivePolicy": json.dumps(policy)}
    aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes=attributes)


def _arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
