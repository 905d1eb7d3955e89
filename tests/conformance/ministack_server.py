"""ministack on a free port of loopback; prints its endpoint, as `comeback-local` does.

It must know its port before it is imported, so it is given a socket that is bound already. Six
of its faults are mended here:

- A failure record is appended to its queue's list of messages while the event source mapping, under a
  lock, replaces that list by a shorter one, and about three records in a thousand are never seen again:
  any test of the loop would be a matter of luck. Here the record takes the lock too.
- A template's transforms are applied in a stack, but not in one that is nested in it. CloudFormation
  applies them in both.
- A parameter of a template is a string, and stays one where a mapping's concurrency is given by it: the
  mapping then never polls. CloudFormation gives it on as the number that the property is.
- A stack with an alarm on an expression is refused. CloudWatch takes it; here it is one on a metric of that name, which
  never has a value.
- Where a policy has a condition on who asks (`aws:PrincipalArn`), that is a role's session. For IAM it is the role.
- Where it asks policies, a batch of SQS is an action of its own. For IAM it is the one without `Batch`.

And it says of itself that it speaks TLS, as if behind a proxy that does: what policies deny is what comes without.
"""

import asyncio
import os
import socket
from typing import Any

HOST = "127.0.0.1"

listener = socket.create_server((HOST, 0))
port = listener.getsockname()[1]
endpoint = f"http://{HOST}:{port}"
os.environ |= {
    "BIND_HOST": HOST,
    "MINISTACK_HOST": HOST,
    "GATEWAY_PORT": str(port),
    # Where its functions find it.
    "AWS_ENDPOINT_URL": endpoint,
    "LOG_LEVEL": "ERROR",
}

from hypercorn.asyncio import serve
from hypercorn.config import Config
from lifeline import end_with_starter
from ministack.app import app
from ministack.core import iam_actions, iam_evaluator
from ministack.services import lambda_svc, sqs
from ministack.services.cloudformation import engine, provisioners

append_failure_record = lambda_svc._route_async_failure


def append_failure_record_alone(*arguments: Any) -> None:
    """Appends a failure record while nobody else replaces the queue's messages."""
    with sqs._queues_lock:
        append_failure_record(*arguments)


lambda_svc._route_async_failure = append_failure_record_alone

deploy_nested_stack = provisioners._cfn_nested_stack_deploy
parse_template = engine._parse_template


def deploy_nested_stack_transformed(
    logical_id: str, properties: dict[str, Any], *arguments: Any, **options: Any
) -> Any:
    """Deploys a nested stack with the transforms of its template applied."""
    parameters = [{"Key": name, "Value": str(value)} for name, value in properties.get("Parameters", {}).items()]
    # Only this deployment looks the function up there; whoever else parses templates has it already.
    engine._parse_template = lambda body: engine._apply_transforms(parse_template(body), parameters)
    try:
        return deploy_nested_stack(logical_id, properties, *arguments, **options)
    finally:
        engine._parse_template = parse_template


provisioners._cfn_nested_stack_deploy = deploy_nested_stack_transformed

create_mapping = provisioners._lambda_esm_create


def create_mapping_of_numbers(logical_id: str, properties: dict[str, Any], stack_name: str) -> Any:
    """Creates a mapping whose concurrency is a number, if it has one."""
    if scaling := properties.get("ScalingConfig"):
        scaling["MaximumConcurrency"] = int(scaling["MaximumConcurrency"])
    return create_mapping(logical_id, properties, stack_name)


provisioners._RESOURCE_HANDLERS["AWS::Lambda::EventSourceMapping"]["create"] = create_mapping_of_numbers

alarm_record = provisioners._cw_metric_alarm_record


def alarm_record_of_expression(name: str, properties: dict[str, Any]) -> Any:
    """The record of an alarm; of one on an expression, by the expression's name."""
    if metrics := properties.get("Metrics"):
        properties = {
            **properties,
            "Metrics": None,
            "Namespace": "Expressions",
            "MetricName": metrics[-1]["Expression"],
        }
    return alarm_record(name, properties)


provisioners._cw_metric_alarm_record = alarm_record_of_expression

extract_action = iam_actions.extract_iam_action


def extract_action_of_batch(service: str, *arguments: Any) -> str | None:
    """The action that a role must be allowed for a request."""
    action = extract_action(service, *arguments)
    return action.removesuffix("Batch") if action and service == "sqs" else action


iam_actions.extract_iam_action = extract_action_of_batch


resolve_condition_key = iam_evaluator._resolve_condition_key


def resolve_condition_key_of_role(key: str, context: Any) -> Any:
    """The value of a condition's key; of `aws:PrincipalArn` the role's ARN, none of its paths being more than `/`."""
    value = resolve_condition_key(key, context)
    if key.lower() == "aws:principalarn" and ":assumed-role/" in value:
        account, role = value.split(":")[4], value.split("/")[1]
        return f"arn:aws:iam::{account}:role/{role}"
    return value


iam_evaluator._resolve_condition_key = resolve_condition_key_of_role


async def behind_tls(scope: Any, receive: Any, send: Any) -> None:
    """The application as it would be behind a proxy that speaks TLS."""
    if scope["type"] == "http":
        scope["scheme"] = "https"
    await app(scope, receive, send)


end_with_starter()
config = Config()
config.bind = [f"fd://{listener.detach()}"]
config.loglevel = "ERROR"
print(endpoint, flush=True)
asyncio.run(serve(behind_tls, config))
