"""The inputs that infra/terraform refuses, and what it says of each.

The values of settings are checked in one way for all targets, with the bounds of the contract, so each kind of value is
here once. All inputs are refused by one command, because Terraform starts its provider for each command, and for each
run of its own tests.
"""

import json
from typing import Any

ARN = "arn:aws:lambda:us-east-1:123456789012:function:orders"
ORDERS = {"arn": ARN, "role_arn": "arn:aws:iam::123456789012:role/orders"}
IMPORTS = {
    "arn": "arn:aws:sqs:us-east-1:123456789012:imports",
    "url": "https://sqs.us-east-1.amazonaws.com/123456789012/imports",
}
REDRIVEN = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:123456789012:dead"})
# The most that version 5 of the provider takes.
COMMON = {"max_message_size": 262144, "handler_zip": "main.tf.json", "functions": {"orders": ORDERS}}


def orders(**different: Any) -> dict[str, Any]:
    return {"functions": {"orders": ORDERS | different}}


def imports(queue: dict[str, str] | None = None, **options: Any) -> dict[str, Any]:
    return {"queues": {"imports": {"queue": IMPORTS | (queue or {}), **options}}}


# Inputs, and a part of the error.
Cases = list[tuple[dict[str, Any], str]]

BY_VARIABLES: Cases = [
    ({"name": "a/b"}, "The name must have 1 to 30 letters"),
    ({"architecture": "riscv"}, "The architecture must be arm64 or x86_64"),
    ({"memory_size": 64}, "The memory_size must be"),
    ({"handler_timeout": 5}, "The handler_timeout must be"),
    ({"max_concurrency": 1}, "The max_concurrency must be"),
    ({"pollers": {"minimum": 9, "maximum": 8}}, "The pollers must be"),
    ({"reserved_concurrency": 1}, "The reserved_concurrency must be at least 2"),
    ({"log_retention_days": 2}, "The log_retention_days must be"),
    ({"tracing": "On"}, "The tracing must be"),
    ({"kms_key_arn": "alias/comeback"}, "The kms_key_arn must be the ARN of a key, and no alias"),
    (
        {"central_dead_letter_queue_arn": "arn:aws:sqs:us-east-1:222222222222:letters.fifo"},
        "The central_dead_letter_queue_arn must be the ARN of a queue that is not FIFO",
    ),
    ({"functions": {"a b": ORDERS}}, "The keys of functions must"),
    (orders(arn=f"{ARN}:live"), "without a version or an alias"),
    (orders(role_arn="orders"), "Each role_arn must be"),
    (orders(qualifiers=[]), "at least one qualifier"),
    (orders(maximum_event_age=30), "The maximum_event_age of a function must be"),
    ({"errors": [{"type": "Slow"}, {"type": "Slow", "max_age": "1h"}]}, "The types of errors must differ"),
    ({"records_bucket": {"name": "arn:aws:s3:::records"}}, "The records_bucket must have the name of a bucket"),
    (
        {"records_bucket": {"name": "records", "kms_key_arn": "alias/records"}},
        "The kms_key_arn of records_bucket must be the ARN of a key",
    ),
    ({"alarms": {"settings": {"Late": {}}}}, "must name alarms that docs/deploy/cdk-operations.md lists"),
    ({"alarms": {"settings": {"Lateness": {"severity": "high"}}}}, "The severity of an alarm must be page or ticket"),
    ({"alarms": {"settings": {"Lateness": {"period": 45}}}}, "The period of an alarm must be"),
    ({"queues": {"a b": {"queue": IMPORTS}}}, "The keys of queues must"),
    (imports({"arn": f"{IMPORTS['arn']}.fifo"}), "Each queue must be a standard queue"),
    (imports(max_receive_count=11), "The max_receive_count of a queue must be"),
    (imports(non_retryable_errors=["X"]), "A queue must have no non_retryable_errors"),
    (imports(tenant_id="/tenant"), "A queue must have no non_retryable_errors"),
    (imports(durable=True), "A queue must have no non_retryable_errors"),
]

WHEN_PLANNED: Cases = [
    (orders(max_age="1 day"), "functions.orders.max_age must be a duration such as 90"),
    ({"functions": {"a": ORDERS, "b": ORDERS}}, "A function must be in functions only once"),
    (orders(max_age="10s", base_backoff="1m"), "The max_age must be longer than base_backoff"),
    ({"base_backoff": "soon"}, 'from 1s to 12h, got "soon"'),
    ({"base_backoff": "13h", "max_backoff": "1d", "max_age": "2d"}, 'from 1s to 12h, got "13h"'),
    ({"base_backoff": "2m", "max_backoff": "1m"}, "The max_backoff must be at least base_backoff"),
    ({"max_age": "1s"}, 'from 2s to 365d, got "1s"'),
    ({"max_attempts": 1.5}, "max_attempts must be a whole number from 1"),
    ({"backoffs": ["1m", "14d"]}, "backoffs must be durations such as 1m,10m,3h, each from 1s to 13d"),
    ({"backoffs": ["1m"], "base_backoff": "2s"}, "backoffs takes the place of base_backoff"),
    ({"errors": [{"type": "Slow", "jitter": "some"}]}, "errors.Slow.jitter must be"),
    ({"jitter": "some"}, "jitter must be full or equal or none"),
    (
        {"errors": [{"type": "Slow", "backoffs": ["1m"], "max_backoff": "1h"}]},
        "backoffs takes the place of base_backoff",
    ),
    ({"non_retryable_errors": [" "]}, "non_retryable_errors must be texts that are not blank"),
    ({"handler_zip": None}, "Set either handler_zip or handler_s3"),
    ({"handler_s3": {"bucket": "b", "key": "k"}}, "Set either handler_zip or handler_s3"),
    ({"reserved_concurrency": 5}, "The reserved_concurrency must be at least max_concurrency"),
    ({"in_flight_max": 0}, "in_flight_max must be a whole number from 1"),
    ({"register": True}, "The register and probes need the ledger"),
    ({"probe": True}, "The register and probes need the ledger"),
    ({"records": True, "functions": {}}, "Only functions have failure records"),
    ({"transparent": True}, "Transparent functions need the ledger"),
    (orders(transparent=True), "Transparent functions need the ledger"),
    (imports(max_age="1 day"), "queues.imports.max_age must be a duration such as 90"),
    ({"queues": {"orders": {"queue": IMPORTS}}}, "A key must be in only one of functions, queues and consumers"),
    (
        imports() | {"consumers": {"imports": "importer"}},
        "A key must be in only one of functions, queues and consumers",
    ),
    ({"functions": {"tenants": ORDERS}}, "The function orders has tenant isolation"),
    ({"functions": {"durable": ORDERS}}, "The function orders is durable"),
    (imports({"redrive_policy": REDRIVEN}), "The queue imports has a dead-letter queue already"),
    (imports({"kms_master_key_id": "alias/imports"}), "The queue imports has a key of its own"),
]

ACCEPTED: list[dict[str, Any]] = [
    {"functions": {"tenants": ORDERS | {"tenant_id": "/tenant"}}},
    imports({"redrive_policy": REDRIVEN}, replaces_redrive_policy=True),
    imports({"kms_master_key_id": "alias/aws/sqs"}),
]

# The functions are not read. This is what a newer provider says of those with these keys: version 5 doesn't know these
# attributes. An `_override.tf` file replaces the module's own values.
TARGETS = """
data "aws_lambda_function" "target" {
  for_each = {}
}
locals {
  targets = {
    tenants = { tenancy_config = [{ tenant_isolation_mode = "PER_TENANT" }] }
    durable = { tenancy_config = [], durable_config = [{ execution_timeout = 60 }] }
  }
}
"""


def code(inputs: list[dict[str, Any]]) -> str:
    """Code with a module for each of these inputs."""
    modules = {f"case_{nth}": {"source": "../infra/terraform", **COMMON, **each} for nth, each in enumerate(inputs)}
    return json.dumps({"module": modules})


def errors(said: str) -> list[str]:
    """The errors that Terraform has told as JSON."""
    told = [json.loads(line).get("diagnostic", {}) for line in said.splitlines() if line.startswith("{")]
    return [each["detail"] for each in told if each.get("severity") == "error"]
