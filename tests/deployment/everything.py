"""SAM's example with every option of both packages switched on. everything.js does the same for CDK's example."""

from typing import Any

# The maximum number of re-invocations, from the target's own policy.
ATTEMPTS_MAX = 2

PARAMETERS = {
    "BaseBackoff": "2s",
    "MaxBackoff": "3h",
    "MaxAge": "7d",
    "MaxAttempts": "50",
    "Jitter": "equal",
    "NonRetryableErrors": "ValidationError,*NotFound",
    "Policies": {"Fn::Sub": f'{{"${{Orders}}":{{"MAX_AGE":"14d","MAX_ATTEMPTS":{ATTEMPTS_MAX}}}}}'},
    "Ledger": "true",
    "Register": "true",
    "Probe": "true",
    "KeyArn": {"Fn::GetAtt": ["Key", "Arn"]},
    "LogKeyArn": {"Fn::GetAtt": ["Key", "Arn"]},
    "EnvironmentKeyArn": {"Fn::GetAtt": ["Key", "Arn"]},
    "ReservedConcurrency": "25",
    "PermissionsBoundaryArn": {"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/PowerUserAccess"},
    "MaxConcurrency": "20",
    # The limit is so low that waits are kept as delays.
    "InFlightMax": "1",
    "LogRetentionDays": "7",
    "Tracing": "Active",
    "TicketTopicArn": {"Ref": "Tickets"},
    "HandlerThrottlesTrigger": "off",
}

TARGET_ALARMS = {
    "Ledger": "true",
    "Probe": "true",
    "MaxAgeSeconds": "1209600",
    "TicketTopicArn": {"Ref": "Tickets"},
    "LatenessTrigger": "above 60000 in 2 of 3 periods of 900 s",
}

# IAM decides who may use the key, as with the construct's key. CloudWatch Logs may use it too.
KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}},
            "Action": "kms:*",
            "Resource": "*",
        },
        {
            "Effect": "Allow",
            "Principal": {"Service": {"Fn::Sub": "logs.${AWS::Region}.amazonaws.com"}},
            "Action": ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"],
            "Resource": "*",
        },
    ],
}


def switch_on(example: dict[str, Any]) -> dict[str, Any]:
    """Switches everything on in the example's document, and returns it."""
    resources = example["Resources"]
    resources["Tickets"] = {"Type": "AWS::SNS::Topic"}
    resources["Key"] = {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": KEY_POLICY}}
    resources["Retry"]["Properties"]["Parameters"] |= PARAMETERS
    resources["OrdersAlarms"]["Properties"]["Parameters"] |= TARGET_ALARMS
    # Senders to an encrypted queue, and receivers from it, need its key.
    for policy in ("OrdersFailures", "OperatorRedrive"):
        resources[policy]["Properties"]["PolicyDocument"]["Statement"].append(
            {
                "Effect": "Allow",
                "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
                "Resource": {"Fn::GetAtt": ["Key", "Arn"]},
            }
        )
    return example
