import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_events as events,
  aws_events_targets as targets,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_sns as sns,
  aws_sqs as sqs,
  Stack,
} from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { aliasOf, errorOf, functionIn, idOf, TestStack, twoStacks } from './app';

/** A stack with a rule and targets, so far without retries of these. */
class RuleStack extends TestStack {
  public readonly orders = this.function('Orders');
  public readonly imports = new sqs.Queue(this, 'Imports', { queueName: 'imports' });
  public readonly rule: events.Rule;

  constructor(props: AsyncRetryProps = {}, rule: events.RuleProps = {}) {
    super(props);
    this.rule = new events.Rule(this, 'Placed', { eventPattern: { source: ['shop'] }, ...rule });
  }

  /** The dead-letter queue of each target of the rule, by what is the target. */
  public get deadLetterQueues(): { [target: string]: string | undefined } {
    const { Targets } = this.only('AWS::Events::Rule');
    return Object.fromEntries(
      Targets.map(({ Arn, DeadLetterConfig }: any) => [idOf(Arn), DeadLetterConfig && idOf(DeadLetterConfig.Arn)]),
    );
  }

  /** What EventBridge may send, and on behalf of what. */
  public get allowed(): any[] {
    return this.all('AWS::SQS::QueuePolicy')
      .flatMap(({ PolicyDocument }) => PolicyDocument.Statement)
      .filter(({ Principal, Resource }) => Principal.Service && idOf(Resource).startsWith('Retry'));
  }
}

test('events that a rule could not deliver go to the retry queue of the one target that missed them', () => {
  const stack = new RuleStack();
  const other = stack.function('Other');
  stack.rule.addTarget(new targets.LambdaFunction(other));
  stack.rule.addTarget(new targets.LambdaFunction(stack.orders));
  stack.retry.attachRule(stack.rule, stack.orders);
  stack.rule.addTarget(new targets.SqsQueue(stack.imports));
  assert.deepEqual(stack.deadLetterQueues, { Other: undefined, Orders: 'RetryRetryQueueOrders', Imports: undefined });
  assert.deepEqual(stack.json('QUEUE_TARGETS'), { RetryRetryQueueOrders: ['Orders'] });
  const [{ Action, Condition }, ...others] = stack.allowed;
  assert.equal(Action, 'sqs:SendMessage');
  assert.deepEqual(Condition, {
    ArnEquals: { 'aws:SourceArn': stack.resolve(stack.rule.ruleArn) },
    StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } },
  });
  assert.deepEqual(others, []);
  assert.deepEqual(stack.actionsOf(/HandlerRole/, /"Orders/), ['lambda:InvokeFunction']);
  assert.deepEqual(stack.warnings, []);
});

test('a function has one retry queue for its failures and for what rules could not deliver, in any order', () => {
  for (const isFirst of [true, false]) {
    const stack = new RuleStack({}, {});
    stack.rule.addTarget(new targets.LambdaFunction(stack.orders));
    const second = new events.Rule(stack, 'Second', { eventPattern: { source: ['shop'] } });
    second.addTarget(new targets.LambdaFunction(stack.orders));
    const attach = () => stack.retry.attach(stack.orders);
    if (isFirst) attach();
    stack.retry.attachRule(stack.rule, stack.orders);
    stack.retry.attachRule(second, stack.orders);
    if (!isFirst) attach();
    assert.deepEqual(stack.json('QUEUE_TARGETS'), { RetryRetryQueueOrders: ['Orders'] });
    // One statement for all rules, because a policy has 8 KB.
    const [{ Condition }, ...others] = stack.allowed;
    const arns = [stack.rule, second].map(({ ruleArn }) => stack.resolve(ruleArn));
    assert.deepEqual([Condition.ArnEquals['aws:SourceArn'], others], [arns, []]);
    const [invoked, ...more] = stack.statementsOf(/HandlerRole/).filter(({ Action }) => /Invoke/.test(String(Action)));
    assert.deepEqual([invoked.Resource.length, more], [2, []]);
  }
});

test('an alias is delivered to as itself, and functions that share a queue may all be named', () => {
  const stack = new RuleStack({ sharedQueue: true, onlyAttachedQualifiers: true });
  const live = aliasOf(stack.orders);
  stack.retry.attach(stack.function('Other'));
  stack.rule.addTarget(new targets.LambdaFunction(live));
  stack.retry.attachRule(stack.rule, live);
  assert.deepEqual(stack.json('QUEUE_TARGETS'), { RetryRetryQueue: ['Other', 'Orders'] });
  const [{ Resource }] = stack.statementsOf(/HandlerRole/).filter(({ Action }) => /Invoke/.test(String(Action)));
  assert.match(JSON.stringify(Resource), /Orders[^,]*","Arn"]},":live"/);
});

test('a queue has a retry queue of its own, from which the handler may send to it', () => {
  const stack = new RuleStack();
  const key = new kms.Key(stack, 'Key');
  const queue = new sqs.Queue(stack, 'Jobs', { encryptionMasterKey: key });
  stack.rule.addTarget(new targets.SqsQueue(queue));
  stack.retry.attachRule(stack.rule, queue);
  assert.deepEqual(stack.deadLetterQueues, { Jobs: 'RetryRetryQueueJobs' });
  assert.deepEqual(stack.json('QUEUE_TARGETS'), { RetryRetryQueueJobs: ['sqs:Jobs'] });
  assert.deepEqual(stack.actionsOf(/HandlerRole/, /"Jobs/), ['sqs:SendMessage']);
  assert.deepEqual(stack.actionsOf(/HandlerRole/, /"Key/), [['kms:Decrypt', 'kms:GenerateDataKey']]);
  const { RedriveAllowPolicy } = stack.only('AWS::SQS::Queue', /^RetryRetryQueueJobs/);
  assert.deepEqual(RedriveAllowPolicy, { redrivePermission: 'denyAll' });
});

test('a target that is only delivered to has the alarms of an attached one, once', () => {
  const alarmsOf = (attach: (stack: RuleStack) => void) => {
    const stack = new RuleStack();
    stack.rule.addTarget(new targets.LambdaFunction(stack.orders));
    attach(stack);
    return Object.keys(stack.template.findResources('AWS::CloudWatch::Alarm')).sort();
  };
  const attached = alarmsOf(({ retry, orders }) => {
    retry.attach(orders);
    retry.alarms();
  });
  for (const deliver of [
    ({ retry, rule, orders }: RuleStack) => {
      retry.attachRule(rule, orders);
      retry.alarms();
    },
    ({ retry, rule, orders }: RuleStack) => {
      retry.alarms();
      retry.attachRule(rule, orders);
      retry.attach(orders);
    },
  ])
    assert.deepEqual(alarmsOf(deliver), attached);
});

test('a rule whose target is an attached queue needs a name, because no resource could be created first', () => {
  for (const isFirst of [true, false]) {
    const nameless = new RuleStack();
    nameless.rule.addTarget(new targets.SqsQueue(nameless.imports));
    const attach = ({ retry, imports }: RuleStack) => retry.attachQueue(imports);
    if (isFirst) attach(nameless);
    nameless.retry.attachRule(nameless.rule, nameless.imports);
    if (!isFirst) attach(nameless);
    assert.match(
      errorOf(() => nameless.template),
      /Test\/Placed: must have a ruleName, or Test\/Imports must not be attached/,
    );
  }
  const named = new RuleStack({}, { ruleName: 'placed' });
  named.rule.addTarget(new targets.SqsQueue(named.imports));
  named.retry.attachQueue(named.imports);
  named.retry.attachRule(named.rule, named.imports);
  // Fails if there were a circle of references.
  const [{ Condition }] = named.allowed;
  assert.match(JSON.stringify(Condition.ArnEquals), /:rule\/placed"/);
  assert.deepEqual(named.json('QUEUE_TARGETS'), { RetryRetryQueueImports: ['sqs:imports'] });
});

test('the ARN of a named rule says on which bus it is', () => {
  const made = (stack: Stack) => new events.EventBus(stack, 'Bus', { eventBusName: 'shop' });
  const named = (stack: Stack) => events.EventBus.fromEventBusName(stack, 'Bus', 'mine');
  for (const [busIn, expected] of [
    [made, ':rule/","Bus","/placed"'],
    [named, ':rule/mine/placed"'],
  ] as const) {
    const stack = new RuleStack();
    const rule = new events.Rule(stack, 'Named', {
      ruleName: 'placed',
      eventBus: busIn(stack),
      eventPattern: { source: ['shop'] },
      targets: [new targets.LambdaFunction(stack.orders)],
    });
    stack.retry.attachRule(rule, stack.orders);
    const written = JSON.stringify(stack.allowed[0].Condition.ArnEquals).replace(/\{"Ref":"Bus[0-9A-F]+"\}/g, '"Bus"');
    assert.ok(written.includes(expected), written);
  }
});

test('EventBridge may use the key of the retry queues', () => {
  const stack = new TestStack();
  const retry = new AsyncRetry(stack, 'Encrypted', { encryptionKey: new kms.Key(stack, 'Key') });
  const orders = stack.function('Orders');
  for (const id of ['First', 'Second']) {
    const rule = new events.Rule(stack, id, { eventPattern: { source: [id] } });
    rule.addTarget(new targets.LambdaFunction(orders));
    retry.attachRule(rule, orders);
  }
  const { KeyPolicy } = stack.only('AWS::KMS::Key');
  const used = KeyPolicy.Statement.filter(({ Principal }: any) => Principal.Service === 'events.amazonaws.com');
  assert.deepEqual(
    used.map(({ Action, Condition }: any) => [Action, Condition]),
    [[['kms:Decrypt', 'kms:GenerateDataKey*'], { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } }]],
  );
});

test('a target that would be given something else than its event is refused, and the error says why', () => {
  const path = events.EventField.fromPath('$.detail');
  for (const [event, expected] of [
    [events.RuleTargetInput.fromObject({ a: 1 }), 'input: .*, got "{\\\\"a\\\\":1}"'],
    [events.RuleTargetInput.fromEventPath('$.detail'), 'inputPath: .*, got "\\$.detail"'],
    [events.RuleTargetInput.fromObject({ path }), 'inputTransformer: .*"inputPathsMap"'],
  ] as const) {
    const stack = new RuleStack();
    stack.rule.addTarget(new targets.LambdaFunction(stack.orders, { event }));
    const refused = errorOf(() => stack.retry.attachRule(stack.rule, stack.orders));
    assert.match(
      refused,
      new RegExp(`^AsyncRetry Test/Retry can't attach Test/Placed: its Target0 must have no ${expected}`),
    );

    // Added later, it is found at synthesis.
    const later = new RuleStack();
    later.rule.addTarget(new targets.LambdaFunction(later.orders));
    later.retry.attachRule(later.rule, later.orders);
    later.rule.addTarget(new targets.LambdaFunction(later.orders, { event }));
    assert.match(
      errorOf(() => later.template),
      new RegExp(`Test/Placed: its Target1 must have no ${expected}`),
    );
  }
});

test('what can never work is refused with all reasons', () => {
  const stack = new RuleStack();
  const fifo = new sqs.Queue(stack, 'Fifo', { fifo: true });
  const topic = new sns.Topic(stack, 'Topic');
  const own = new sqs.Queue(stack, 'Own');
  const far = lambda.Function.fromFunctionArn(stack, 'Far', 'arn:aws:lambda:us-west-2:111111111111:function:far');
  const here = new Stack(new App(), 'Here', { env: { account: '111111111111', region: 'us-east-1' } });
  const imported = events.Rule.fromEventRuleArn(stack, 'Imported', 'arn:aws:events:us-east-1:111111111111:rule/mine');
  stack.rule.addTarget(new targets.SqsQueue(fifo, { messageGroupId: 'all' }));
  stack.rule.addTarget(new targets.SqsQueue(own, { deadLetterQueue: stack.imports }));
  stack.rule.addTarget(new targets.SnsTopic(topic));
  const refusals: [() => void, RegExp][] = [
    [() => stack.retry.attachRule(imported, stack.orders), /it is imported, .*comeback attach --rule NAME$/],
    [() => stack.retry.attachRule(stack.rule, fifo), /its target Test\/Fifo is a FIFO queue/],
    [() => stack.retry.attachRule(stack.rule, topic), /must be a function or a standard queue, got Test\/Topic/],
    [() => stack.retry.attachRule(stack.rule, stack.orders), /Test\/Orders must be one of its targets: add it first/],
    [() => stack.retry.attachRule(stack.rule, own), /its Target1 has a dead-letter queue already/],
    [() => stack.retry.attachRule(stack.rule, stack.retry.handler), /its target is the retry handler itself/],
    [() => stack.retry.attachRule(stack.rule, stack.retry.deadLetterQueue), /is a retry queue or a dead-letter queue/],
    [
      () => new AsyncRetry(here, 'Retry').attachRule(new events.Rule(here, 'Rule', { schedule: DAILY }), far),
      /must be in the region of its retries, us-east-1, and is in us-west-2/,
    ],
  ];
  for (const [attach, expected] of refusals) assert.match(errorOf(attach), expected);
});

const DAILY = events.Schedule.expression('rate(1 day)');

test('a rule in another stack is refused, because each stack would need the other first', () => {
  const { functions, retries } = twoStacks();
  const orders = functionIn(functions, 'Orders');
  const rule = new events.Rule(functions, 'Rule', { schedule: DAILY, targets: [new targets.LambdaFunction(orders)] });
  assert.match(
    errorOf(() => new AsyncRetry(retries, 'Retry').attachRule(rule, orders)),
    /it must be in the stack of its retries, Retries, and is in Functions/,
  );
  // The function may be in another one.
  const here = new events.Rule(retries, 'Here', { schedule: DAILY, targets: [new targets.LambdaFunction(orders)] });
  new AsyncRetry(retries, 'Retries').attachRule(here, orders);
  const [{ Properties }] = Object.values(Template.fromStack(retries).findResources('AWS::Events::Rule'));
  assert.match(JSON.stringify(Properties.Targets[0].DeadLetterConfig.Arn), /RetriesRetryQueueOrders/);
});
