"""Queues: creating, finding, listing, purging and deleting them."""

from answers import Notebook


def created_and_found(aws: Notebook) -> None:
    name = aws.name("queue")
    aws.sqs("CreateQueue", QueueName=name)
    aws.sqs("GetQueueUrl", QueueName=name)


def created_again_is_the_same(aws: Notebook) -> None:
    name = aws.name("queue")
    wanted = {"VisibilityTimeout": "7"}
    aws.sqs("CreateQueue", QueueName=name, Attributes=wanted)
    aws.sqs("CreateQueue", QueueName=name, Attributes=wanted)
    aws.sqs("CreateQueue", QueueName=name)


def created_again_but_otherwise(aws: Notebook) -> None:
    name = aws.name("queue")
    aws.sqs("CreateQueue", QueueName=name, Attributes={"VisibilityTimeout": "7"})
    aws.sqs("CreateQueue", QueueName=name, Attributes={"VisibilityTimeout": "8"})
    aws.sqs("CreateQueue", QueueName=name, Attributes={"DelaySeconds": "1"})


def names(aws: Notebook) -> None:
    aws.sqs("CreateQueue", QueueName="n" * 80)
    aws.sqs("CreateQueue", QueueName="n" * 81)
    aws.sqs("CreateQueue", QueueName="names_-09AZ")
    for name in ("", "two words", "full.stop", "ümlaut", "a/b"):
        aws.sqs("CreateQueue", QueueName=name)
    aws.sqs("CreateQueue")


def fifo_names(aws: Notebook) -> None:
    aws.sqs("CreateQueue", QueueName="fifo-names.fifo")
    aws.sqs("CreateQueue", QueueName="fifo-names", Attributes={"FifoQueue": "true"})
    aws.sqs("CreateQueue", QueueName="fifo-names.fifo", Attributes={"FifoQueue": "true"})
    aws.sqs("CreateQueue", QueueName="fifo-names-not", Attributes={"FifoQueue": "false"})


def that_do_not_exist(aws: Notebook) -> None:
    aws.sqs("GetQueueUrl", QueueName=aws.name("none"))
    queue = aws.queue().replace(aws.name("queue"), aws.name("none"))
    for operation in (
        "DeleteQueue",
        "PurgeQueue",
        "GetQueueAttributes",
        "ReceiveMessage",
        "ListQueueTags",
        "ListDeadLetterSourceQueues",
    ):
        aws.sqs(operation, QueueUrl=queue)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
    aws.sqs("SendMessageBatch", QueueUrl=queue, Entries=[{"Id": "1", "MessageBody": "x"}])
    aws.sqs("SetQueueAttributes", QueueUrl=queue, Attributes={"DelaySeconds": "1"})
    aws.sqs("DeleteMessage", QueueUrl=queue, ReceiptHandle="x")
    aws.sqs("ChangeMessageVisibility", QueueUrl=queue, ReceiptHandle="x", VisibilityTimeout=1)


def by_no_url(aws: Notebook) -> None:
    aws.queue()
    aws.sqs("GetQueueAttributes", AttributeNames=["QueueArn"])
    aws.sqs("GetQueueAttributes", QueueUrl="", AttributeNames=["QueueArn"])


def by_name_in_place_of_url(aws: Notebook) -> None:
    aws.queue()
    aws.sqs("GetQueueAttributes", QueueUrl=aws.name("queue"), AttributeNames=["QueueArn"])


def listed(aws: Notebook) -> None:
    for own in ("a", "b", "c"):
        aws.queue(own)
    aws.sqs("ListQueues", QueueNamePrefix=aws.name(""))
    aws.sqs("ListQueues", QueueNamePrefix=aws.name("none"))


def listed_in_pages(aws: Notebook) -> None:
    for own in ("a", "b", "c"):
        aws.queue(own)
    prefix = aws.name("")
    page = aws.sqs("ListQueues", QueueNamePrefix=prefix, MaxResults=2)
    token = page.get("NextToken", "")
    aws.sqs("ListQueues", QueueNamePrefix=prefix, MaxResults=2, NextToken=token)
    aws.sqs("ListQueues", QueueNamePrefix=prefix, MaxResults=3)
    aws.sqs("ListQueues", QueueNamePrefix=prefix, MaxResults=1000)
    aws.sqs("ListQueues", QueueNamePrefix=prefix, MaxResults=1001)
    aws.sqs("ListQueues", QueueNamePrefix=prefix, MaxResults=-1)


def deleted(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("DeleteQueue", QueueUrl=queue)
    aws.sqs("GetQueueUrl", QueueName=aws.name("queue"))
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="x")
    aws.sqs("DeleteQueue", QueueUrl=queue)


def created_again_too_soon_after_deletion(aws: Notebook) -> None:
    aws.sqs("DeleteQueue", QueueUrl=aws.queue())
    aws.sqs("CreateQueue", QueueName=aws.name("queue"))


def purged(aws: Notebook) -> None:
    queue = aws.queue()
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="seen")
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("SendMessage", QueueUrl=queue, MessageBody="unseen")
    aws.sqs("PurgeQueue", QueueUrl=queue)
    counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    aws.sqs("GetQueueAttributes", QueueUrl=queue, AttributeNames=counts)
    aws.sqs("ReceiveMessage", QueueUrl=queue)
    aws.sqs("PurgeQueue", QueueUrl=queue)


def tagged(aws: Notebook) -> None:
    name = aws.name("queue")
    queue = aws.sqs("CreateQueue", QueueName=name, tags={"team": "orders"})["QueueUrl"]
    aws.sqs("ListQueueTags", QueueUrl=queue)
    aws.sqs("TagQueue", QueueUrl=queue, Tags={"stage": "dev", "team": "retries"})
    aws.sqs("ListQueueTags", QueueUrl=queue)
    aws.sqs("UntagQueue", QueueUrl=queue, TagKeys=["team", "none"])
    aws.sqs("ListQueueTags", QueueUrl=queue)
    aws.sqs("UntagQueue", QueueUrl=queue, TagKeys=["stage"])
    aws.sqs("ListQueueTags", QueueUrl=queue)


def of_another_account(aws: Notebook) -> None:
    aws.queue()
    name = aws.name("queue")
    aws.sqs("GetQueueUrl", QueueName=name, QueueOwnerAWSAccountId="000000000000")
    aws.sqs("GetQueueUrl", QueueName=name, QueueOwnerAWSAccountId="123456789012")
