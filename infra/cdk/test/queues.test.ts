import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { aws_iam as iam, aws_lambda as lambda, aws_sqs as sqs, Duration, Stack } from 'aws-cdk-lib';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { allWarningsIn, errorOf, TestStack, withOrders } from './app';

// On a retry queue, actions of the handler alone. Operators may also change visibility timeouts.
const RECEIVE = 'sqs:ReceiveMessage,sqs:DeleteMessage,sqs:PurgeQueue';
const CHANGE_VISIBILITY = 'sqs:ChangeMessageVisibility';
// On a dead-letter queue, actions of operators and redrive principals, and actions of redrive principals alone.
const LOOK = 'sqs:ReceiveMessage,sqs:DeleteMessage,sqs:ChangeMessageVisibility';
const MOVE = 'sqs:PurgeQueue,sqs:StartMessageMoveTask,sqs:CancelMessageMoveTask';

/** The denied actions of a queue's policy, with the exempted principals and the other conditions. */
function closureOf(stack: TestStack, id: RegExp): { [action: string]: string[] } {
  const [tls, ...statements] = stack.only('AWS::SQS::QueuePolicy', id).PolicyDocument.Statement;
  assert.deepEqual([tls.Effect, tls.Action], ['Deny', 'sqs:*']);
  assert.deepEqual(tls.Condition, { Bool: { 'aws:SecureTransport': 'false' } });
  return Object.fromEntries(
    statements.map(({ Effect, Principal, Action, Resource, Condition }: any) => {
      assert.deepEqual([Effect, Principal], ['Deny', { AWS: '*' }]);
      assert.match(Resource['Fn::GetAtt'][0], id);
      const { ArnNotEquals, ...others } = Condition;
      if (ArnNotEquals) assert.deepEqual(others, { BoolIfExists: { 'aws:PrincipalIsAWSService': 'false' } });
      const but = ArnNotEquals ? ArnNotEquals['aws:PrincipalArn'].map(nameOf) : [JSON.stringify(others)];
      return [[Action].flat().join(), but];
    }),
  );
}

/** The logical id of a role or a user, or the end of an ARN. */
function nameOf(arn: any): string {
  return arn['Fn::GetAtt']?.[0].slice(0, -8) ?? (arn['Fn::Join']?.[1].at(-1) ?? arn).replace(/^.*:(?=role|user)/, '');
}

const ONLY_CLOUDFORMATION = ['{"ForAllValues:StringNotEquals":{"aws:CalledVia":"cloudformation.amazonaws.com"}}'];

test('only the handler sends dead letters, nobody receives them, and only deployments delete a queue', () => {
  const stack = withOrders();
  stack.retry.attach(stack.function('Payments'));
  assert.deepEqual(closureOf(stack, /DeadLetterQueue/), {
    [MOVE]: ['RetryHandlerRole'],
    [LOOK]: ['RetryHandlerRole'],
    'sqs:SendMessage': ['RetryHandlerRole'],
    'sqs:DeleteQueue': ONLY_CLOUDFORMATION,
  });
  for (const id of ['Orders', 'Payments']) {
    assert.deepEqual(closureOf(stack, new RegExp(`RetryQueue${id}`)), {
      [RECEIVE]: ['RetryHandlerRole'],
      [CHANGE_VISIBILITY]: ['RetryHandlerRole'],
      'sqs:SendMessage': ['RetryHandlerRole', `${id}ServiceRole`],
      'sqs:DeleteQueue': ONLY_CLOUDFORMATION,
    });
  }
  // An exemption from a denial is not a permission, so the handler needs one.
  assert.deepEqual(stack.actionsOf(/HandlerRole/, /DeadLetterQueue/), ['sqs:SendMessage']);
});

test('to a shared queue only the handler and the roles of attached functions send', () => {
  for (const ids of [[], ['Orders', 'Payments']]) {
    const stack = new TestStack({ sharedQueue: true });
    for (const id of ids) stack.retry.attach(stack.function(id));
    const expected = ['RetryHandlerRole', ...ids.map((id) => `${id}ServiceRole`)];
    assert.deepEqual(closureOf(stack, /RetryQueue/)['sqs:SendMessage'], expected);
  }
});

test('deletion protection can be turned off', () => {
  const stack = withOrders({ deletionProtection: false });
  for (const id of [/DeadLetterQueue/, /RetryQueue/])
    assert.ok(!('sqs:DeleteQueue' in closureOf(stack, id)), String(id));
});

test('only redrive principals receive dead letters and have SQS move them into the retry queues', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Before'));
  stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
  stack.retry.attach(stack.function('After'));
  const [redrive, ...sends] = stack
    .statementsOf(/Operator/)
    .map(({ Action, Resource }: any): [string[], string] => [[Action].flat().sort(), nameOf(Resource)]);
  assert.equal(redrive[1], 'RetryDeadLetterQueue');
  const queues = ['RetryRetryQueueBefore', 'RetryRetryQueueAfter', 'RetryRedriveQueue'];
  assert.deepEqual(
    sends.map(([actions, queue]) => [actions, queue.replace(/[0-9a-f]{8}$/, '')]),
    queues.map((queue) => [['sqs:SendMessage'], queue]),
  );
  const { [LOOK]: takers, [MOVE]: movers, 'sqs:SendMessage': senders } = closureOf(stack, /DeadLetterQueue/);
  assert.deepEqual([takers, movers, senders], [['Operator'], ['Operator'], ['RetryHandlerRole']]);
  for (const [id, roles] of [
    [/RetryQueueBefore/, ['BeforeServiceRole', 'Operator']],
    [/RetryQueueAfter/, ['Operator', 'AfterServiceRole']],
    [/RedriveQueue/, ['Operator']],
  ] as const) {
    const { [RECEIVE]: receivers, [CHANGE_VISIBILITY]: changers, 'sqs:SendMessage': sending } = closureOf(stack, id);
    const handler = ['RetryHandlerRole'];
    assert.deepEqual([receivers, changers, sending], [handler, handler, [...handler, ...roles]]);
  }
});

test('operators may change visibility timeouts and take dead letters, and nothing else', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Before'));
  stack.retry.grantOperate(new iam.User(stack, 'Operator'));
  stack.retry.attach(stack.function('After'));
  const handler = ['RetryHandlerRole'];
  for (const id of ['Before', 'After']) {
    assert.deepEqual(closureOf(stack, new RegExp(`RetryQueue${id}`)), {
      [RECEIVE]: handler,
      [CHANGE_VISIBILITY]: ['RetryHandlerRole', 'Operator'],
      'sqs:SendMessage': ['RetryHandlerRole', `${id}ServiceRole`],
      'sqs:DeleteQueue': ONLY_CLOUDFORMATION,
    });
  }
  assert.deepEqual(closureOf(stack, /DeadLetterQueue/), {
    [MOVE]: handler,
    [LOOK]: ['Operator'],
    'sqs:SendMessage': handler,
    'sqs:DeleteQueue': ONLY_CLOUDFORMATION,
  });
});

test('operators and redrive principals both take dead letters, and only redrive principals move or purge them', () => {
  const stack = new TestStack();
  stack.retry.grantOperate(new iam.User(stack, 'Operator'));
  stack.retry.grantRedrive(new iam.User(stack, 'Redriver'));
  const { [LOOK]: takers, [MOVE]: movers } = closureOf(stack, /DeadLetterQueue/);
  assert.deepEqual([takers, movers], [['Redriver', 'Operator'], ['Redriver']]);
});

test('a redrive has one destination for the dead letters of all functions, however many there are', () => {
  const cases: [AsyncRetryProps, string[], RegExp, number][] = [
    [{}, ['Orders'], /^RetryRetryQueueOrders/, 1],
    [{}, ['Orders', 'Payments', 'Mails'], /^RetryRedriveQueue/, 4],
    [{ sharedQueue: true }, ['Orders', 'Payments'], /^RetryRetryQueue[0-9A-F]{8}$/, 1],
  ];
  for (const [props, ids, expected, count] of cases) {
    for (const isGrantedFirst of [true, false]) {
      const stack = new TestStack(props);
      const grant = () => stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
      if (isGrantedFirst) grant();
      for (const id of ids) stack.retry.attach(stack.function(id));
      if (!isGrantedFirst) grant();
      assert.match(stack.resolve(stack.retry.redriveQueueArn)['Fn::GetAtt'][0], expected);
      stack.template.resourceCountIs('AWS::Lambda::EventSourceMapping', count);
    }
  }
});

test('there is no redrive destination without a redrive principal or an attached function', () => {
  const stack = new TestStack();
  const destination = () => errorOf(() => stack.resolve(stack.retry.redriveQueueArn));
  assert.match(destination(), /AsyncRetry Test\/Retry has no redriveQueueArn: attach a function first/);
  for (const id of ['Orders', 'Payments']) stack.retry.attach(stack.function(id));
  assert.match(destination(), /has no redriveQueueArn: call grantRedrive for those who may redrive/);
  assert.equal(stack.retry.retryQueues.length, 2);
});

test('only principals with an ARN may redrive or operate', () => {
  const { retry } = new TestStack();
  for (const nobody of [new iam.ServicePrincipal('sns.amazonaws.com'), new iam.AccountRootPrincipal()]) {
    for (const call of ['grantRedrive', 'grantOperate'] as const) {
      assert.throws(() => retry[call](nobody), {
        message: new RegExp(`${call} must be given a role, a user or something with a role`),
      });
    }
  }
});

test('a role that is imported by its name is allowed with any path', () => {
  const stack = new TestStack();
  const [orders, operator] = ['orders-role', 'operator'].map((name) => iam.Role.fromRoleName(stack, name, name));
  stack.retry.attach(
    lambda.Function.fromFunctionAttributes(stack, 'Orders', {
      functionArn: 'arn:aws:lambda:eu-west-1:123456789012:function:orders',
      role: orders,
    }),
  );
  stack.retry.grantRedrive(operator);
  assert.deepEqual(closureOf(stack, /RetryQueue/)['sqs:SendMessage'], [
    'RetryHandlerRole',
    'role/orders-role',
    'role/*/orders-role',
    'role/operator',
    'role/*/operator',
  ]);
  assert.deepEqual(closureOf(stack, /DeadLetterQueue/)[LOOK], ['role/operator', 'role/*/operator']);
});

test('a role that is imported by its ARN, or by its name with a path, is allowed only under this ARN', () => {
  const cases: [(stack: Stack) => iam.IRole, string][] = [
    [(stack) => iam.Role.fromRoleArn(stack, 'Role', 'arn:aws:iam::123456789012:role/orders-role'), 'role/orders-role'],
    [
      (stack) => iam.Role.fromRoleArn(stack, 'Role', 'arn:aws:iam::123456789012:role/service-role/orders-role'),
      'role/service-role/orders-role',
    ],
    [(stack) => iam.Role.fromRoleName(stack, 'Role', 'service-role/orders-role'), 'role/service-role/orders-role'],
  ];
  for (const [imported, expected] of cases) {
    const stack = new TestStack();
    stack.retry.attach(stack.function('Orders', { role: imported(stack) }));
    assert.deepEqual(closureOf(stack, /RetryQueue/)['sqs:SendMessage'], ['RetryHandlerRole', expected]);
  }
});

test("a user's dead-letter queue that loses messages or is unencrypted is a warning", () => {
  const warningsOf = (property: 'deadLetterQueue' | 'centralDeadLetterQueue', props: sqs.QueueProps) => {
    const stack = new TestStack();
    new AsyncRetry(stack, 'Other', { [property]: new sqs.Queue(stack, 'Mine', props) });
    return stack.warnings.map((text) => text.replace(/ \[ack: .*/, ''));
  };
  const retention = (kept: string) =>
    `the dead-letter queue Test/Mine keeps messages for ${kept}: set its retentionPeriod to 14 days`;
  const moved = '. A message that SQS moves there after a thousand receives keeps its age, and may be deleted at once';
  const open = 'the dead-letter queue Test/Mine keeps payloads unencrypted: set its encryption to SQS_MANAGED or KMS';
  const { UNENCRYPTED, SQS_MANAGED, KMS_MANAGED } = sqs.QueueEncryption;
  const retentionPeriod = Duration.days(14);
  for (const [property, more] of [
    ['deadLetterQueue', moved],
    ['centralDeadLetterQueue', ''],
  ] as const) {
    assert.deepEqual(warningsOf(property, {}), [retention('4 days') + more]);
    const shorter = { retentionPeriod: Duration.days(13), encryption: SQS_MANAGED };
    assert.deepEqual(warningsOf(property, shorter), [retention('13 days') + more]);
    assert.deepEqual(warningsOf(property, { retentionPeriod, encryption: UNENCRYPTED }), [open]);
    for (const encryption of [undefined, SQS_MANAGED, KMS_MANAGED])
      assert.deepEqual(warningsOf(property, { retentionPeriod, encryption }), []);
  }
});

test('synthesis warns while nobody may look at dead letters', () => {
  const warningsOf = (name: (retry: AsyncRetry, role: iam.IRole) => void, props: AsyncRetryProps = {}) => {
    const stack = new TestStack(props);
    name(stack.retry, new iam.Role(stack, 'OnCall', { assumedBy: new iam.AccountRootPrincipal() }));
    return allWarningsIn(stack);
  };
  for (const name of [() => {}, (retry: AsyncRetry, role: iam.IRole) => retry.grantRead(role)]) {
    const [warning, ...others] = warningsOf(name);
    assert.match(warning, /^nobody may look at dead letters .* name a role with grantOperate or grantRedrive/);
    assert.deepEqual(others, []);
  }
  assert.deepEqual(
    warningsOf((retry, role) => retry.grantOperate(role)),
    [],
  );
  assert.deepEqual(
    warningsOf((retry, role) => retry.grantRedrive(role)),
    [],
  );
});

test("an imported dead-letter queue is not checked, and a user's own keeps its policy", () => {
  const stack = new TestStack();
  const imported = sqs.Queue.fromQueueArn(stack, 'Imported', 'arn:aws:sqs:us-east-1:123456789012:dead-letters');
  new AsyncRetry(stack, 'Second', { deadLetterQueue: imported });
  new AsyncRetry(stack, 'Third', {
    deadLetterQueue: new sqs.Queue(stack, 'Mine', { retentionPeriod: Duration.days(14) }),
  });
  assert.deepEqual(stack.warnings, []);
  assert.deepEqual(
    Object.keys(stack.template.findResources('AWS::SQS::QueuePolicy')).filter((id) => /Imported|Mine/.test(id)),
    [],
  );
});

test('the handlers of one stack may share a dead-letter queue, and those of two stacks may not', () => {
  const stack = new TestStack();
  const shared = stack.retry.deadLetterQueue;
  new AsyncRetry(stack, 'Second', { deadLetterQueue: shared }).grantRedrive(new iam.User(stack, 'Operator'));
  const { [LOOK]: takers, 'sqs:SendMessage': senders } = closureOf(stack, /DeadLetterQueue/);
  assert.deepEqual([takers, senders], [['Operator'], ['RetryHandlerRole', 'SecondHandlerRole']]);
  assert.throws(() => new AsyncRetry(new Stack(stack.node.root, 'There'), 'Third', { deadLetterQueue: shared }), {
    message:
      /deadLetterQueue must be in this stack, or a queue of your own: its policy names the handlers that send to it, got "Test\/Retry\/DeadLetterQueue"/,
  });
});
