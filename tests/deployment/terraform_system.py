"""Converts a planned Terraform configuration to CloudFormation's resources, to compare it with CDK's template."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import system
from template import Resource
from terraform import Module, Planned

Arguments = dict[str, Any]


def resources(folder: Path) -> list[Resource]:
    """The resources of a configuration, as CloudFormation would describe them."""
    planned = list(Module(folder).plan())
    made = []
    for each in planned:
        if each.kind in TYPES:
            kind, properties = TYPES[each.kind]
            made.append(_resource(each.token, kind, properties(each.arguments)))
        elif each.kind not in MERGED:
            raise NotImplementedError(each.kind)
    by_token = {each.token: each.properties for each in made}
    for each in planned:
        if merge := MERGED.get(each.kind):
            merge(each, by_token)
    return made


def _resource(token: str, kind: str, properties: dict[str, Any]) -> Resource:
    return Resource(token, kind, _without_none(properties), "Delete", "Delete")


def _without_none(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_none(each) for key, each in value.items() if each is not None}
        case list():
            return [_without_none(each) for each in value]
        case _:
            return value


def _renamed(names: dict[str, str]) -> Callable[[Arguments], dict[str, Any]]:
    """Renames arguments to CloudFormation's names. Arguments without a new name are not compared."""
    return lambda arguments: {theirs: arguments.get(ours) for ours, theirs in names.items()}


def _tags(arguments: Arguments) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in arguments.get("tags", {}).items()]


def _block(arguments: Arguments, name: str) -> Arguments:
    """A block that occurs at most once."""
    (block,) = arguments.get(name, [{}])
    return block


def _document(arguments: Arguments, name: str) -> Any:
    return json.loads(arguments[name]) if name in arguments else None


def _queue(arguments: Arguments) -> dict[str, Any]:
    return {
        "MessageRetentionPeriod": arguments["message_retention_seconds"],
        "VisibilityTimeout": arguments.get("visibility_timeout_seconds"),
        "SqsManagedSseEnabled": arguments.get("sqs_managed_sse_enabled"),
        "KmsMasterKeyId": arguments.get("kms_master_key_id"),
        "RedrivePolicy": _document(arguments, "redrive_policy"),
        "RedriveAllowPolicy": _document(arguments, "redrive_allow_policy"),
        "Tags": _tags(arguments),
    }


def _function(arguments: Arguments) -> dict[str, Any]:
    network = _block(arguments, "vpc_config")
    return {
        "Architectures": arguments["architectures"],
        "Handler": arguments["handler"],
        "Runtime": arguments["runtime"],
        "MemorySize": arguments.get("memory_size"),
        "Timeout": arguments["timeout"],
        "Role": arguments["role"],
        "KmsKeyArn": arguments.get("kms_key_arn"),
        "ReservedConcurrentExecutions": arguments.get("reserved_concurrent_executions"),
        "CodeSigningConfigArn": arguments.get("code_signing_config_arn"),
        "Environment": {"Variables": _block(arguments, "environment").get("variables", {})},
        # Text is the default.
        "LoggingConfig": {"LogGroup": _block(arguments, "logging_config")["log_group"]},
        "TracingConfig": {"Mode": _block(arguments, "tracing_config").get("mode")},
        "VpcConfig": {"SubnetIds": network["subnet_ids"], "SecurityGroupIds": network["security_group_ids"]}
        if network
        else None,
        "Tags": _tags(arguments),
    }


def _mapping(arguments: Arguments) -> dict[str, Any]:
    return _renamed(
        {
            "event_source_arn": "EventSourceArn",
            "function_name": "FunctionName",
            "batch_size": "BatchSize",
            "maximum_batching_window_in_seconds": "MaximumBatchingWindowInSeconds",
            "function_response_types": "FunctionResponseTypes",
        }
    )(arguments) | {
        "ScalingConfig": {"MaximumConcurrency": _block(arguments, "scaling_config").get("maximum_concurrency")}
    }


def _invoke_config(arguments: Arguments) -> dict[str, Any]:
    destinations = _block(arguments, "destination_config")
    ends = {"on_failure": "OnFailure", "on_success": "OnSuccess"}
    return _renamed(
        {
            "function_name": "FunctionName",
            "qualifier": "Qualifier",
            "maximum_retry_attempts": "MaximumRetryAttempts",
            "maximum_event_age_in_seconds": "MaximumEventAgeInSeconds",
        }
    )(arguments) | {
        "DestinationConfig": {
            theirs: {"Destination": _block(destinations, ours)["destination"]}
            for ours, theirs in ends.items()
            if ours in destinations
        }
    }


def _key_schema(arguments: Arguments) -> list[dict[str, str]]:
    kinds = {"hash_key": "HASH", "range_key": "RANGE"}
    return [{"AttributeName": arguments[key], "KeyType": kind} for key, kind in kinds.items() if key in arguments]


def _table(arguments: Arguments) -> dict[str, Any]:
    encryption = _block(arguments, "server_side_encryption")
    ttl = _block(arguments, "ttl")
    return {
        "BillingMode": arguments["billing_mode"],
        "AttributeDefinitions": [
            {"AttributeName": each["name"], "AttributeType": each["type"]} for each in arguments["attribute"]
        ],
        "KeySchema": _key_schema(arguments),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": each["name"],
                "KeySchema": _key_schema(each),
                "Projection": {"ProjectionType": each["projection_type"]},
            }
            for each in arguments.get("global_secondary_index", [])
        ],
        "TimeToLiveSpecification": {"AttributeName": ttl["attribute_name"], "Enabled": ttl["enabled"]},
        "SSESpecification": {
            "SSEEnabled": encryption["enabled"],
            "SSEType": "KMS",
            "KMSMasterKeyId": encryption["kms_key_arn"],
        }
        if encryption
        else None,
        "Tags": _tags(arguments),
    }


def _metric_filter(arguments: Arguments) -> dict[str, Any]:
    names = {
        "namespace": "MetricNamespace",
        "name": "MetricName",
        "value": "MetricValue",
        "default_value": "DefaultValue",
    }
    return {
        "LogGroupName": arguments["log_group_name"],
        "FilterPattern": arguments["pattern"],
        "MetricTransformations": [_renamed(names)(_block(arguments, "metric_transformation"))],
    }


def _dimensions(arguments: Arguments) -> list[dict[str, str]]:
    return [{"Name": name, "Value": value} for name, value in arguments.get("dimensions", {}).items()]


def _query(arguments: Arguments) -> dict[str, Any]:
    query = {
        "Id": arguments["id"],
        "Expression": arguments.get("expression"),
        "Label": arguments.get("label"),
        "Period": arguments.get("period"),
        "ReturnData": arguments["return_data"],
    }
    if metric := _block(arguments, "metric"):
        query["MetricStat"] = {
            "Metric": {
                "Namespace": metric["namespace"],
                "MetricName": metric["metric_name"],
                "Dimensions": _dimensions(metric),
            },
            "Stat": metric["stat"],
            "Period": metric["period"],
        }
    return query


def _alarm(arguments: Arguments) -> dict[str, Any]:
    queries = [_query(each) for each in arguments.get("metric_query", [])]
    return _renamed(
        {
            "alarm_description": "AlarmDescription",
            "comparison_operator": "ComparisonOperator",
            "threshold": "Threshold",
            "evaluation_periods": "EvaluationPeriods",
            "datapoints_to_alarm": "DatapointsToAlarm",
            "treat_missing_data": "TreatMissingData",
            "namespace": "Namespace",
            "metric_name": "MetricName",
            "statistic": "Statistic",
            "extended_statistic": "ExtendedStatistic",
            "period": "Period",
            "alarm_actions": "AlarmActions",
            "ok_actions": "OKActions",
        }
    )(arguments) | {"Dimensions": _dimensions(arguments), "Metrics": queries or None}


def _role(arguments: Arguments) -> dict[str, Any]:
    return {
        "AssumeRolePolicyDocument": json.loads(arguments["assume_role_policy"]),
        "PermissionsBoundary": arguments.get("permissions_boundary"),
        "ManagedPolicyArns": [],
    }


def _policy(arguments: Arguments) -> dict[str, Any]:
    roles = [arguments["role"]] if "role" in arguments else []
    return {"PolicyDocument": json.loads(arguments["policy"]), "Roles": roles}


def _queue_policy(arguments: Arguments) -> dict[str, Any]:
    return {"Queues": [arguments["queue_url"]], "PolicyDocument": json.loads(arguments["policy"])}


TYPES: dict[str, tuple[str, Callable[[Arguments], dict[str, Any]]]] = {
    "aws_sqs_queue": (system.QUEUE, _queue),
    "aws_sqs_queue_policy": (system.QUEUE_POLICY, _queue_policy),
    "aws_lambda_function": (system.FUNCTION, _function),
    "aws_lambda_event_source_mapping": (system.MAPPING, _mapping),
    "aws_lambda_function_event_invoke_config": (system.INVOKE_CONFIG, _invoke_config),
    "aws_iam_role": (system.ROLE, _role),
    "aws_iam_role_policy": (system.POLICY, _policy),
    "aws_iam_policy": (system.MANAGED_POLICY, _policy),
    "aws_cloudwatch_log_group": (
        system.LOG_GROUP,
        _renamed({"retention_in_days": "RetentionInDays", "kms_key_id": "KmsKeyId"}),
    ),
    "aws_cloudwatch_log_metric_filter": (system.METRIC_FILTER, _metric_filter),
    "aws_dynamodb_table": (system.TABLE, _table),
    "aws_cloudwatch_metric_alarm": (system.ALARM, _alarm),
    "aws_cloudwatch_dashboard": (system.DASHBOARD, _renamed({"dashboard_body": "DashboardBody"})),
    "aws_kms_key": (system.KEY, _renamed({})),
    "aws_sns_topic": (system.TOPIC, _renamed({})),
}


def _attach(planned: Planned, by_token: dict[str, dict[str, Any]]) -> None:
    """Adds an attachment: roles to a policy of this configuration, or AWS's policy to a role."""
    role, arn = planned.arguments["role"], planned.arguments["policy_arn"]
    token = arn.rpartition("/")[2]
    if token in by_token:
        by_token[token]["Roles"].append(role)
    else:
        by_token[role]["ManagedPolicyArns"].append(arn)


def _set_recursion(planned: Planned, by_token: dict[str, dict[str, Any]]) -> None:
    by_token[planned.arguments["function_name"]]["RecursiveLoop"] = planned.arguments["recursive_loop"]


def _nothing(_planned: Planned, _by_token: dict[str, dict[str, Any]]) -> None:
    """The policies of topics are not compared."""


# Resources that are properties of other resources in CloudFormation.
MERGED: dict[str, Callable[[Planned, dict[str, dict[str, Any]]], None]] = {
    "aws_iam_role_policy_attachment": _attach,
    "aws_lambda_function_recursion_config": _set_recursion,
    "aws_sns_topic_policy": _nothing,
}


def facts(made: Iterable[Resource]) -> set[str]:
    """The facts that must be equal in all systems."""
    return system.System(list(made)).facts()
