"""Runs ministack on a free port of loopback, and prints its endpoint as `comeback-local` does.

ministack reads its port when it is imported, so this program binds a socket before that. It also fixes ten bugs:

- Race condition: failure records and the notices of buckets are appended to a queue without the lock under which the
  event source mapping replaces the queue's list of messages. About three records in a thousand were lost, so tests of
  the loop failed at random. Here appending takes the lock too.
- Buckets as destinations: ministack accepts a bucket as an on-failure destination, and then sends it nothing. Here it
  puts the failure record, with the key that Lambda documents.
- Nested stacks: ministack does not apply a template's transforms in nested stacks. CloudFormation does.
- Numbers: if a template's parameter gives a mapping's concurrency, the value stays a string and the mapping never
  polls. CloudFormation converts it to a number.
- Alarms: a stack with an alarm on an expression is refused. CloudWatch accepts it. Here the alarm watches a metric with
  the expression as its name, which never has a value.
- `aws:PrincipalArn`: in a policy's condition, ministack compares the ARN of a role's session. IAM compares the role's.
- `aws:PrincipalIsAWSService`: ministack doesn't know that S3, which sends a bucket's notices, is a service of AWS.
- Logs: a function that still runs after its stack was deleted makes its log group again. On AWS, the roles of these
  functions don't allow that.
- Moved messages: a mapping delivers a message without the queue from which SQS moved it. Lambda delivers it with all of
  its system attributes.
- Batches: ministack checks permissions for actions such as `SendMessageBatch`. IAM checks those for `SendMessage`.

It answers `GET /allowed` with the calls that IAM has allowed so far: the caller's ARN, the action and the resource.

The server acts as if it were behind a proxy that terminates TLS, because the queues' policies deny requests without
TLS.
"""

import asyncio
import functools
import json
import os
import socket
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from endpoints import REGION, end_with_starter

HOST = "127.0.0.1"

listener = socket.create_server((HOST, 0))
port = listener.getsockname()[1]
endpoint = f"http://{HOST}:{port}"
os.environ |= {
    "BIND_HOST": HOST,
    "MINISTACK_HOST": HOST,
    "GATEWAY_PORT": str(port),
    # The endpoint for calls of its functions.
    "AWS_ENDPOINT_URL": endpoint,
    # While it transforms a template, ministack sets this variable and then restores it, even during another one.
    "AWS_DEFAULT_REGION": REGION,
}

from hypercorn.asyncio import serve
from hypercorn.config import Config
from ministack.app import app
from ministack.core import iam_actions, iam_evaluator
from ministack.services import cloudwatch_logs, lambda_svc, s3, sqs
from ministack.services.cloudformation import engine, provisioners


def replaces(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Replaces a function of ministack by one that gets the original as its first argument."""

    def replace(new: Callable[..., Any]) -> None:
        setattr(owner, name, functools.partial(new, getattr(owner, name)))

    return replace


@replaces(lambda_svc, "_route_async_failure")
def append_failure_record_alone(append: Any, destination: str, *failure: Any) -> None:
    if destination.startswith("arn:aws:s3:::"):
        put_failure_record(destination.removeprefix("arn:aws:s3:::"), *failure)
        return
    with sqs._queues_lock:
        append(destination, *failure)


def put_failure_record(bucket: str, function: str, event: Any, result: dict[str, Any]) -> None:
    record = {
        "requestContext": {
            "requestId": str(uuid.uuid4()),
            "functionArn": f"{lambda_svc._functions[function]['config']['FunctionArn']}:$LATEST",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 1,
        },
        "requestPayload": event,
        "responseContext": {"statusCode": 200, "functionError": result.get("function_error") or "Unhandled"},
        "responsePayload": result["body"] if isinstance(result.get("body"), dict) else {},
    }
    time = f"{datetime.now(UTC):%Y/%m/%d/%Y-%m-%dT%H.%M.%S}"
    status, _, answer = s3._put_object(
        bucket, f"aws/lambda/async/{function}/{time}-{uuid.uuid4()}", json.dumps(record).encode(), {}
    )
    if status != 200:
        print(f"expected {bucket} to take a failure record, got {status}: {answer!r}", file=sys.stderr)


@replaces(s3, "_deliver_event_to_sqs")
def append_notice_alone(append: Any, *arguments: Any, **options: Any) -> None:
    with sqs._queues_lock:
        append(*arguments, **options)


@replaces(lambda_svc, "_emit_lambda_logs")
def emit_logs_to_group_of_template(emit: Any, function: dict[str, Any], *arguments: Any, **options: Any) -> None:
    """Writes what a function logged, if the function has a log group of its own and not the one that Lambda makes."""
    group = (function.get("config") or function).get("LoggingConfig", {}).get("LogGroup")
    if group is None or group.startswith("/aws/lambda/") or group in cloudwatch_logs._log_groups:
        emit(function, *arguments, **options)


parse_template = engine._parse_template


@replaces(provisioners, "_cfn_nested_stack_deploy")
def deploy_nested_stack_transformed(
    deploy: Any, logical_id: str, properties: Any, *arguments: Any, **options: Any
) -> Any:
    parameters = [{"Key": name, "Value": str(value)} for name, value in properties.get("Parameters", {}).items()]
    # Only nested deployments look this function up in the module. All other callers have imported the original.
    engine._parse_template = lambda body: engine._apply_transforms(parse_template(body), parameters)
    try:
        return deploy(logical_id, properties, *arguments, **options)
    finally:
        engine._parse_template = parse_template


create_mapping = provisioners._lambda_esm_create


def create_mapping_of_numbers(logical_id: str, properties: dict[str, Any], stack_name: str) -> Any:
    if scaling := properties.get("ScalingConfig"):
        scaling["MaximumConcurrency"] = int(scaling["MaximumConcurrency"])
    return create_mapping(logical_id, properties, stack_name)


provisioners._RESOURCE_HANDLERS["AWS::Lambda::EventSourceMapping"]["create"] = create_mapping_of_numbers


@replaces(lambda_svc, "_run_sqs_batch")
def run_batch_with_sources(run: Any, mapping: Any, function: Any, event: Any, batch: Any, *arguments: Any) -> Any:
    moved = {message["id"]: message["sys"] for message in batch if message.get("sys")}
    for record in event["Records"]:
        if source := moved.get(record["messageId"], {}).get("DeadLetterQueueSourceArn"):
            record["attributes"]["DeadLetterQueueSourceArn"] = source
    return run(mapping, function, event, batch, *arguments)


@replaces(provisioners, "_cw_metric_alarm_record")
def alarm_record_of_expression(record: Any, name: str, properties: dict[str, Any]) -> Any:
    if metrics := properties.get("Metrics"):
        (expression,) = (each["Expression"] for each in metrics if "Expression" in each)
        properties = {**properties, "Metrics": None, "Namespace": "Expressions", "MetricName": expression}
    return record(name, properties)


@replaces(iam_actions, "extract_iam_action")
def extract_action_of_batch(extract: Any, service: str, *arguments: Any) -> str | None:
    action = extract(service, *arguments)
    return action.removesuffix("Batch") if action and service == "sqs" else action


@replaces(iam_evaluator, "_resolve_condition_key")
def resolve_condition_key_of_principal(resolve: Any, key: str, context: Any) -> Any:
    """The value of a condition key. `aws:PrincipalArn` is the ARN of the role; all roles here have the path `/`."""
    if key.lower() == "aws:principalisawsservice" and context.principal_type == "Service":
        return "true"
    value = resolve(key, context)
    if key.lower() == "aws:principalarn" and ":assumed-role/" in value:
        account, role = value.split(":")[4], value.split("/")[1]
        return f"arn:aws:iam::{account}:role/{role}"
    return value


allowed: set[tuple[str, str, str]] = set()


@replaces(iam_evaluator, "enforce")
def enforce_and_note(
    enforce: Any, key: str, action: str, *arguments: Any, resource_arn: str = "*", **options: Any
) -> Any:
    """Why IAM denies a call. Notes the calls that it allows."""
    denied = enforce(key, action, *arguments, resource_arn=resource_arn, **options)
    if denied is None:
        allowed.add((iam_evaluator.caller_arn(), action, resource_arn))
    return denied


async def behind_tls(scope: Any, receive: Any, send: Any) -> None:
    """The application, as if behind a proxy that terminates TLS."""
    if scope.get("path") == "/allowed":
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": json.dumps(sorted(allowed)).encode()})
        return
    if scope["type"] == "http":
        scope["scheme"] = "https"
    await app(scope, receive, send)


end_with_starter()
config = Config()
config.bind = [f"fd://{listener.detach()}"]
config.loglevel = "ERROR"
# By default a connection ends after five idle seconds, which may be just when a client sends its next call.
config.keep_alive_timeout = 3600
print(endpoint, flush=True)
asyncio.run(serve(behind_tls, config))
