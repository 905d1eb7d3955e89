// tests/deployment/systems.toml has what CDK, SAM and Terraform make with the same options.
import * as assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  App,
  aws_cloudwatch_actions as actions,
  aws_codedeploy as codedeploy,
  aws_ec2 as ec2,
  aws_iam as iam,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_sns as sns,
  aws_sqs as sqs,
  Duration,
  Stack,
} from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { handlerCode } from '../lib/code';
import { errorOf, functionIn, TestStack, withOrders } from './app';

test("the visibility timeout is six times the handler's timeout", () => {
  for (const [handlerTimeout, seconds] of [
    [undefined, 30],
    [Duration.minutes(15), 900],
  ] as const) {
    const stack = withOrders({ handlerTimeout });
    assert.equal(stack.only('AWS::Lambda::Function', /Handler/).Timeout, seconds);
    assert.equal(stack.only('AWS::SQS::Queue', /RetryQueue/).VisibilityTimeout, 6 * seconds);
  }
});

test('memory and architecture can be set', () => {
  const stack = new TestStack({ memorySize: 256, architecture: lambda.Architecture.X86_64 });
  const { MemorySize, Architectures } = stack.only('AWS::Lambda::Function', /Handler/);
  assert.deepEqual([MemorySize, Architectures], [256, ['x86_64']]);
});

test('the table of the ledger is known, if there is one', () => {
  assert.ok(new TestStack({ ledger: true }).retry.ledger);
  assert.equal(new TestStack().retry.ledger, undefined);
});

test('a function has one queue, however it is imported', () => {
  const stack = new TestStack({}, { env: { account: '123456789012', region: 'eu-west-1' } });
  const aliasVersion = lambda.Version.fromVersionArn(
    stack,
    'Version',
    'arn:aws:lambda:eu-west-1:123456789012:function:orders:1',
  );
  stack.retry.attach(lambda.Function.fromFunctionName(stack, 'Orders', 'orders'));
  stack.retry.attach(lambda.Alias.fromAliasAttributes(stack, 'Live', { aliasName: 'live', aliasVersion }));
  const [one, other] = stack.all('AWS::Lambda::EventInvokeConfig');
  assert.deepEqual(one.DestinationConfig, other.DestinationConfig);
  assert.equal(stack.retry.retryQueues.length, 1);
});

test("a user's dead-letter queue replaces the default one", () => {
  const stack = new TestStack();
  const deadLetterQueue = new sqs.Queue(stack, 'Mine');
  const retry = new AsyncRetry(stack, 'Other', { deadLetterQueue, sharedQueue: true });
  assert.equal(retry.deadLetterQueue, deadLetterQueue);
  assert.match(
    stack.only('AWS::Lambda::Function', /OtherHandler/).Environment.Variables.DEAD_LETTER_QUEUE_URL.Ref,
    /Mine/,
  );
  const fifo = new sqs.Queue(stack, 'Fifo', { fifo: true });
  assert.throws(() => new AsyncRetry(stack, 'Third', { deadLetterQueue: fifo }), {
    message: 'AsyncRetry Test/Third: deadLetterQueue must be a standard queue, like the retry queue, got "Test/Fifo"',
  });
  const deadLetters = retry.retryQueues[0];
  assert.throws(() => new AsyncRetry(stack, 'Fourth', { deadLetterQueue: deadLetters }), {
    message: /deadLetterQueue must be no retry queue, got "Test\/Other\/RetryQueue"/,
  });
  const there = new TestStack({}, { env: { account: '123456789012', region: 'eu-west-1' } });
  const elsewhere = sqs.Queue.fromQueueArn(there, 'Elsewhere', 'arn:aws:sqs:us-east-1:123456789012:dead-letters');
  assert.throws(() => new AsyncRetry(there, 'Fifth', { deadLetterQueue: elsewhere }), {
    message: /deadLetterQueue must be in the region of its retries, eu-west-1, and is in us-east-1/,
  });
});

test("a user's dead-letter queue may have its own key", () => {
  const stack = new TestStack();
  const encryptionMasterKey = new kms.Key(stack, 'Key');
  new AsyncRetry(stack, 'Other', { deadLetterQueue: new sqs.Queue(stack, 'Mine', { encryptionMasterKey }) });
  assert.deepEqual(stack.actionsOf(/OtherHandlerRole/, /"Key/), [['kms:Decrypt', 'kms:GenerateDataKey']]);
});

test('there is code for two architectures', () => {
  assert.throws(() => new TestStack({ architecture: lambda.Architecture.custom('riscv') }), {
    message: /AsyncRetry Test\/Retry: architecture must be arm64 or x86_64, got "riscv"/,
  });
});

test('an alias of a key is refused', () => {
  const stack = new TestStack();
  const aliases = [kms.Alias.fromAliasName(stack, 'Imported', 'alias/mine'), new kms.Key(stack, 'Key').addAlias('own')];
  for (const [index, encryptionKey] of aliases.entries()) {
    assert.throws(() => new AsyncRetry(stack, `Retry${index}`, { encryptionKey }), {
      message: /encryptionKey must be a key and no alias, as permissions are on keys, got/,
    });
  }
});

test('the code is the one in this package, for the architecture', () => {
  const assets = join(__dirname, '..', '..', 'assets');
  for (const architecture of [lambda.Architecture.ARM_64, lambda.Architecture.X86_64]) {
    const { path } = handlerCode(architecture) as lambda.AssetCode;
    assert.equal(path, join(assets, architecture.name, 'bootstrap.zip'));
  }
});

test('a checkout builds the code if `source` is set', () => {
  const source = mkdtempSync(join(tmpdir(), 'source-'));
  try {
    mkdirSync(join(source, 'scripts'));
    const script = join(source, 'scripts', 'package');
    // The stand-in has the real script's arguments and output path.
    writeFileSync(
      script,
      '#!/bin/sh\ndist=$(dirname "$0")/../dist/$2\nmkdir -p "$dist"\nprintf "%s " "$@" > "$dist/bootstrap.zip"\n',
      { mode: 0o755 },
    );
    const stack = new TestStack({ source, architecture: lambda.Architecture.X86_64 });
    const { directory } = (stack.node.root as any).synth();
    const built = ({ S3Key }: any) => readFileSync(join(directory, `asset.${S3Key}`), 'utf8');
    assert.equal(built(stack.only('AWS::Lambda::Function', /Handler/).Code), '--arch x86_64 handler ');
  } finally {
    rmSync(source, { recursive: true });
  }
  assert.throws(() => new TestStack({ source }), {
    message: /source must be the folder of a checkout of Comeback: .*scripts\/package does not exist/,
  });
});

test('missing code is an error that names it', () => {
  assert.throws(() => handlerCode(lambda.Architecture.custom('riscv')), {
    message: /riscv\/bootstrap.zip does not exist: .* Use one that was, or set source/,
  });
});

test('the handler sends dead letters to a central queue, and SQS moves messages to the local one', () => {
  const stack = new TestStack({}, { env: { account: '123456789012', region: 'eu-west-1' } });
  const [queueArn, keyArn] = ['sqs:eu-west-1:210987654321:letters', 'kms:eu-west-1:210987654321:key/1'].map(
    (rest) => `arn:aws:${rest}`,
  );
  const centralDeadLetterQueue = sqs.Queue.fromQueueAttributes(stack, 'Central', { queueArn, keyArn });
  const retry = new AsyncRetry(stack, 'Second', { centralDeadLetterQueue });
  retry.attach(stack.function('Orders'));
  const { DEAD_LETTER_QUEUE_URL } = stack.only('AWS::Lambda::Function', /SecondHandler/).Environment.Variables;
  assert.match(JSON.stringify(DEAD_LETTER_QUEUE_URL), /\/210987654321\/letters/);
  const { deadLetterTargetArn } = stack.only('AWS::SQS::Queue', /SecondRetryQueue/).RedrivePolicy;
  assert.deepEqual(deadLetterTargetArn, stack.resolve(retry.deadLetterQueue.queueArn));
  const resourcesOf = (action: string) =>
    stack
      .statementsOf(/SecondHandlerRole/)
      .filter(({ Action }) => [Action].flat().includes(action))
      .map(({ Resource }) => Resource);
  assert.ok(resourcesOf('sqs:SendMessage').includes(queueArn));
  assert.doesNotMatch(JSON.stringify(resourcesOf('sqs:SendMessage')), /DeadLetterQueue/);
  assert.deepEqual(resourcesOf('kms:Decrypt'), [keyArn]);

  const elsewhere = sqs.Queue.fromQueueArn(stack, 'Elsewhere', 'arn:aws:sqs:us-east-1:210987654321:letters.fifo');
  assert.throws(() => new AsyncRetry(stack, 'Other', { centralDeadLetterQueue: elsewhere }), {
    message:
      /centralDeadLetterQueue must be a standard queue, got "Test\/Elsewhere"; centralDeadLetterQueue must be in the region of its retries, eu-west-1, got "us-east-1"$/,
  });
});

/** A stack with retries whose properties need other resources. */
function hardened(props: (stack: Stack) => AsyncRetryProps): { stack: Stack; template: Template } {
  const stack = new Stack(new App(), 'Test');
  const retry = new AsyncRetry(stack, 'Retry', props(stack));
  retry.attach(functionIn(stack, 'Orders'));
  return { stack, template: Template.fromStack(stack) };
}

function handlerOf(template: Template): any {
  const isHandler = { Properties: { Runtime: 'provided.al2023' } };
  return Object.values(template.findResources('AWS::Lambda::Function', isHandler))[0].Properties;
}

/** Whether a role's own policy has a statement like this. */
function allows(template: Template, statement: object): void {
  template.hasResourceProperties('AWS::IAM::Policy', {
    PolicyDocument: { Statement: Match.arrayWith([Match.objectLike({ Effect: 'Allow', ...statement })]) },
  });
}

test('the handler runs in a VPC, with the permissions that it needs there', () => {
  const { template } = hardened((stack) => {
    const vpc = new ec2.Vpc(stack, 'Vpc', { maxAzs: 2 });
    const group = new ec2.SecurityGroup(stack, 'Group', { vpc });
    return { vpc, vpcSubnets: { subnetType: ec2.SubnetType.PRIVATE_WITH_EGRESS }, securityGroups: [group] };
  });
  const { SubnetIds, SecurityGroupIds } = handlerOf(template).VpcConfig;
  assert.deepEqual([SubnetIds.length, SecurityGroupIds.length], [2, 1]);
  allows(template, { Action: Match.arrayWith(['ec2:CreateNetworkInterface', 'ec2:DeleteNetworkInterface']) });
});

test('the handler has reserved concurrency, and a warning if that is too little for all queues', () => {
  const stack = withOrders({ reservedConcurrency: 15 });
  assert.equal(stack.only('AWS::Lambda::Function', /RetryHandler/).ReservedConcurrentExecutions, 15);
  assert.deepEqual(stack.warnings, []);
  stack.retry.attach(stack.function('Payments'));
  stack.retry.attach(stack.function('Invoices'));
  const [warning, ...others] = stack.warnings;
  assert.match(warning, /^reservedConcurrency, 15, is less than the maxConcurrency of all retry queues together/);
  assert.deepEqual(others, []);
  assert.throws(() => new TestStack({ reservedConcurrency: 9 }), {
    message: /reservedConcurrency must be at least maxConcurrency, 10, got 9$/,
  });
});

test('pollers have bounds, and replace the maximum concurrency', () => {
  withOrders({ pollers: {}, reservedConcurrency: 5 });
  for (const [pollers, fault] of [
    [{ minimumPollers: 1 }, 'pollers.minimumPollers must be a whole number from 2 to 200, got 1'],
    [{ maximumPollers: 2001 }, 'pollers.maximumPollers must be a whole number from 2 to 2000, got 2001'],
  ] as const)
    assert.ok(errorOf(() => new TestStack({ pollers })).endsWith(fault));
  assert.throws(() => new TestStack({ pollers: {}, maxConcurrency: 5 }), {
    message: /maxConcurrency and pollers exclude each other$/,
  });
});

test("the key of the log may be used by CloudWatch's logs, and by nobody else there", () => {
  const { template } = hardened((stack) => ({ logEncryptionKey: new kms.Key(stack, 'LogKey') }));
  template.hasResourceProperties('AWS::KMS::Key', {
    KeyPolicy: {
      Statement: Match.arrayWith([
        Match.objectLike({
          Principal: { Service: { 'Fn::Join': ['', ['logs.', { Ref: 'AWS::Region' }, '.amazonaws.com']] } },
          Condition: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': Match.anyValue() } },
        }),
      ]),
    },
  });
});

test('the policy of an imported key for the log stays unchanged, with a warning', () => {
  const { stack } = hardened((stack) => ({
    logEncryptionKey: kms.Key.fromKeyArn(stack, 'LogKey', 'arn:aws:kms:eu-west-1:123456789012:key/1'),
  }));
  Annotations.fromStack(stack).hasWarning('*', Match.stringLikeRegexp('must let logs\\..* use the key'));
});

test('every role has the permissions boundary', () => {
  const { template } = hardened((stack) => ({
    permissionsBoundary: iam.ManagedPolicy.fromManagedPolicyName(stack, 'Boundary', 'boundary'),
    deploymentConfig: codedeploy.LambdaDeploymentConfig.LINEAR_10PERCENT_EVERY_1MINUTE,
  }));
  const roles = Object.entries(template.findResources('AWS::IAM::Role')).filter(([id]) => id.startsWith('Retry'));
  assert.equal(roles.length, 2);
  for (const [id, { Properties }] of roles)
    assert.match(JSON.stringify(Properties.PermissionsBoundary), /boundary/, id);
});

test('a new version of the handler is deployed gradually, and rolled back if it fails', () => {
  const { template } = hardened(() => ({
    deploymentConfig: codedeploy.LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES,
  }));
  const [[alias, { UpdatePolicy, Properties }]] = Object.entries(template.findResources('AWS::Lambda::Alias'));
  assert.equal(Properties.Name, 'live');
  assert.ok(UpdatePolicy.CodeDeployLambdaAliasUpdate);
  const [mapping] = Object.values(template.findResources('AWS::Lambda::EventSourceMapping'));
  assert.match(JSON.stringify(mapping.Properties.FunctionName), new RegExp(`"Ref":"${alias}"`));
  const [[alarm, { Properties: watched }]] = Object.entries(template.findResources('AWS::CloudWatch::Alarm'));
  assert.deepEqual([watched.MetricName, watched.Threshold, watched.Period], ['Errors', 0, 60]);
  assert.match(watched.AlarmDescription, / Runbook: docs\/runbook\.md#deploymenterrors$/);
  assert.equal(watched.AlarmActions, undefined);
  template.hasResourceProperties('AWS::CodeDeploy::DeploymentGroup', {
    AlarmConfiguration: { Alarms: [{ Name: { Ref: alarm } }], Enabled: true },
    AutoRollbackConfiguration: {
      Enabled: true,
      Events: Match.arrayWith(['DEPLOYMENT_FAILURE', 'DEPLOYMENT_STOP_ON_ALARM']),
    },
  });
});

test('the alarm of deployments has the actions of a ticket', () => {
  const stack = withOrders({ deploymentConfig: codedeploy.LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES });
  const [pager, mail] = ['Pager', 'Mail'].map((id) => new sns.Topic(stack, id));
  stack.retry.alarms({ actions: [new actions.SnsAction(pager)], ticketActions: [new actions.SnsAction(mail)] });
  const { AlarmActions, OKActions } = stack.only('AWS::CloudWatch::Alarm', /DeploymentErrors/);
  assert.deepEqual([AlarmActions, OKActions], Array(2).fill([stack.resolve(mail.topicArn)]));
});
