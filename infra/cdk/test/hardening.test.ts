import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_cloudwatch_actions as actions,
  aws_codedeploy as codedeploy,
  aws_ec2 as ec2,
  aws_iam as iam,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_signer as signer,
  aws_sns as sns,
  Stack,
} from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { errorOf, functionIn, TestStack, withOrders } from './app';

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
  assert.match(
    errorOf(() => new TestStack({ reservedConcurrency: 9 })),
    /reservedConcurrency must be at least maxConcurrency, 10, got 9$/,
  );
});

test('pollers replace the maximum concurrency', () => {
  const mapping = (props: AsyncRetryProps) => withOrders(props).only('AWS::Lambda::EventSourceMapping');
  const provisioned = mapping({ pollers: { minimumPollers: 3, maximumPollers: 40 }, reservedConcurrency: 5 });
  assert.deepEqual(provisioned.ProvisionedPollerConfig, { MinimumPollers: 3, MaximumPollers: 40 });
  assert.equal(provisioned.ScalingConfig, undefined);
  assert.deepEqual(mapping({}).ScalingConfig, { MaximumConcurrency: 10 });
  for (const [pollers, fault] of [
    [{ minimumPollers: 1 }, 'pollers.minimumPollers must be a whole number from 2 to 200, got 1'],
    [
      { minimumPollers: 20, maximumPollers: 19 },
      'pollers.maximumPollers must be a whole number from 20 to 2000, got 19',
    ],
    [{ maximumPollers: 2001 }, 'pollers.maximumPollers must be a whole number from 2 to 2000, got 2001'],
  ] as const)
    assert.ok(errorOf(() => new TestStack({ pollers })).endsWith(fault));
  assert.match(
    errorOf(() => new TestStack({ pollers: {}, maxConcurrency: 5 })),
    /maxConcurrency and pollers exclude each other$/,
  );
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

test('the handler accepts only signed code', () => {
  const { template } = hardened((stack) => {
    const platform = signer.Platform.AWS_LAMBDA_SHA384_ECDSA;
    const signingProfiles = [new signer.SigningProfile(stack, 'Profile', { platform })];
    return { codeSigningConfig: new lambda.CodeSigningConfig(stack, 'Signing', { signingProfiles }) };
  });
  const [config] = Object.keys(template.findResources('AWS::Lambda::CodeSigningConfig'));
  assert.deepEqual(handlerOf(template).CodeSigningConfigArn, { 'Fn::GetAtt': [config, 'CodeSigningConfigArn'] });
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
