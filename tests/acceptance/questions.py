"""Questions that only AWS can answer. Emulators answer them too, which tests the questions."""

import base64
import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError, WaiterError
from endpoints import queue_arn
from play import public_functions
from world import Failed, World

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
    if payload in body:
        return "it does, with the spaces between tokens"
    parts = {
        "spaces between tokens": '{ "z"',
        "digits": "12345678901234567890123456789",
        "zeros at the end": "1.10",
        "escapes": "\\u00e9",
    }
    lost = [part for part, text in parts.items() if text not in body]
    return f"it does not, {' and '.join(lost) or 'the order'} are lost: {body}"


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
    version = functions.publish_version(FunctionName=name)["Version"]
    try:
        _destine(world, "Spied", _arn_of_bucket(world), version)
    except ClientError as error:
        return f"it is refused: {error.response['Error']['Code']}: {error.response['Error']['Message']}"
    payload = json.dumps({"id": secrets.token_hex(6), "fail": {}})
    functions.invoke(FunctionName=name, Qualifier=version, InvocationType="Event", Payload=payload)

    def keys() -> list[str]:
        prefix = f"aws/lambda/async/{name}/"
        found = world.account.client("s3").list_objects_v2(Bucket=world.bucket, Prefix=prefix)
        return [each["Key"] for each in found.get("Contents", [])]

    if world.absent(lambda: len(keys()), ABSENCE_SECONDS):
        return "it is accepted, but no record came"
    return f"it is accepted, and the record came as {keys()[0]}"


def whether_the_answer_and_the_run_have_the_root_of_the_trace_that_is_sent(world: World) -> str:
    event, root, answered = world.send_traced("Spied")
    if not _comes(world, lambda: len(world.traces_of_runs(event))):
        return f"the answer: {_compared(root, answered)}; the run: no log line came"
    return f"the answer: {_compared(root, answered)}; the run: {_compared(root, world.traces_of_runs(event)[0])}"


def whether_a_record_in_a_queue_has_that_root(world: World) -> str:
    return _root_of_record(world, "Spied", lambda: None)


def whether_a_record_behind_a_topic_has_that_root(world: World) -> str:
    def destine() -> None:
        _destine(world, "SpiedByTopic", world.names["Topic"])

    return _root_of_record(world, "SpiedByTopic", destine)


def whether_a_record_behind_an_event_bus_has_that_root(world: World) -> str:
    def destine() -> None:
        bus = world.account.client("events").describe_event_bus(Name=world.names["Bus"])
        _destine(world, "SpiedByBus", bus["Arn"])

    return _root_of_record(world, "SpiedByBus", destine)


def whether_a_message_of_a_functions_own_dead_letter_queue_has_that_root(world: World) -> str:
    def destine() -> None:
        functions, name = world.account.client("lambda"), world.names["SpiedByLetters"]
        functions.update_function_configuration(FunctionName=name, DeadLetterConfig={"TargetArn": _spy(world)})
        functions.get_waiter("function_updated_v2").wait(FunctionName=name)
        functions.put_function_event_invoke_config(FunctionName=name, MaximumRetryAttempts=0, DestinationConfig={})

    return _root_of_record(world, "SpiedByLetters", destine)


def whether_a_notification_about_a_record_in_a_bucket_has_that_root(world: World) -> str:
    def destine() -> None:
        _destine(world, "SpiedByBucket", _arn_of_bucket(world))
        notices = {"QueueConfigurations": [{"QueueArn": _spy(world), "Events": ["s3:ObjectCreated:*"]}]}
        world.account.client("s3").put_bucket_notification_configuration(
            Bucket=world.bucket, NotificationConfiguration=notices
        )

    return _root_of_record(world, "SpiedByBucket", destine, f"/{world.names['SpiedByBucket']}/")


def _spy(world: World) -> str:
    return queue_arn(world.account.client("sqs"), world.names["Spy"])


def _arn_of_bucket(world: World) -> str:
    partition = world.arn("Spied").split(":")[1]
    return f"arn:{partition}:s3:::{world.bucket}"


def _destine(world: World, function: str, destination: str, qualifier: str = "$LATEST") -> None:
    """Has the function's failure records sent there."""
    world.account.client("lambda").put_function_event_invoke_config(
        FunctionName=world.names[function],
        Qualifier=qualifier,
        MaximumRetryAttempts=0,
        DestinationConfig={"OnFailure": {"Destination": destination}},
    )


def _root_of_record(world: World, function: str, destine: Callable[[], None], text: str = "") -> str:
    """Compares the Root that is sent with that of the message about the failure: one with this text, or the event's."""
    try:
        destine()
    except (ClientError, WaiterError) as error:
        return f"it can't be asked: {error}"
    event, root, _ = world.send_traced(function)
    if not _comes(world, lambda: len(world.spied(text or event))):
        return "no message came"
    message = world.spied(text or event)[0]
    header = message["Attributes"].get("AWSTraceHeader", "")
    if not header and root in json.dumps(message):
        return f"it has no trace header, but this Root: {json.dumps(message)}"
    return _compared(root, header)


def _comes(world: World, look: Callable[[], int]) -> bool:
    """Whether something comes in time that should, also in an emulator."""
    try:
        world.until("", lambda: look() > 0, True, ABSENCE_SECONDS)
    except Failed:
        return False
    return True


def _compared(root: str, header: str) -> str:
    if f"Root={root}" in header.split(";"):
        return "the same"
    return f"ANOTHER: {header} in place of {root}" if header else "it has no trace header"


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
