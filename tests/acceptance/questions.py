"""Questions that only AWS can answer. Emulators answer them too, which tests the questions."""

import base64
import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError
from endpoints import queue_arn
from play import public_functions
from world import World

# The most bytes of an asynchronous payload, and of a message of SQS.
PAYLOAD_MAX = 1_048_576

# How long to wait for a record that may never arrive.
ABSENCE_SECONDS = 90
# CloudWatch publishes metrics a minute or two late.
METRIC_SECONDS = 240


def what_the_record_of_a_stopped_recursive_loop_looks_like(world: World) -> str:
    event = world.send("Spied", do="loop")
    world.until("whether the loop ended", lambda: bool(world.stopped(event) or world.spied(event)), True)
    refused = ", ".join(
        f"Invoke was refused in turn {each['turn']} with {each['error']}" for each in world.stopped(event)
    )
    # A refused call may have a record as well.
    if world.absent(lambda: len(world.spied(event)), ABSENCE_SECONDS):
        return f"{refused}; no record came"
    record = json.loads(world.spied(event)[0]["Body"])
    is_known = "Recursi" in record["requestContext"].get("condition", "")
    return (
        f"{refused or 'Invoke was accepted'}; {'known' if is_known else 'NOT KNOWN'} to Comeback: {json.dumps(record)}"
    )


def whether_abstract_sockets_work_in_the_sandbox(world: World) -> str:
    functions = world.account.client("lambda")
    answer = functions.invoke(FunctionName=world.names["Spied"], Payload=json.dumps({"do": "sockets"}))
    return str(json.loads(answer["Payload"].read()))


def whether_a_redrive_keeps_message_attributes(world: World) -> str:
    sqs = world.account.client("sqs")
    attributes = {"Reason": {"DataType": "String", "StringValue": "cancelled"}}
    sqs.send_message(QueueUrl=world.names["Moved"], MessageBody="moved", MessageAttributes=attributes)
    source, destination = (queue_arn(sqs, world.names[name]) for name in ("Moved", "MovedBack"))
    sqs.start_message_move_task(SourceArn=source, DestinationArn=destination)
    moved: list[dict[str, Any]] = []

    def received() -> int:
        answer = sqs.receive_message(
            QueueUrl=world.names["MovedBack"], MessageAttributeNames=["All"], AttributeNames=["All"]
        )
        moved.extend(answer.get("Messages", []))
        return len(moved)

    world.until("messages that were moved", received, 1)
    got = {name: each["StringValue"] for name, each in moved[0].get("MessageAttributes", {}).items()}
    kept = "it keeps them" if got == {"Reason": "cancelled"} else "IT DOES NOT KEEP THEM"
    return f"{kept}: {json.dumps(got)}; system attributes {sorted(moved[0].get('Attributes', {}))}"


def what_sqs_tells_of_a_message_that_its_redrive_policy_has_moved(world: World) -> str:
    """The handler takes the first receive of such a message for the time of its consumer's failure."""
    sqs = world.account.client("sqs")

    def receive(queue: str) -> list[dict[str, Any]]:
        answer = sqs.receive_message(QueueUrl=world.names[queue], VisibilityTimeout=0, AttributeNames=["All"])
        return list(answer.get("Messages", []))

    sent = sqs.send_message(QueueUrl=world.names["Tried"], MessageBody="tried")
    before: list[dict[str, Any]] = []
    moved: list[dict[str, Any]] = []

    def received() -> int:
        before.extend(receive("Tried"))
        moved.extend(receive("GivenUp"))
        return len(moved)

    world.until("messages that were moved", received, 1)
    first, after = before[0]["Attributes"], moved[0]["Attributes"]
    kept = {name: after.get(name) == first[name] for name in ("SentTimestamp", "ApproximateFirstReceiveTimestamp")}
    told = ", ".join(f"{name} is {'the same' if same else 'another'}" for name, same in kept.items())
    is_new = moved[0]["MessageId"] != sent["MessageId"]
    return (
        f"{told}; its id is {'another' if is_new else 'the same'}; its first receive there is number "
        f"{after['ApproximateReceiveCount']}; attributes {sorted(after)}"
    )


def who_sends_the_message_of_a_destination(world: World) -> str:
    event = world.send("Spied", fail={})
    world.until("records", lambda: len(world.spied(event)), 1)
    attributes = world.spied(event)[0]["Attributes"]
    others = sorted(set(attributes) - {"SenderId"})
    return f"SenderId {attributes['SenderId']} for the function {world.names['Spied']}; other attributes {others}"


def whether_a_record_keeps_the_bytes_of_the_payload(world: World) -> str:
    event = secrets.token_hex(6)
    payload = f'{{ "z":1.10, "a":12345678901234567890123456789,"id":"{event}","text":"é \\u00e9", "fail":{{ }} }}'
    world.send_bytes("Spied", payload.encode())
    world.until("records", lambda: len(world.spied(event)), 1)
    body = world.spied(event)[0]["Body"]
    return "it does" if payload in body else f"it does not: {body}"


def what_becomes_of_a_record_over_1_mib(world: World) -> str:
    event = secrets.token_hex(6)
    start = f'{{"id":"{event}","fail":{{}},"padding":"'
    padding = base64.b64encode(secrets.token_bytes(PAYLOAD_MAX)).decode()[: PAYLOAD_MAX - len(start) - 2]
    try:
        world.send_bytes("Spied", f'{start}{padding}"}}'.encode())
    except ClientError as error:
        return f"the payload of 1 MiB is refused: {error.response['Error']['Code']}"
    if world.absent(lambda: len(world.spied(event)), ABSENCE_SECONDS):
        # The emulators don't have this metric.
        is_counted = not (world.account.emulator or world.absent(lambda: _not_delivered(world), METRIC_SECONDS))
        return "no record came" + (", and DestinationDeliveryFailures counts it" if is_counted else "")
    message = world.spied(event)[0]
    return f"a record of {len(message['Body'].encode()):,} bytes came, attributes {sorted(message['Attributes'])}"


def whether_a_bucket_is_a_destination_for_a_role_that_may_put_records_only(world: World) -> str:
    """Others report that it must be allowed to put objects under every key. So templates and `attach` allow that."""
    functions, name = world.account.client("lambda"), world.names["Spied"]
    # A version has a destination of its own.
    version = functions.publish_version(FunctionName=name)
    partition = version["FunctionArn"].split(":")[1]
    try:
        functions.put_function_event_invoke_config(
            FunctionName=name,
            Qualifier=version["Version"],
            MaximumRetryAttempts=0,
            DestinationConfig={"OnFailure": {"Destination": f"arn:{partition}:s3:::{world.bucket}"}},
        )
    except ClientError as error:
        return f"it is refused: {error.response['Error']['Code']}: {error.response['Error']['Message']}"
    payload = json.dumps({"id": secrets.token_hex(6), "fail": {}})
    functions.invoke(FunctionName=name, Qualifier=version["Version"], InvocationType="Event", Payload=payload)

    def keys() -> list[str]:
        found = world.account.client("s3").list_objects_v2(Bucket=world.bucket, Prefix="aws/lambda/async/")
        return [each["Key"] for each in found.get("Contents", [])]

    if world.absent(lambda: len(keys()), ABSENCE_SECONDS):
        return "it is accepted, but no record came"
    return f"it is accepted, and the record came as {keys()[0]}"


def _not_delivered(world: World) -> int:
    """The number of the function's records that Lambda could not deliver to its destination."""
    metric = {
        "Namespace": "AWS/Lambda",
        "MetricName": "DestinationDeliveryFailures",
        "Dimensions": [{"Name": "FunctionName", "Value": world.names["Spied"]}],
    }
    now = datetime.now(UTC)
    told = world.account.client("cloudwatch").get_metric_data(
        MetricDataQueries=[{"Id": "failures", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Sum"}}],
        StartTime=now - timedelta(minutes=30),
        EndTime=now + timedelta(minutes=1),
    )
    return int(sum(told["MetricDataResults"][0]["Values"]))


QUESTIONS = public_functions(globals())
