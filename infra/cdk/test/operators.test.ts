// tests/deployment/systems.toml has the permissions of operators of one function, which SAM's and Terraform's have, too.
import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_iam as iam,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_logs as logs,
  aws_sqs as sqs,
  Stack,
  Stage,
} from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Construct } from 'constructs';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { TestStack } from './app';

const FUNCTION = [
  'lambda:GetFunctionConfiguration',
  'lambda:GetFunctionConcurrency',
  'lambda:GetFunctionEventInvokeConfig',
  'lambda:GetFunctionRecursionConfig',
  'lambda:GetPolicy',
  'lambda:ListFunctionEventInvokeConfigs',
  'lambda:ListTags',
];
const ACCOUNT = [
  'lambda:ListEventSourceMappings',
  'lambda:ListFunctions',
  'logs:GetQueryResults',
  'cloudwatch:GetMetricData',
  'tag:GetResources',
];

/** The resources of each action that a user has, by logical id. */
function permissionsOf(stack: TestStack, user: RegExp): { [action: string]: string[] } {
  const may: { [action: string]: string[] } = {};
  for (const { Effect, Action, Resource, Condition } of stack.statementsOf(user)) {
    // systems.toml has what is denied.
    if (Effect === 'Deny') continue;
    assert.equal(Effect, 'Allow');
    const condition = Condition ? ` if ${JSON.stringify(Condition)}` : '';
    for (const action of [Action].flat()) {
      may[action] = [...(may[action] ?? []), ...[Resource].flat().map((each) => nameOf(each) + condition)];
    }
  }
  return sorted(may);
}

/** A short name of a resource: its logical id without the hash, or the end of its ARN. */
function nameOf(resource: any): string {
  const parts = resource['Fn::Join']?.[1] ?? [resource];
  const said = parts.map((part: any) => part['Fn::GetAtt']?.[0] ?? part.Ref ?? part).join('');
  return said.replace(/^arn:.*?(?=log-group|function)/, '').replace(/([0-9a-f]{8})?[0-9A-F]{8}(?=$|:|\/)/, '');
}

function withResources(actions: string[], ...resources: string[]): { [action: string]: string[] } {
  return Object.fromEntries(actions.map((action) => [action, resources]));
}

function sorted(may: { [action: string]: string[] }): { [action: string]: string[] } {
  return Object.fromEntries(Object.entries(may).map(([action, resources]) => [action, [...new Set(resources)].sort()]));
}

/** A system with a function before the grant, and one after it. */
function granted(props: AsyncRetryProps, grant: (retry: AsyncRetry, user: iam.User) => iam.Grant): TestStack {
  const stack = new TestStack(props);
  stack.retry.attach(stack.function('Before'));
  assert.ok(grant(stack.retry, new iam.User(stack, 'Person')).success);
  stack.retry.attach(stack.function('After'));
  return stack;
}

const QUEUES = ['RetryRetryQueueAfter', 'RetryRetryQueueBefore'];
const FUNCTIONS = ['After', 'After:*', 'Before', 'Before:*'];
const READ = {
  ...withResources(ACCOUNT, '*'),
  ...withResources(['sqs:GetQueueAttributes', 'sqs:GetQueueUrl'], 'RetryDeadLetterQueue', ...QUEUES),
  ...withResources(FUNCTION, ...FUNCTIONS, 'RetryHandler'),
  ...withResources(
    ['logs:FilterLogEvents', 'logs:StartQuery'],
    'RetryLog',
    'log-group:/aws/lambda/After:*',
    'log-group:/aws/lambda/Before:*',
  ),
};
const READ_LEDGER = withResources(['dynamodb:GetItem', 'dynamodb:BatchGetItem'], 'RetryLedger');
const READ_REGISTER = withResources(['dynamodb:Query', 'dynamodb:Scan'], 'RetryLedger/index/waiting');
test('a reader sees the parts of the system, also of functions that are attached later, but no messages', () => {
  for (const [props, more] of [
    [{}, {}],
    [{ ledger: true }, READ_LEDGER],
    [
      { ledger: true, register: true },
      { ...READ_LEDGER, ...READ_REGISTER },
    ],
  ] as const) {
    const stack = granted(props, (retry, user) => retry.grantRead(user));
    assert.deepEqual(permissionsOf(stack, /Person/), sorted({ ...READ, ...more }));
  }
});

test('an operator has permissions on the queue for redrives', () => {
  const stack = granted({}, (retry, user) => {
    retry.grantRedrive(new iam.User(Stack.of(retry), 'Other'));
    return retry.grantOperate(user);
  });
  assert.ok(permissionsOf(stack, /Person/)['sqs:ChangeMessageVisibility'].includes('RetryRedriveQueue'));
});

test("the log of a function is its own group, or Lambda's default", () => {
  const stack = new TestStack();
  const logGroup = new logs.LogGroup(stack, 'Log');
  stack.retry.attach(stack.function('Orders', { logGroup }));
  stack.retry.attach(lambda.Function.fromFunctionName(stack, 'Imported', 'payments'));
  stack.retry.grantRead(new iam.User(stack, 'Person'));
  assert.deepEqual(
    permissionsOf(stack, /Person/)['logs:FilterLogEvents'],
    ['RetryLog', 'log-group:/aws/lambda/payments:*', 'log-group:Log:*'].sort(),
  );
  stack.template.resourceCountIs('AWS::Lambda::Function', 2);
});

test('readers may use the key of the ledger, and those who operate or redrive also the keys of the queues', () => {
  const keysOf = (props: AsyncRetryProps, call: 'grantRead' | 'grantOperate' | 'grantRedrive') => {
    const stack = new TestStack();
    const [encryptionKey, encryptionMasterKey] = ['Ours', 'Theirs'].map((id) => new kms.Key(stack, id));
    const deadLetterQueue = new sqs.Queue(stack, 'Mine', { encryptionMasterKey });
    new AsyncRetry(stack, 'Encrypted', { encryptionKey, deadLetterQueue, ...props })[call](
      new iam.User(stack, 'Person'),
    );
    const { 'kms:Decrypt': decrypt, 'kms:GenerateDataKey': generate } = permissionsOf(stack, /Person/);
    return [decrypt, generate];
  };
  assert.deepEqual(keysOf({}, 'grantRead'), [undefined, undefined]);
  assert.deepEqual(keysOf({ ledger: true }, 'grantRead'), [['Ours'], undefined]);
  const both = ['Ours', 'Theirs'];
  for (const ledger of [false, true])
    for (const call of ['grantOperate', 'grantRedrive'] as const)
      assert.deepEqual(keysOf({ ledger }, call), [both, both]);
});

test("a principal whose permissions can't be changed is a warning", () => {
  const warningOf = (call: 'grantRead' | 'grantOperate' | 'grantRedrive') => {
    const stack = new TestStack();
    stack.retry[call](new iam.ArnPrincipal('arn:aws:iam::123456789012:role/person'));
    return stack.warnings[0];
  };
  for (const call of ['grantRead', 'grantOperate'] as const)
    assert.match(warningOf(call), new RegExp(`123456789012:role/person.* can't be .*: give it those of ${call}, `));
  assert.match(
    warningOf('grantRedrive'),
    /^arn:aws:iam::123456789012:role\/person can't be given permissions here: give it sqs:StartMessageMoveTask, .* on the dead-letter queue, and sqs:SendMessage on the retry queues/,
  );
});

test('only the parts of a system are tagged, with the system and their role', () => {
  const stack = new TestStack({ ledger: true, records: true });
  for (const id of ['Orders', 'Payments']) stack.retry.attach(stack.function(id));
  stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
  const tagged = Object.entries<any>(stack.template.toJSON().Resources).flatMap(([id, { Properties = {} }]) => {
    const tags = Object.fromEntries((Properties.Tags ?? []).map(({ Key, Value }: any) => [Key, Value]));
    return tags['comeback:system'] ? [[nameOf(id), tags]] : [];
  });
  const tags = (role: string) => ({ 'comeback:system': 'Test/Retry', 'comeback:role': role });
  assert.deepEqual(Object.fromEntries(tagged), {
    RetryDeadLetterQueue: tags('dead-letter-queue'),
    RetryHandler: tags('handler'),
    RetryLedger: tags('ledger'),
    RetryRecordsBucket: tags('records'),
    RetryRedriveQueue: tags('retry-queue'),
    RetryRetryQueueOrders: tags('retry-queue'),
    RetryRetryQueuePayments: tags('retry-queue'),
  });
});

test('the tag of a system is its stack and its path there, in characters that AWS accepts', () => {
  const app = new App();
  const stack = new Stack(new Stage(app, 'Prod'), 'Shop', { stackName: 'shop-prod' });
  new AsyncRetry(new Construct(stack, "Order's"), 'x'.repeat(200));
  const { Tags } = Object.values<any>(Template.fromStack(stack).findResources('AWS::Lambda::Function'))[0].Properties;
  const [system] = Tags.filter(({ Key }: any) => Key === 'comeback:system');
  assert.equal(system.Value, `shop-prod/Order-s/${'x'.repeat(119)}`);
});
