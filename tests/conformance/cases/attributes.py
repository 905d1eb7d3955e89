"""A queue's attributes: their defaults, their limits, and the counts of its messages."""

from answers import Notebook

SET_BY_OWNER = [
    "DelaySeconds",
    "MaximumMessageSize",
    "MessageRetentionPeriod",
    "ReceiveMessageWaitTimeSeconds",
    "VisibilityTimeout",
]
COUNTS = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
]


def defaults(aws: Notebook) -> None:
    queue = aws.queue()
    for name in (*SET_BY_OWNER, "QueueArn", "SqsManagedSseEnabled", "CreatedTimestamp"):
        aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=[name])


def all_of_them(aws: Notebook) -> None:
    aws.sqs("GetQueueAttributes", QueueUrl=aws.queue(), AttributeNames=["All"])


def none_of_them(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("GetQueueAttributes", QueueUrl=queue)
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=[])
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=["RedrivePolicy", "Policy"])


def unknown_ones(aws: Notebook) -> None:
    queue = aws.queue()
    for name in ("Unknown", "", "visibilityTimeout"):
        aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=[name])
        aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={name: "1"})


def that_nobody_may_set(aws: Notebook) -> None:
    queue = aws.queue()
    for name in ("QueueArn", "CreatedTimestamp", "ApproximateNumberOfMessages", "All"):
        aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={name: "1"})


def set_together(aws: Notebook) -> None:
    queue = aws.queue()
    wanted = dict(zip(SET_BY_OWNER, ("1", "1024", "60", "2", "0"), strict=True))
    aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes=wanted)
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=SET_BY_OWNER)


def set_none(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={})
    aws.sqs("SetQueueAttributes", QueueUrl=queue)


def one_wrong_among_others(aws: Notebook) -> None:
    queue = aws.queue()
    both = {"DelaySeconds": "5", "VisibilityTimeout": "43201"}
    aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes=both)
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=SET_BY_OWNER)


def delay_limits(aws: Notebook) -> None:
    _limits(aws, "DelaySeconds", 0, 900)


def size_limits(aws: Notebook) -> None:
    _limits(aws, "MaximumMessageSize", 1024, 1_048_576)


def retention_limits(aws: Notebook) -> None:
    _limits(aws, "MessageRetentionPeriod", 60, 1_209_600)


def wait_limits(aws: Notebook) -> None:
    _limits(aws, "ReceiveMessageWaitTimeSeconds", 0, 20)


def visibility_limits(aws: Notebook) -> None:
    _limits(aws, "VisibilityTimeout", 0, 43_200)


def _limits(aws: Notebook, name: str, least: int, most: int) -> None:
    queue = aws.queue()
    for value in (least, most, least - 1, most + 1, "", "x", "1.5"):
        aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={name: str(value)})
    aws.sqs("CreateQueue", QueueName=aws.name("other"), Attributes={name: str(most + 1)})
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=[name])


def kept_for_their_owner(aws: Notebook) -> None:
    queue = aws.queue()
    policy = '{"Version":"2012-10-17","Statement":[]}'
    aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={"Policy": policy})
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=["Policy"])
    aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={"Policy": ""})
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=["Policy"])


def counts_follow_a_message(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=COUNTS)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="now")
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="later", DelaySeconds=900)
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=COUNTS)
    received = aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=COUNTS)
    handle = received["Messages"][0]["ReceiptHandle"]
    aws.sqs("ChangeMessageVisibility", QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=COUNTS)
    received = aws.sqs("ReceiveMessage", QueueUrl=queue)
    handle = received["Messages"][0]["ReceiptHandle"]
    aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=COUNTS)
