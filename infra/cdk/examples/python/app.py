"""The smallest complete application: a function whose failed events come back."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from comeback_cdk import AsyncRetry

INFRA = Path(__file__).resolve().parents[3]

app = cdk.App()
stack = cdk.Stack(app, "comeback-cdk-example", description="A function whose failed events come back")

log = logs.LogGroup(
    stack, "OrdersLog", retention=logs.RetentionDays.ONE_MONTH, removal_policy=cdk.RemovalPolicy.DESTROY
)
orders = lambda_.Function(
    stack,
    "Orders",
    runtime=lambda_.Runtime.PYTHON_3_13,
    architecture=lambda_.Architecture.ARM_64,
    handler="app.handler",
    timeout=cdk.Duration.seconds(10),
    log_group=log,
    code=lambda_.Code.from_asset(str(INFRA / "example" / "orders")),
)

# Few attempts, so that you can see within a minute how an event is given up.
retry = AsyncRetry(stack, "Comeback", non_retryable_errors=["InvalidOrder"], max_attempts=5)
retry.attach(orders)

# Switch to this role to see waiting events, retry or cancel them, and redrive dead letters when their cause is fixed.
operator = iam.Role(stack, "Operator", assumed_by=iam.AccountRootPrincipal())
retry.grant_redrive(operator)
retry.grant_operate(operator)

# Subscribe to this topic to receive alarms.
topic = sns.Topic(stack, "AlarmTopic", enforce_ssl=True)
topic.grant_publish(
    iam.ServicePrincipal(
        "cloudwatch.amazonaws.com",
        conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
    )
)
retry.alarms(actions=[actions.SnsAction(topic)])
retry.dashboard()

cdk.CfnOutput(stack, "OrdersName", description="The function to send events to.", value=orders.function_name)
cdk.CfnOutput(stack, "OrdersLogName", description="The log group of the function.", value=log.log_group_name)
cdk.CfnOutput(
    stack,
    "DeadLetterQueueUrl",
    description="The queue of events that were given up.",
    value=retry.dead_letter_queue.queue_url,
)
cdk.CfnOutput(
    stack,
    "OperatorArn",
    description="The role that may look at dead letters and redrive them.",
    value=operator.role_arn,
)
cdk.CfnOutput(
    stack,
    "AlarmTopicArn",
    description="The topic of the alarms. Subscribe to it.",
    value=topic.topic_arn,
)

app.synth()
