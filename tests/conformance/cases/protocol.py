"""The protocol: raw requests that client libraries would not send."""

from answers import Notebook

JSON = {"Content-Type": "application/x-amz-json-1.0"}


def an_answer_is_json(aws: Notebook) -> None:
    aws.raw({**JSON, "X-Amz-Target": "AmazonSQS.ListQueues"}, b"{}")


def an_unknown_operation(aws: Notebook) -> None:
    aws.raw({**JSON, "X-Amz-Target": "AmazonSQS.Unknown"}, b"{}")


def no_json(aws: Notebook) -> None:
    for body in (b"{", b"[]", b""):
        aws.raw({**JSON, "X-Amz-Target": "AmazonSQS.CreateQueue"}, body)


def a_member_of_another_type(aws: Notebook) -> None:
    aws.raw({**JSON, "X-Amz-Target": "AmazonSQS.CreateQueue"}, b'{"QueueName": 7}')


def an_unknown_member_is_no_error(aws: Notebook) -> None:
    aws.raw({**JSON, "X-Amz-Target": "AmazonSQS.ListQueues"}, b'{"Unknown": 7}')


def a_form(aws: Notebook) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    aws.raw(form, b"Action=ListQueues&Version=2012-11-05")


def an_error_tells_its_shape_and_its_older_code(aws: Notebook) -> None:
    name = b'{"QueueName": "no-such-queue"}'
    aws.raw({**JSON, "X-Amz-Target": "AmazonSQS.GetQueueUrl"}, name)
