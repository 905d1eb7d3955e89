import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  aws_iam as iam,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_s3 as s3,
  aws_sqs as sqs,
  CfnParameter,
  Duration,
  Stack,
} from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AsyncRetryProps, AttachOptions } from '../lib';
import { READ_BUCKET } from '../lib/records';
import { aliasOf, errorOf, functionIn, idOf, TestStack, twoStacks, warningsIn } from './app';

/** A value as text, with the names of resources in place of references. */
function said(value: any): string {
  if (Array.isArray(value)) return value.map(said).join(', ');
  if (typeof value !== 'object') return String(value);
  const [[key, argument]] = Object.entries<any>(value);
  if (key === 'Fn::Join') return argument[1].map(said).join(argument[0]);
  if (key === 'Fn::Select') return 'STACK';
  if (key === 'Ref' && argument.startsWith('AWS::')) return argument.slice(5).toLowerCase();
  return `<${idOf(value)}>`;
}

/** A stack with a bucket, and with one function, Orders, whose records go there. */
function withRecords(props: AsyncRetryProps = {}, options: AttachOptions = {}): TestStack {
  const stack = new TestStack({ records: true, ...props });
  stack.retry.attach(stack.function('Orders'), { records: true, ...options });
  return stack;
}

/** The notifications of the only bucket: the prefix of the keys, and the queue that is told. */
function notices(stack: TestStack): [string, string][] {
  const { QueueConfigurations = [] } = stack.only('AWS::S3::Bucket').NotificationConfiguration ?? {};
  return QueueConfigurations.map(({ Event, Queue, Filter }: any) => {
    assert.equal(Event, 's3:ObjectCreated:*');
    const [{ Name, Value }] = Filter.S3Key.Rules;
    assert.equal(Name, 'prefix');
    return [said(Value), said(Queue)];
  });
}

/** For how many days the only bucket keeps records. */
function daysIn(stack: TestStack): number {
  const { Rules } = stack.only('AWS::S3::Bucket').LifecycleConfiguration;
  return Rules[0].ExpirationInDays;
}

/** The permissions that match, as text. */
function permissions(statements: any[], pattern: RegExp): string[] {
  return statements
    .map(({ Action, Resource, Condition }) => {
      const condition = Condition ? ` if ${JSON.stringify(Condition)}` : '';
      return `${[Action].flat().join(', ')} on ${said(Resource)}${condition}`;
    })
    .filter((each) => pattern.test(each));
}

const KEYS = 'aws/lambda/async/';
const IN_ACCOUNT = ' if {"StringEquals":{"s3:ResourceAccount":{"Ref":"AWS::AccountId"}}}';

test('a bucket of ours is private, encrypted, without versions, and remains with what it has', () => {
  const stack = withRecords();
  const { BucketEncryption, PublicAccessBlockConfiguration, VersioningConfiguration, LifecycleConfiguration } =
    stack.only('AWS::S3::Bucket');
  assert.deepEqual(BucketEncryption.ServerSideEncryptionConfiguration, [
    { ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } },
  ]);
  assert.deepEqual(Object.values(PublicAccessBlockConfiguration), [true, true, true, true]);
  assert.equal(VersioningConfiguration, undefined);
  assert.deepEqual(LifecycleConfiguration.Rules, [
    {
      Prefix: KEYS,
      Status: 'Enabled',
      ExpirationInDays: 16,
      AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 },
    },
  ]);
  const [bucket] = Object.values(stack.template.findResources('AWS::S3::Bucket'));
  assert.deepEqual([bucket.DeletionPolicy, bucket.UpdateReplacePolicy], ['Retain', 'Retain']);
  const { Statement } = stack.only('AWS::S3::BucketPolicy').PolicyDocument;
  assert.ok(Statement.some(({ Condition }: any) => Condition.Bool?.['aws:SecureTransport'] === 'false'));
  assert.equal(idOf(stack.resolve(stack.retry.recordBucket?.bucketName)), 'RetryRecordsBucket');
});

test('a function with records sends them to the bucket, and one without to its queue', () => {
  const stack = withRecords();
  stack.retry.attach(stack.function('Payments'));
  const destinations = stack
    .all('AWS::Lambda::EventInvokeConfig')
    .map(({ FunctionName, DestinationConfig }) => [idOf(FunctionName), idOf(DestinationConfig.OnFailure.Destination)]);
  assert.deepEqual(destinations, [
    ['Orders', 'RetryRecordsBucket'],
    ['Payments', 'RetryRetryQueuePayments'],
  ]);
});

test('the bucket and what it may do exist before the destination, and its queue is open to it before it notifies', () => {
  const stack = withRecords();
  const dependencies = (type: string) => Object.values(stack.template.findResources(type))[0].DependsOn.join();
  const ofConfig = dependencies('AWS::Lambda::EventInvokeConfig');
  for (const id of ['RetryRecordsBucket', 'RetryRecordsBucketPolicy', 'RetrySendersRecordsServiceRole'])
    assert.match(ofConfig, new RegExp(id));
  assert.match(dependencies('AWS::S3::Bucket'), /RetryRetryQueueOrders[0-9a-fA-F]{8}Policy/);
  // Only S3 itself is told: no other function is deployed.
  assert.equal(stack.all('AWS::Lambda::Function').length, 2);
  assert.deepEqual(Object.keys(stack.template.findResources('Custom::S3BucketNotifications')), []);
});

test("each function's queue is told of its records alone, also of one that uses the bucket no more", () => {
  const stack = withRecords();
  const payments = stack.function('Payments');
  stack.retry.attach(payments);
  stack.retry.attach(aliasOf(payments), { records: true });
  assert.deepEqual(notices(stack), [
    [`${KEYS}<Orders>/`, '<RetryRetryQueueOrders>'],
    [`${KEYS}<Payments>/`, '<RetryRetryQueuePayments>'],
  ]);
});

test('a shared queue is told of all records, once', () => {
  const stack = withRecords({ sharedQueue: true });
  stack.retry.attach(stack.function('Payments'), { records: true });
  assert.deepEqual(notices(stack), [[KEYS, '<RetryRetryQueue>']]);
});

test('a retry queue takes notices from this bucket and account only', () => {
  const stack = withRecords();
  const { Statement } = stack.only('AWS::SQS::QueuePolicy', /RetryQueue/).PolicyDocument;
  const [{ Action, Condition, Resource }, ...others] = Statement.filter(
    ({ Principal }: any) => Principal.Service === 's3.amazonaws.com',
  );
  assert.deepEqual(others, []);
  assert.deepEqual([Action, said(Resource)], ['sqs:SendMessage', '<RetryRetryQueueOrders>']);
  const { BucketName } = stack.only('AWS::S3::Bucket');
  assert.equal(said(Condition.ArnEquals['aws:SourceArn']), `arn:partition:s3:::${said(BucketName)}`);
  assert.equal(said(Condition.StringEquals['aws:SourceAccount']), 'accountid');
});

test('the handler may read records, learn that one is gone, and do nothing else with the bucket', () => {
  const stack = withRecords();
  assert.deepEqual(permissions(stack.statementsOf(/HandlerRole/), /s3:/), [
    `s3:GetObject on <RetryRecordsBucket>/${KEYS}*`,
    's3:ListBucket on <RetryRecordsBucket>',
  ]);
  const { RECORD_BUCKETS } = stack.only('AWS::Lambda::Function', /Handler/).Environment.Variables;
  assert.equal(said(RECORD_BUCKETS), '<RetryRecordsBucket>');
  assert.match(said(stack.only('AWS::S3::Bucket').BucketName), /^comeback-records-[0-9a-f]{8}-STACK$/);
});

test('a function may put records, in a policy that goes only after the destination has changed', () => {
  const stack = withRecords();
  const policies = stack.template.findResources('AWS::IAM::Policy');
  const ofBucket = Object.entries(policies).filter(([, each]) => JSON.stringify(each).includes('s3:PutObject'));
  assert.deepEqual(
    ofBucket.map(([id]) => id.slice(0, 30)),
    ['RetrySendersRecordsServiceRole'],
  );
  assert.deepEqual(permissions(stack.statementsOf(/OrdersServiceRole/), /./), [
    // The queue is its destination until the bucket is, and once the bucket is not any more.
    'sqs:SendMessage on <RetryRetryQueueOrders>',
    `s3:PutObject, s3:ListBucket on <RetryRecordsBucket>, <RetryRecordsBucket>/*${IN_ACCOUNT}`,
  ]);
});

test('functions with one role have one policy for the bucket', () => {
  const stack = new TestStack({ records: true });
  const role = new iam.Role(stack, 'Shared', { assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com') });
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id, { role }));
  for (const each of [orders, payments, aliasOf(orders)]) stack.retry.attach(each, { records: true });
  assert.equal(permissions(stack.statementsOf(/"Shared/), /PutObject/).length, 1);
});

test("the bucket's policy lets only attached functions put, and only the handler and operators read and delete", () => {
  const stack = withRecords();
  stack.retry.attach(stack.function('Payments'));
  stack.retry.grantRead(new iam.User(stack, 'Reader'));
  stack.retry.grantOperate(new iam.User(stack, 'Operator'));
  stack.retry.grantRedrive(new iam.User(stack, 'Redriver'));
  const { Statement } = stack.only('AWS::S3::BucketPolicy').PolicyDocument;
  const denied = Statement.filter(({ Condition }: any) => Condition.ArnNotEquals).map(({ Action, Condition }: any) => [
    [Action].flat().join(', '),
    Condition.ArnNotEquals['aws:PrincipalArn'].map(said),
  ]);
  assert.deepEqual(denied, [
    ['s3:PutObject', ['<OrdersServiceRole>', '<PaymentsServiceRole>']],
    [
      's3:GetObject, s3:GetObjectVersion, s3:DeleteObject, s3:DeleteObjectVersion',
      ['<RetryHandlerRole>', '<Operator>', '<Redriver>'],
    ],
  ]);
});

test('whoever may look at dead letters may read their payloads, and readers only how the bucket is set', () => {
  const stack = withRecords();
  stack.retry.grantRead(new iam.User(stack, 'Reader'));
  stack.retry.grantOperate(new iam.User(stack, 'Operator'));
  stack.retry.grantRedrive(new iam.User(stack, 'Redriver'));
  const may = (user: RegExp) => permissions(stack.statementsOf(user), /s3:/);
  const settings = `${READ_BUCKET.join(', ')} on <RetryRecordsBucket>`;
  const payloads = `s3:GetObject on <RetryRecordsBucket>/${KEYS}*`;
  assert.deepEqual(may(/"Reader/), [settings]);
  assert.deepEqual(may(/"Operator/), [settings, payloads]);
  assert.deepEqual(may(/"Redriver/), [payloads]);
});

test('records outlast the longest maxAge and retention together', () => {
  const days = (props: AsyncRetryProps, options: AttachOptions = {}) => daysIn(withRecords(props, options));
  assert.equal(days({}), 1 + 14 + 1);
  assert.equal(days({ maxAge: Duration.days(7) }), 7 + 14 + 1);
  assert.equal(days({ maxAge: Duration.days(7) }, { maxAge: Duration.days(30) }), 30 + 14 + 1);
  assert.equal(days({ maxAge: Duration.days(7) }, { maxAge: Duration.hours(1) }), 7 + 14 + 1);
  assert.equal(days({ maxAge: Duration.hours(12) }), 15 + 1, 'parts of a day count as days');
  const unknown = new TestStack({ records: true });
  const parameter = new CfnParameter(unknown, 'Days', { type: 'Number' });
  unknown.retry.attach(unknown.function('Orders'), { maxAge: Duration.days(parameter.valueAsNumber), records: true });
  assert.equal(daysIn(unknown), 365 + 14 + 1, 'an unknown age may be the longest');
  const stack = new Stack();
  const deadLetterQueue = new sqs.Queue(stack, 'Mine', { retentionPeriod: Duration.days(5) });
  const retry = new AsyncRetry(stack, 'Retry', { records: true, deadLetterQueue });
  retry.attach(functionIn(stack, 'Orders'), { records: true });
  const [{ Properties }] = Object.values(Template.fromStack(stack).findResources('AWS::S3::Bucket'));
  assert.equal(Properties.LifecycleConfiguration.Rules[0].ExpirationInDays, 1 + 5 + 1);
});

test('with a key, the bucket has it, S3 may use it for notices, and functions for records', () => {
  const stack = new Stack(undefined, 'Test');
  const encryptionKey = new kms.Key(stack, 'Key');
  const retry = new AsyncRetry(stack, 'Retry', { records: true, encryptionKey });
  retry.attach(functionIn(stack, 'Orders'), { records: true });
  const template = Template.fromStack(stack);
  const [bucket] = Object.values(template.findResources('AWS::S3::Bucket'));
  const [rule] = bucket.Properties.BucketEncryption.ServerSideEncryptionConfiguration;
  assert.equal(rule.BucketKeyEnabled, true);
  assert.equal(idOf(rule.ServerSideEncryptionByDefault.KMSMasterKeyID), 'Key');
  const [key] = Object.values(template.findResources('AWS::KMS::Key'));
  const ofServices = key.Properties.KeyPolicy.Statement.filter(({ Principal }: any) => Principal.Service);
  assert.deepEqual(
    ofServices.map(({ Principal, Action }: any) => [Principal.Service, Action]),
    [['s3.amazonaws.com', ['kms:Decrypt', 'kms:GenerateDataKey*']]],
  );
  const policies = JSON.stringify(template.findResources('AWS::IAM::Policy'));
  assert.equal(policies.match(/"kms:Decrypt","kms:GenerateDataKey"/g)?.length, 2, 'the handler and the function');
  assert.deepEqual(
    warningsIn(stack).filter((text) => text.includes('comeback:record-')),
    [],
  );
});

test('an imported key needs a policy of its own, and a warning says which', () => {
  const stack = new Stack(undefined, 'Test');
  const arn = 'arn:aws:kms:eu-west-1:123456789012:key/1234';
  new AsyncRetry(stack, 'Retry', { records: true, encryptionKey: kms.Key.fromKeyArn(stack, 'Key', arn) });
  assert.match(
    warningsIn(stack).join(),
    /the policy of Test\/Key can't be changed here: it must let s3\.amazonaws\.com use the key \(kms:Decrypt, kms:GenerateDataKey\*\)/,
  );
});

test("a user's bucket is not changed: EventBridge tells the queues of its records", () => {
  const stack = new Stack(undefined, 'Test');
  const key = new kms.Key(stack, 'BucketKey');
  const mine = new s3.Bucket(stack, 'Mine', { encryptionKey: key, versioned: true, eventBridgeEnabled: true });
  const retry = new AsyncRetry(stack, 'Retry', { recordBucket: mine });
  assert.equal(retry.recordBucket, mine);
  retry.attach(functionIn(stack, 'Orders'), { records: true });
  retry.grantRedrive(new iam.User(stack, 'Redriver'));
  const template = Template.fromStack(stack);
  template.resourceCountIs('AWS::S3::Bucket', 1);
  template.resourceCountIs('AWS::S3::BucketPolicy', 0);
  const [rule, ...others] = Object.values(template.findResources('AWS::Events::Rule'));
  assert.deepEqual(others, []);
  const { EventPattern, Targets } = rule.Properties;
  assert.deepEqual([EventPattern.source, EventPattern['detail-type']], [['aws.s3'], ['Object Created']]);
  assert.equal(idOf(EventPattern.detail.bucket.name[0]), 'Mine');
  assert.equal(said(EventPattern.detail.object.key[0].prefix), `${KEYS}<Orders>/`);
  assert.deepEqual(
    Targets.map(({ Arn }: any) => idOf(Arn)),
    ['RetryRetryQueueOrders'],
  );
  const queues = JSON.stringify(template.findResources('AWS::SQS::QueuePolicy'));
  assert.match(queues, /"ArnEquals":\{"aws:SourceArn":\{"Fn::GetAtt":\["RetryRecordsRule/);
  const policies = Object.values(template.findResources('AWS::IAM::Policy'));
  const of = (role: RegExp) =>
    permissions(
      policies
        .filter(({ Properties: { Roles, Users } }) => role.test(JSON.stringify(Roles ?? Users)))
        .flatMap(({ Properties }) => Properties.PolicyDocument.Statement),
      /s3:|kms:/,
    );
  assert.deepEqual(of(/HandlerRole/), [
    `s3:GetObject, s3:GetObjectVersion on <Mine>/${KEYS}*`,
    's3:ListBucket on <Mine>',
    'kms:Decrypt on <BucketKey>',
  ]);
  assert.deepEqual(of(/OrdersServiceRole/), [
    `s3:PutObject, s3:ListBucket on <Mine>, <Mine>/*${IN_ACCOUNT}`,
    'kms:Decrypt, kms:GenerateDataKey on <BucketKey>',
  ]);
  assert.deepEqual(of(/Redriver/), [
    'kms:Decrypt on <BucketKey>',
    `s3:GetObject, s3:GetObjectVersion on <Mine>/${KEYS}*`,
  ]);
  assert.match(warningsIn(stack).join(), /Test\/Mine: let it send its events to EventBridge \(eventBridgeEnabled\)/);
});

test('EventBridge may use the key of a retry queue, for this account', () => {
  const stack = new Stack(undefined, 'Test');
  const encryptionKey = new kms.Key(stack, 'Key');
  const recordBucket = s3.Bucket.fromBucketName(stack, 'Mine', 'my-records');
  new AsyncRetry(stack, 'Retry', { recordBucket, encryptionKey }).attach(functionIn(stack, 'Orders'), {
    records: true,
  });
  const [{ Properties }] = Object.values(Template.fromStack(stack).findResources('AWS::KMS::Key'));
  const [{ Principal, Condition }] = Properties.KeyPolicy.Statement.slice(-1);
  assert.equal(Principal.Service, 'events.amazonaws.com');
  assert.equal(said(Condition.StringEquals['aws:SourceAccount']), 'accountid');
});

test("a function in another stack doesn't depend on the stack of the retries with its bucket", () => {
  const { app, functions, retries } = twoStacks();
  const orders = functionIn(functions, 'Orders');
  new AsyncRetry(retries, 'Retry', { records: true }).attach(orders, { records: true });
  app.synth();
  assert.deepEqual(functions.dependencies, []);
  const [{ Properties }] = Object.values(Template.fromStack(retries).findResources('AWS::Lambda::EventInvokeConfig'));
  assert.equal(idOf(Properties.DestinationConfig.OnFailure.Destination), 'RetryRecordsBucket');
});

test('if the role of a function is unknown, any role of the account may put records that has the permission', () => {
  const stack = new TestStack({ records: true }, { env: { account: '123456789012', region: 'eu-west-1' } });
  const arn = 'arn:aws:lambda:eu-west-1:123456789012:function:orders';
  stack.retry.attach(lambda.Function.fromFunctionArn(stack, 'Orders', arn), { records: true });
  const { Statement } = stack.only('AWS::S3::BucketPolicy').PolicyDocument;
  const [{ Condition }] = Statement.filter(({ Action }: any) => Action === 's3:PutObject');
  assert.equal(said(Condition.ArnNotEquals['aws:PrincipalArn'][0]), 'arn:partition:iam::123456789012:role/*');
});

test('a role that can not be changed is named with all permissions that it needs', () => {
  const stack = new TestStack({ records: true }, { env: { account: '123456789012', region: 'eu-west-1' } });
  const role = iam.Role.fromRoleArn(stack, 'Role', 'arn:aws:iam::123456789012:role/orders', { mutable: false });
  stack.retry.attach(stack.function('Orders', { role }), { records: true });
  const [warning] = stack.warnings.filter((text) => text.includes('comeback:permission'));
  for (const action of ['sqs:SendMessage', 's3:PutObject', 's3:ListBucket'])
    assert.ok(warning.includes(action), action);
});

test('records without a bucket, a bucket elsewhere and records of queues alone are refused', () => {
  const stack = new TestStack();
  assert.equal(
    errorOf(() => stack.retry.attach(stack.function('Orders'), { records: true })),
    "AsyncRetry Test/Retry can't attach Test/Orders: records needs a bucket: set records of the AsyncRetry to true, or recordBucket to a bucket of your own",
  );
  const env = { account: '123456789012', region: 'eu-west-1' };
  const there = { bucketName: 'my-records', region: 'us-east-1', account: '123456789012' };
  const elsewhere = s3.Bucket.fromBucketAttributes(new Stack(), 'Mine', there);
  assert.equal(
    errorOf(() => new TestStack({ recordBucket: elsewhere, records: false }, { env })),
    'AsyncRetry Test/Retry: recordBucket must be in the region of its retries, eu-west-1, and is in us-east-1; ' +
      'records must be true or not set with recordBucket, got false',
  );
  const ofQueues = new TestStack({ records: true });
  ofQueues.retry.attachQueue(new sqs.Queue(ofQueues, 'Imports'));
  assert.match(
    errorOf(() => ofQueues.template),
    /Test\/Retry must have no records: it retries queues only, whose messages have no failure records/,
  );
});
