// The smallest complete application: a function whose failed events come back.
import * as path from 'node:path';
import {
  App,
  aws_cloudwatch_actions as actions,
  aws_iam as iam,
  aws_lambda as lambda,
  aws_logs as logs,
  aws_sns as sns,
  CfnOutput,
  Duration,
  RemovalPolicy,
  Stack,
} from 'aws-cdk-lib';
import { AsyncRetry } from 'comeback-cdk';

const app = new App();
const stack = new Stack(app, 'comeback-cdk-example', { description: 'A function whose failed events come back' });

const log = new logs.LogGroup(stack, 'OrdersLog', {
  retention: logs.RetentionDays.ONE_MONTH,
  removalPolicy: RemovalPolicy.DESTROY,
});
const orders = new lambda.Function(stack, 'Orders', {
  runtime: lambda.Runtime.PYTHON_3_13,
  architecture: lambda.Architecture.ARM_64,
  handler: 'app.handler',
  timeout: Duration.seconds(10),
  logGroup: log,
  code: lambda.Code.fromAsset(path.join(__dirname, '..', '..', '..', '..', 'example', 'orders')),
});

// Few attempts, so that you can see within a minute how an event is given up.
const retry = new AsyncRetry(stack, 'Comeback', { nonRetryableErrors: ['InvalidOrder'], maxAttempts: 5 });
retry.attach(orders);

// Switch to this role to see waiting events, retry or cancel them, and redrive dead letters when their cause is fixed.
const operator = new iam.Role(stack, 'Operator', { assumedBy: new iam.AccountRootPrincipal() });
retry.grantRedrive(operator);
retry.grantOperate(operator);

// Subscribe to this topic to receive alarms.
const topic = new sns.Topic(stack, 'AlarmTopic', { enforceSSL: true });
topic.grantPublish(
  new iam.ServicePrincipal('cloudwatch.amazonaws.com', {
    conditions: { StringEquals: { 'aws:SourceAccount': stack.account } },
  }),
);
retry.alarms({ actions: [new actions.SnsAction(topic)] });
retry.dashboard();

new CfnOutput(stack, 'OrdersName', { description: 'The function to send events to.', value: orders.functionName });
new CfnOutput(stack, 'OrdersLogName', { description: 'The log group of the function.', value: log.logGroupName });
new CfnOutput(stack, 'DeadLetterQueueUrl', {
  description: 'The queue of events that were given up.',
  value: retry.deadLetterQueue.queueUrl,
});
new CfnOutput(stack, 'OperatorArn', {
  description: 'The role that may look at dead letters and redrive them.',
  value: operator.roleArn,
});
new CfnOutput(stack, 'AlarmTopicArn', {
  description: 'The topic of the alarms. Subscribe to it.',
  value: topic.topicArn,
});
