import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_cloudwatch as cloudwatch,
  aws_cloudwatch_actions as actions,
  aws_iam as iam,
  aws_sns as sns,
  aws_sqs as sqs,
  Duration,
  Stack,
} from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { AlarmSettings, AlarmSeverity, AlarmsProps, AsyncRetry, AsyncRetryProps, RetryMetricOptions } from '../lib';
import { read } from '../lib/contract';
import { ALARMS } from '../lib/triggers';
import { aliasOf, EVERYTHING_ON, idOf, TestStack, withOrders } from './app';

/** The properties of all alarms, by the names of the alarms, of which each function and each queue has one. */
function alarmsOf(stack: TestStack): { [name: string]: any[] } {
  const found: { [name: string]: any[] } = {};
  for (const alarm of stack.all('AWS::CloudWatch::Alarm')) {
    const [name = ''] = ALARMS.filter((each) => alarm.AlarmDescription.endsWith(`#${each.toLowerCase()}`));
    found[name] = [...(found[name] ?? []), alarm];
  }
  return found;
}

/** How many alarms there are of each name. */
function countsOf(stack: TestStack): { [name: string]: number } {
  return Object.fromEntries(Object.entries(alarmsOf(stack)).map(([name, all]) => [name, all.length]));
}

/** The alarms of the contract, and how many there must be with this many functions, each with a queue of its own. */
const CONTRACT: { [name: string]: { of: string; severity: string; only_with?: string } } = read('alarms');
const expectedOf = (functions: number, options: string[] = []) =>
  Object.fromEntries(
    Object.entries(CONTRACT)
      .filter(([, { only_with }]) => only_with === undefined || options.includes(only_with))
      .map(([name, { of }]) => [name, ['queue', 'target', 'function'].includes(of) ? functions : 1]),
  );

/** The lines of the dashboard's graphs, without logical ids and numbers. */
function linesOf(stack: TestStack): string[] {
  const [, parts] = stack.only('AWS::CloudWatch::Dashboard').DashboardBody['Fn::Join'];
  const body = parts.map((part: any) => (typeof part === 'string' ? part : idOf(part))).join('');
  const graphs = JSON.parse(body).widgets.filter(({ type }: any) => type === 'metric');
  return graphs.flatMap(({ properties: { title, metrics } }: any) =>
    metrics.map((line: any) => `${title}: ${JSON.stringify(line)}`.replace(/\d+/g, '#')),
  );
}

test('there is an alarm for each condition that needs a person, for functions attached before and after', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Before'));
  stack.retry.alarms();
  const after = stack.function('After');
  stack.retry.attach(after);
  stack.retry.attach(after.currentVersion);
  assert.deepEqual(countsOf(stack), expectedOf(2));
});

test('a shared queue has its alarms once, and so has the queue for redrives', () => {
  const alarmsOfQueues = (props: AsyncRetryProps) => {
    const stack = new TestStack(props);
    stack.retry.alarms();
    for (const id of ['Orders', 'Payments']) stack.retry.attach(stack.function(id));
    stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
    const { UnreadMessages, Backlog } = countsOf(stack);
    return [UnreadMessages, Backlog];
  };
  assert.deepEqual(alarmsOfQueues({ sharedQueue: true }), [1, 1]);
  assert.deepEqual(alarmsOfQueues({}), [3, 3]);
});

test('an alarm that needs something to be switched on is made only with it', () => {
  for (const on of [[], ['ledger'], ['ledger', 'probe'], ['ledger', 'register'], ['ledger', 'probe', 'register']]) {
    const stack = withOrders(Object.fromEntries(on.map((each) => [each, true])));
    stack.retry.alarms();
    assert.deepEqual(countsOf(stack), expectedOf(1, on), `${on}`);
  }
});

/** The properties of alarms by the last part of their path. */
function byName(stack: TestStack, alarms: cloudwatch.Alarm[]): { [name: string]: any } {
  const resources = stack.template.findResources('AWS::CloudWatch::Alarm');
  const propertiesOf = (alarm: cloudwatch.Alarm) =>
    resources[stack.getLogicalId(alarm.node.defaultChild as cloudwatch.CfnAlarm)].Properties;
  return Object.fromEntries(alarms.map((alarm) => [alarm.node.id, propertiesOf(alarm)]));
}

test('every alarm says what to do and names its runbook section, and has the actions of its severity', () => {
  const stack = new TestStack(EVERYTHING_ON);
  stack.retry.attach(stack.function('Orders'));
  const [pager, mail] = ['Pager', 'Mail'].map((id) => new sns.Topic(stack, id));
  const made = byName(
    stack,
    stack.retry.alarms({
      actions: [new actions.SnsAction(pager)],
      ticketActions: [new actions.SnsAction(mail)],
      settings: { HandlerErrors: { severity: AlarmSeverity.TICKET } },
    }),
  );
  const tickets = Object.keys(CONTRACT).filter((name) => CONTRACT[name].severity === 'ticket');
  tickets.push('HandlerErrors');
  for (const [name, { AlarmActions, OKActions, AlarmDescription }] of Object.entries(made)) {
    const topic = tickets.includes(name) ? mail : pager;
    assert.deepEqual([AlarmActions, OKActions], Array(2).fill([stack.resolve(topic.topicArn)]), name);
    assert.match(AlarmDescription, /\b(check|fix|look|raise|set|the errors in the handler's log say)\b/i, name);
    assert.ok(AlarmDescription.endsWith(` Runbook: docs/runbook.md#${name.toLowerCase()}`), name);
    assert.ok(AlarmDescription.length <= 1024, name);
  }
});

test('without actions for tickets, all alarms have the same actions', () => {
  const stack = withOrders();
  const topic = new sns.Topic(stack, 'Topic');
  const made = byName(stack, stack.retry.alarms({ actions: [new actions.SnsAction(topic)] }));
  for (const [name, { AlarmActions }] of Object.entries(made))
    assert.deepEqual(AlarmActions, [stack.resolve(topic.topicArn)], name);
});

test('a resource shared by several AsyncRetry has one alarm for each set of actions', () => {
  type Options = (one: sns.Topic, other: sns.Topic) => AlarmsProps;
  const to = (topic: sns.Topic) => [new actions.SnsAction(topic)];
  const cases: [Options, Options, number[]][] = [
    [(one) => ({ actions: to(one) }), (one) => ({ actions: to(one) }), [1, 1, 1, 1, 1]],
    [() => ({}), () => ({}), [1, 1, 1, 1, 1]],
    [(one) => ({ actions: to(one) }), (_, other) => ({ actions: to(other) }), [2, 2, 2, 2, 2]],
    [() => ({}), (one) => ({ actions: to(one) }), [2, 2, 2, 2, 2]],
    // Only alarms that differ, and alarms that are switched off here.
    [
      () => ({ settings: { DeadLettersGrow: { enabled: false }, DeadLetters: { threshold: 5 } } }),
      () => ({}),
      [2, 1, 1, 1, 1],
    ],
    // Tickets go elsewhere, pages to the same topic.
    [
      (one) => ({ actions: to(one) }),
      (one, other) => ({ actions: to(one), ticketActions: to(other) }),
      [2, 2, 1, 1, 1],
    ],
  ];
  for (const [ofFirst, ofSecond, expected] of cases) {
    const stack = new TestStack();
    const second = new AsyncRetry(stack, 'Second', { deadLetterQueue: stack.retry.deadLetterQueue });
    const [one, other] = ['One', 'Other'].map((id) => new sns.Topic(stack, id));
    stack.retry.alarms(ofFirst(one, other));
    second.alarms(ofSecond(one, other));
    const ids = Object.keys(stack.template.findResources('AWS::CloudWatch::Alarm'));
    const counts = ['DeadLetters', 'DeadLettersGrow', 'DeadLettersExpire', 'DeadLettersNotSent', 'EventsGivenUp'].map(
      (name) => ids.filter((id) => new RegExp(`Alarms${name}[0-9A-F]{8}$`).test(id)).length,
    );
    assert.deepEqual(counts, expected);
  }
});

test('each dead-letter queue has its alarms, and each region has one alarm per query', () => {
  const app = new App();
  const [here, there] = ['eu-west-1', 'us-east-1'].map(
    (region) => new Stack(app, region, { env: { account: '123456789012', region } }),
  );
  for (const [stack, id] of [
    [here, 'First'],
    [here, 'Second'],
    [there, 'Third'],
  ] as const)
    new AsyncRetry(stack, id).alarms();
  const counts = [here, there].map((stack) =>
    ['Events were given up', 'in this region'].map(
      (description) =>
        Object.keys(
          Template.fromStack(stack).findResources('AWS::CloudWatch::Alarm', {
            Properties: { AlarmDescription: Match.stringLikeRegexp(description) },
          }),
        ).length,
    ),
  );
  assert.deepEqual(counts, [
    [2, 2],
    [1, 2],
  ]);
});

test('each alarm can be set, and switched off', () => {
  const changed = { threshold: 7, period: Duration.minutes(10), evaluationPeriods: 5, datapointsToAlarm: 2 };
  for (const name of ALARMS) {
    const with_ = (settings: AlarmSettings) => {
      const stack = withOrders(EVERYTHING_ON);
      stack.retry.alarms({ settings: { [name]: settings } });
      return alarmsOf(stack);
    };
    assert.equal(with_({ enabled: false })[name], undefined);
    const [own] = with_(changed)[name];
    const { Threshold, Period, Metrics = [], EvaluationPeriods, DatapointsToAlarm } = own;
    const periods = [Period, ...Metrics.map((each: any) => each.Period ?? each.MetricStat?.Period)].filter(Boolean);
    assert.deepEqual([Threshold, EvaluationPeriods, DatapointsToAlarm, ...new Set(periods)], [7, 5, 2, 600], name);
  }
});

test('settings that CloudWatch would refuse are an error that names the settings', () => {
  const periods = Duration.hours(2);
  assert.throws(
    () =>
      new TestStack().retry.alarms({
        settings: {
          Latenes: {},
          Backlog: { period: Duration.seconds(90) },
          EventsExpire: { period: periods, evaluationPeriods: 85 },
          DeadLetters: { evaluationPeriods: 2, datapointsToAlarm: 3 },
          Lateness: { period: periods, evaluationPeriods: 84 },
        },
      }),
    {
      message:
        'the alarms of AsyncRetry Test/Retry: ' +
        [
          `settings must be of ${ALARMS.join(', ')}, got "Latenes"`,
          'Backlog.period must be 10s, 30s, or whole minutes up to 1d, got "1 minute 30 seconds"',
          'EventsExpire.evaluationPeriods must be at most 84 periods of 2 hours, got 85',
          'DeadLetters.datapointsToAlarm must be a whole number from 1 to 2, got 3',
        ].join('; '),
    },
  );
});

test('EventsExpire depends on the maximum age of its function', () => {
  const stack = new TestStack({ maxAge: Duration.days(7), inFlightMax: 20_000 });
  stack.retry.attach(stack.function('Orders'), { maxAge: Duration.hours(1) });
  stack.retry.attach(stack.function('Payments'));
  stack.retry.alarms();
  const { EventsExpire, Backlog } = alarmsOf(stack);
  assert.deepEqual(
    EventsExpire.map(({ Metrics: [{ Expression }] }) => Expression),
    ['100 * age / 3600', '100 * age / 604800'],
  );
  assert.match(Backlog[0].Metrics[0].Expression, /\/ 20000$/);
});

test('DeadLettersExpire goes off sooner for a queue with a shorter retention', () => {
  const stack = new TestStack();
  for (const [id, retentionPeriod] of [
    ['Week', Duration.days(7)],
    ['Default', undefined],
  ] as const) {
    const deadLetterQueue = new sqs.Queue(stack, id, { retentionPeriod });
    new AsyncRetry(stack, `${id}Retry`, { deadLetterQueue }).alarms();
  }
  const thresholds = alarmsOf(stack).DeadLettersExpire.map(({ Threshold }) => Threshold);
  assert.deepEqual(thresholds, [432_000, 246_857]);
});

test('the dashboard shows every function in the same way, whether it is attached before or after', () => {
  const stack = new TestStack({ ledger: true, register: true, probe: true });
  stack.retry.attach(stack.function('Before'));
  stack.retry.dashboard({ dashboardName: 'retries' });
  stack.retry.attach(stack.function('After'));
  assert.equal(stack.only('AWS::CloudWatch::Dashboard').DashboardName, 'retries');
  const lines = linesOf(stack);
  const [before, after] = ['Before', 'After'].map((id) =>
    lines.filter((line) => line.includes(id)).map((line) => line.replaceAll(id, 'ID')),
  );
  assert.ok(before.length > 20, String(before.length));
  assert.deepEqual(before, after);
});

test('the dashboard names no function for a shared queue, and has no lines for unused options', () => {
  const stack = new TestStack({ sharedQueue: true });
  stack.retry.attach(stack.function('Orders'));
  stack.retry.dashboard();
  const lines = linesOf(stack);
  assert.ok(lines.some((line) => /^Messages in the retry queues: .*"label":"waiting"/.test(line)));
  assert.doesNotMatch(lines.join(), /ledger|probed|brought forward|CircuitOpen/i);
});

test('a metric covers one function, or all together', () => {
  const stack = new TestStack();
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  stack.retry.attach(orders);
  const of = (metric: cloudwatch.IMetric) => metric.toMetricConfig();
  const ofOrders = stack.retry.metricDeadLettered({ target: orders });
  assert.deepEqual(of(stack.retry.metricDeadLettered()).metricStat, of(ofOrders).metricStat);
  stack.retry.attach(payments);
  const { mathExpression, renderingProperties } = of(
    stack.retry.metricDeadLettered({
      period: Duration.minutes(1),
      color: '#d62728',
      dimensionsMap: { Reason: 'not_retryable' },
    }),
  );
  assert.equal(mathExpression?.expression, 'SUM([deadLettered0,deadLettered1])');
  assert.equal(mathExpression?.period, 60);
  assert.deepEqual(
    Object.values(mathExpression?.usingMetrics ?? {}).map((each) => of(each).metricStat?.dimensions),
    [orders, payments].map(({ functionName }) => [
      { name: 'Reason', value: 'not_retryable' },
      { name: 'Target', value: functionName },
    ]),
  );
  assert.deepEqual(renderingProperties, { label: 'DeadLettered', color: '#d62728' });
  const share = new cloudwatch.MathExpression({
    expression: 'dead / invoked',
    usingMetrics: { dead: stack.retry.metricDeadLettered(), invoked: stack.retry.metricInvoked() },
  });
  new cloudwatch.Dashboard(stack, 'Own').addWidgets(
    new cloudwatch.GraphWidget({ left: [share, stack.retry.metricWaited()] }),
  );
});

const COUNTS =
  'Waited Invoked DeadLettered Throttled ConfigurationFaults DeadLettersNotSent LedgerFaults Duplicates Probes BroughtForward';

test('each metric has a method and a statistic, for one function and for all', () => {
  const stack = new TestStack();
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  for (const each of [orders, payments]) stack.retry.attach(each);
  for (const [name, statistic, together] of [
    ...COUNTS.split(' ').map((count) => [count, 'Sum', 'SUM']),
    ['InvokeLateness', 'p99', 'MAX'],
    ['EventAge', 'Maximum', 'MAX'],
    ['CircuitOpen', 'Maximum', 'MAX'],
  ]) {
    const metric = (options: RetryMetricOptions = {}): cloudwatch.MetricConfig =>
      (stack.retry as any)[`metric${name}`](options).toMetricConfig();
    const { metricStat } = metric({ target: orders });
    assert.deepEqual(
      [metricStat?.namespace, metricStat?.metricName, metricStat?.statistic],
      ['Comeback', name, statistic],
    );
    assert.ok(metric().mathExpression?.expression.startsWith(`${together}([`), name);
  }
});

test('an alias has the metrics of its function', () => {
  const stack = new TestStack();
  const alias = aliasOf(stack.function('Orders'));
  stack.retry.attach(alias);
  const [{ value }] = stack.retry.metricWaited({ target: alias }).toMetricConfig().metricStat?.dimensions ?? [];
  assert.equal(value, alias.lambda.functionName);
});

test('functions that are not attached have no metrics', () => {
  const stack = new TestStack();
  assert.throws(() => stack.retry.metricWaited(), {
    message: /AsyncRetry Test\/Retry has no metric Waited of its functions: attach first/,
  });
  assert.throws(() => stack.retry.metricWaited({ target: stack.function('Orders') }), {
    message: /has no metric Waited of Test\/Orders/,
  });
});

test('alarms and the dashboard can be created only once', () => {
  const { retry } = new TestStack();
  retry.alarms();
  retry.dashboard();
  assert.throws(() => retry.alarms(), { message: 'AsyncRetry Test/Retry: alarms() was called before' });
  assert.throws(() => retry.dashboard(), { message: 'AsyncRetry Test/Retry: dashboard() was called before' });
});
