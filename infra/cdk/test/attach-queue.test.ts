import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_iam as iam,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_lambda_event_sources as sources,
  aws_sqs as sqs,
  Duration,
  Stack,
} from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AttachQueueOptions } from '../lib';
import { read } from '../lib/contract';
import { ALARMS } from '../lib/triggers';
import { errorOf, EVERYTHING_ON, functionIn, TestStack } from './app';

/** A stack with an attached queue that is named imports. */
function withImports(options: AttachQueueOptions = {}, props: sqs.QueueProps = {}): TestStack {
  const stack = new TestStack();
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports', ...props }), options);
  return stack;
}

const ARN_OF_IMPORTS = {
  'Fn::Join': [
    '',
    ['arn:', { Ref: 'AWS::Partition' }, ':sqs:', { Ref: 'AWS::Region' }, ':', { Ref: 'AWS::AccountId' }, ':imports'],
  ],
};

test('SQS moves what failed to a retry queue that takes messages of no other queue', () => {
  const stack = withImports({ maxReceiveCount: 3 });
  const { deadLetterTargetArn, maxReceiveCount } = stack.only('AWS::SQS::Queue', /^Imports/).RedrivePolicy;
  assert.match(deadLetterTargetArn['Fn::GetAtt'][0], /^RetryRetryQueueImports/);
  assert.equal(maxReceiveCount, 3);
  const retryQueue = stack.only('AWS::SQS::Queue', /^RetryRetryQueueImports/);
  assert.deepEqual(retryQueue.RedriveAllowPolicy, { redrivePermission: 'byQueue', sourceQueueArns: [ARN_OF_IMPORTS] });
  assert.match(retryQueue.RedrivePolicy.deadLetterTargetArn['Fn::GetAtt'][0], /^RetryDeadLetterQueue/);
  assert.deepEqual(stack.json('QUEUE_TARGETS'), { RetryRetryQueueImports: ['sqs:imports'] });
  stack.template.resourceCountIs('AWS::Lambda::EventSourceMapping', 1);
  assert.deepEqual(stack.warnings, []);
});

test('the handler may send to the source queue, and use its key to read what SQS moved', () => {
  const stack = new TestStack();
  const key = new kms.Key(stack, 'Key');
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports', encryptionMasterKey: key }));
  const statements = stack.statementsOf(/HandlerRole/);
  const [send] = statements.filter(({ Action }) => Action === 'sqs:SendMessage');
  assert.deepEqual(send.Resource[1], ARN_OF_IMPORTS);
  const [use] = statements.filter(({ Action }) => /kms/.test(String(Action)));
  assert.deepEqual([use.Action, use.Resource], [['kms:Decrypt', 'kms:GenerateDataKey'], stack.resolve(key.keyArn)]);
});

test('a key that is only known by an alias is the user’s to grant', () => {
  const stack = new TestStack();
  const encryptionMasterKey = kms.Alias.fromAliasName(stack, 'Alias', 'alias/imports');
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports', encryptionMasterKey }));
  assert.match(
    stack.warnings.join(),
    /Test\/Imports: let the handler's role kms:Decrypt, kms:GenerateDataKey with its key/,
  );
});

test('a queue whose name CloudFormation generates is attached, and a warning says what that leaves open', () => {
  const stack = new TestStack();
  const queue = new sqs.Queue(stack, 'Imports');
  stack.retry.attachQueue(queue, { maxAge: Duration.days(7) });
  const retryQueue = stack.only('AWS::SQS::Queue', /^RetryRetryQueueImports/);
  assert.deepEqual(retryQueue.RedriveAllowPolicy, { redrivePermission: 'allowAll' });
  assert.deepEqual(stack.json('QUEUE_TARGETS'), { RetryRetryQueueImports: ['sqs:Imports'] });
  assert.deepEqual(stack.json('POLICIES'), { 'sqs:Imports': { MAX_AGE: '7d' } });
  assert.match(stack.warnings.join(), /Test\/Imports: CloudFormation generates its name/);
  // Fails if there were a circle of references.
  Template.fromStack(stack);
});

test('functions that consume the queue may be invoked in a loop, and have an alarm if Lambda stops them', () => {
  const stack = new TestStack();
  const [before, after] = ['Before', 'After'].map((id) => new sqs.Queue(stack, id, { queueName: id }));
  const consumer = stack.function('Importer');
  stack.retry.attachQueue(before, { consumers: [consumer] });
  const { length } = stack.retry.alarms();
  stack.retry.attachQueue(after, { consumers: [consumer] });
  assert.equal(stack.only('AWS::Lambda::Function', /^Importer/).RecursiveLoop, 'Allow');
  const alarms = stack.all('AWS::CloudWatch::Alarm');
  const ofLoops = alarms.filter(({ MetricName }) => MetricName === 'RecursiveInvocationsDropped');
  assert.deepEqual(ofLoops.map(({ Dimensions: [{ Value }] }) => Value.Ref.slice(0, -8)).sort(), [
    'Importer',
    'RetryHandler',
  ]);
  assert.ok(alarms.length > length);
});

test('an imported consumer gets a warning that says what to run', () => {
  const stack = new TestStack();
  const consumer = lambda.Function.fromFunctionName(stack, 'Importer', 'importer');
  const queue = new sqs.Queue(stack, 'Imports', { queueName: 'imports' });
  stack.retry.attachQueue(queue, { consumers: [consumer] });
  assert.match(stack.warnings.join(), /put-function-recursion-config --recursive-loop Allow --function-name importer/);
});

test('a queue has the alarms of every target, and those of no function', () => {
  const contract: { [name: string]: { of: string } } = read('alarms');
  const stack = new TestStack(EVERYTHING_ON);
  stack.retry.alarms();
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports' }));
  const alarms = stack.all('AWS::CloudWatch::Alarm');
  const nameOf = (alarm: any) => ALARMS.find((each) => alarm.AlarmDescription.endsWith(`#${each.toLowerCase()}`));
  assert.deepEqual(alarms.map(nameOf).sort(), ALARMS.filter((name) => contract[name].of !== 'function').sort());
  const [faults] = alarms.filter((alarm) => nameOf(alarm) === 'ConfigurationFaults');
  assert.deepEqual(faults.Dimensions, [{ Name: 'Target', Value: 'sqs:imports' }]);
});

test('metrics and the dashboard name the queue', () => {
  const stack = new TestStack({ ledger: true, probe: true, register: true });
  const queue = new sqs.Queue(stack, 'Imports', { queueName: 'imports' });
  stack.retry.attachQueue(queue);
  stack.retry.dashboard();
  assert.deepEqual((stack.retry.metricWaited({ queue }) as any).dimensions, { Target: 'sqs:imports' });
  const body = JSON.stringify(stack.only('AWS::CloudWatch::Dashboard').DashboardBody);
  for (const each of ['sqs:imports waiting', 'sqs:imports configuration', 'sqs:imports re-invoked'])
    assert.ok(body.includes(each), each);
  assert.ok(!/DestinationDeliveryFailures|CircuitOpen|BroughtForward/.test(body));
  const other = new sqs.Queue(stack, 'Other');
  assert.throws(() => stack.retry.metricWaited({ queue: other }), {
    message: 'AsyncRetry Test/Retry has no metric Waited of Test/Other: attach first',
  });
});

test('a shared queue is for functions, and takes the dead letters of queues too', () => {
  const stack = new TestStack({ sharedQueue: true });
  for (const id of ['Orders', 'Payments']) stack.retry.attach(stack.function(id));
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports' }));
  assert.deepEqual(stack.json('QUEUE_TARGETS'), {
    RetryRetryQueue: ['Orders', 'Payments', 'sqs:imports'],
    RetryRetryQueueImports: ['sqs:imports'],
  });
  assert.equal(stack.retry.retryQueues.length, 2);
});

test('those who redrive have a queue for the dead letters of functions and queues', () => {
  const stack = new TestStack();
  stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
  stack.retry.attach(stack.function('Orders'));
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports' }));
  assert.deepEqual(stack.json('QUEUE_TARGETS').RetryRedriveQueue, ['Orders', 'sqs:imports']);
});

test('operators see the source queue, and may send a dead letter back to it', () => {
  const stack = new TestStack();
  stack.retry.grantOperate(new iam.User(stack, 'Operator'));
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports' }));
  const isOfImports = ({ Resource }: any) => JSON.stringify(Resource) === JSON.stringify(ARN_OF_IMPORTS);
  assert.deepEqual(
    stack
      .statementsOf(/Operator/)
      .filter(isOfImports)
      .map(({ Action }) => Action),
    [['sqs:GetQueueAttributes', 'sqs:GetQueueUrl', 'sqs:SendMessage']],
  );
});

test('a named queue of another stack depends on the stack of the retries, and not the other way', () => {
  const app = new App();
  const [queues, retries] = ['Queues', 'Retries'].map((id) => new Stack(app, id));
  const consumer = functionIn(queues, 'Importer');
  const queue = new sqs.Queue(queues, 'Imports', { queueName: 'imports' });
  new AsyncRetry(retries, 'Retry').attachQueue(queue, { consumers: [consumer] });
  app.synth();
  assert.deepEqual([retries.dependencies, queues.dependencies], [[], [retries]]);
});

/** The error of attaching a queue. */
function refusalOf(build: (stack: TestStack) => sqs.IQueue, options: AttachQueueOptions = {}): string {
  const stack = new TestStack({}, { env: { account: '111111111111', region: 'eu-west-1' } });
  return errorOf(() => stack.retry.attachQueue(build(stack), options));
}

const named = (stack: TestStack) => new sqs.Queue(stack, 'Imports', { queueName: 'imports' });
const REFUSED: [string, (stack: TestStack) => sqs.IQueue, AttachQueueOptions, RegExp][] = [
  [
    'a FIFO queue',
    (stack) => new sqs.Queue(stack, 'Imports', { fifo: true }),
    {},
    /^AsyncRetry Test\/Retry can't attach Test\/Imports: it is a FIFO queue: a backoff would break its order/,
  ],
  [
    'a queue that another template owns',
    (stack) => sqs.Queue.fromQueueArn(stack, 'Imports', 'arn:aws:sqs:eu-west-1:111111111111:imports'),
    {},
    /it is imported, .*attach it where it is defined, or run comeback attach --queue NAME$/,
  ],
  [
    'a queue of another account and region',
    (stack) => sqs.Queue.fromQueueArn(stack, 'Imports', 'arn:aws:sqs:us-east-1:222222222222:imports'),
    {},
    /must be in the account of its retries, 111111111111, .*must be in the region of its retries, eu-west-1/,
  ],
  [
    'a queue with a dead-letter queue',
    (stack) => {
      const queue = new sqs.Queue(stack, 'Dead');
      return new sqs.Queue(stack, 'Imports', { deadLetterQueue: { queue, maxReceiveCount: 3 } });
    },
    {},
    /it has a dead-letter queue already: leave that out, .*keep it for what is given up, as deadLetterQueue of this/,
  ],
  [
    'a retry queue',
    (stack) => {
      stack.retry.attachQueue(named(stack));
      return stack.retry.retryQueues[0];
    },
    {},
    /is a retry queue/,
  ],
  ['the dead-letter queue', (stack) => stack.retry.deadLetterQueue, {}, /it is a retry queue or a dead-letter queue/],
  [
    'a queue twice',
    (stack) => {
      const queue = named(stack);
      stack.retry.attachQueue(queue);
      return queue;
    },
    {},
    /: it is attached already$/,
  ],
  [
    'a queue of another stack without a name',
    (stack) =>
      new sqs.Queue(
        new Stack(stack.node.scope, 'Queues', { env: { account: stack.account, region: stack.region } }),
        'Imports',
      ),
    {},
    /Queues\/Imports: it is in another stack, so it must have a queueName/,
  ],
  ['too many receives', named, { maxReceiveCount: 11 }, /maxReceiveCount must be a whole number from 1 to 10, got 11$/],
  ['a bad policy', named, { maxAge: Duration.seconds(1) }, /maxAge must be from 2s to 365d, got "1 second"$/],
  ['errors that nobody tells', named, { nonRetryableErrors: ['X'] }, /nonRetryableErrors must not be set: SQS doesn't/],
  ['a tenant', named, { tenantId: '/tenant' }, /tenantId must not be set/],
  ['executions', named, { durable: true }, /durable must not be set/],
];

for (const [what, build, options, expected] of REFUSED) {
  test(`${what} is refused`, () => assert.match(refusalOf(build, options), expected));
}

test('a consumer that Lambda would stop is refused', () => {
  const stack = new TestStack();
  const consumer = stack.function('Importer', { recursiveLoop: lambda.RecursiveLoop.TERMINATE });
  assert.throws(() => stack.retry.attachQueue(named(stack), { consumers: [consumer] }), {
    message: /: Test\/Importer: recursiveLoop must be Allow, or not set/,
  });
});

test('a visibility timeout of hours gets a warning that says how late a failure is seen', () => {
  const visibilityTimeout = Duration.hours(2);
  assert.match(
    withImports({ maxReceiveCount: 3 }, { visibilityTimeout }).warnings.join(),
    /only after 3 visibility timeouts, so a failure is seen 6 hours late/,
  );
  assert.deepEqual(withImports({}, { visibilityTimeout: Duration.minutes(6) }).warnings, []);
});

test('a redrive policy or a consumer that is changed later is a contradiction', () => {
  const app = new App();
  const stack = new Stack(app, 'Test');
  const consumer = functionIn(stack, 'Importer');
  const queue = new sqs.Queue(stack, 'Imports', { queueName: 'imports' });
  new AsyncRetry(stack, 'Retry').attachQueue(queue, { consumers: [consumer] });
  (queue.node.defaultChild as sqs.CfnQueue).redrivePolicy = { deadLetterTargetArn: 'x', maxReceiveCount: 1 };
  (consumer.node.defaultChild as lambda.CfnFunction).recursiveLoop = 'Terminate';
  const error = errorOf(() => app.synth());
  assert.match(error, /Test\/Imports must keep its retry queue as dead-letter queue/);
  assert.match(error, /Test\/Importer must keep recursiveLoop Allow, got Terminate/);
});

test('a function that consumes the queue and was not named is a contradiction', () => {
  const app = new App();
  const stack = new Stack(app, 'Test');
  const [named, forgotten] = ['Named', 'Forgotten'].map((id) => functionIn(stack, id));
  const queue = new sqs.Queue(stack, 'Imports', { queueName: 'imports' });
  for (const each of [named, forgotten]) each.addEventSource(new sources.SqsEventSource(queue));
  functionIn(stack, 'Other').addEventSource(new sources.SqsEventSource(new sqs.Queue(stack, 'Others')));
  new AsyncRetry(stack, 'Retry').attachQueue(queue, { consumers: [named] });
  const error = errorOf(() => app.synth());
  assert.match(error, /Test\/Forgotten consumes Test\/Imports: name it in consumers, because Lambda would stop it/);
  assert.ok(!/Test\/(Named|Other)/.test(error), error);
});

test('names of queues count in the length of the variables', () => {
  const stack = new TestStack();
  const attach = () => {
    for (let nth = 0; nth < 100; nth++)
      stack.retry.attachQueue(new sqs.Queue(stack, `Q${nth}`, { queueName: `${'x'.repeat(60)}${nth}` }));
  };
  assert.throws(attach, {
    message: /can't attach Test\/Q\d+: the handler's variables would have about 4\d\d\d characters/,
  });
  assert.ok(Annotations.fromStack(stack).findError('*', Match.anyValue()).length === 0);
});
