import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_cloudwatch as cloudwatch,
  aws_cloudwatch_actions as actions,
  aws_iam as iam,
  aws_lambda as lambda,
  aws_sns as sns,
  Duration,
  Stack,
} from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AsyncRetryProps, RetryMetricOptions } from '../lib';
import { complaint, TestStack, withOrders } from './app';

/** A logical id without the hashes of the CDK and of this package. */
function withoutHashes(id: string): string {
  return id.slice(0, -8).replace(/[0-9a-f]{8}$/, '');
}

/** The metric, its owner, the threshold and the periods (if more than one) of every alarm. */
function alarmsOf(stack: TestStack): string[] {
  return Object.values(stack.template.findResources('AWS::CloudWatch::Alarm')).map(({ Properties: alarm }) => {
    assert.equal(alarm.ComparisonOperator, 'GreaterThanThreshold');
    assert.equal(alarm.TreatMissingData, 'notBreaching');
    if (alarm.Metrics) {
      const [{ Expression, Period }, ...others] = alarm.Metrics;
      assert.deepEqual([Period, others], [300, []]);
      return `${Expression} > ${alarm.Threshold}`;
    }
    assert.equal(alarm.Period, 300);
    const [{ Name, Value }] = alarm.Dimensions;
    const whose = withoutHashes(Value.Ref ?? Value['Fn::GetAtt'][0]);
    const { EvaluationPeriods: all, DatapointsToAlarm: above = all } = alarm;
    const duration = all === 1 ? '' : ` for ${above === all ? '' : `${above} of `}${all} periods`;
    return `${alarm.Namespace} ${alarm.MetricName} ${alarm.Statistic ?? alarm.ExtendedStatistic} > ${alarm.Threshold} of ${Name} ${whose}${duration}`;
  });
}

/** The metric, its owner and the label of every line, by the titles of the dashboard's graphs. */
function linesOf(stack: TestStack): { [title: string]: string[] } {
  const [, parts] = stack.only('AWS::CloudWatch::Dashboard').DashboardBody['Fn::Join'];
  const body = parts
    .map((part: any) => (typeof part === 'string' ? part : withoutHashes(part.Ref ?? part['Fn::GetAtt'][0])))
    .join('');
  return Object.fromEntries(
    JSON.parse(body).widgets.map(({ properties: { title, metrics } }: any) => [
      title,
      metrics.map(([namespace, name, ...rest]: any) => {
        const { label, stat = 'Average' } = typeof rest.at(-1) === 'object' ? rest.pop() : {};
        const whose = rest.filter((_: string, index: number) => index % 2 === 1).join(' in ');
        return `${namespace} ${name} ${stat} of ${whose}${label ? `: ${label}` : ''}`;
      }),
    ]),
  );
}

const OF_SYSTEM = [
  'SELECT SUM(DeadLettersNotSent) FROM SCHEMA(Comeback, Target) > 0',
  'AWS/SQS ApproximateNumberOfMessagesVisible Maximum > 0 of QueueName RetryDeadLetterQueue',
  'AWS/Lambda Errors Sum > 0 of FunctionName RetryHandler',
  'AWS/Lambda Throttles Sum > 0 of FunctionName RetryHandler',
  'AWS/Lambda RecursiveInvocationsDropped Sum > 0 of FunctionName RetryHandler',
];

const ofQueue = (name: string) =>
  `AWS/SQS ApproximateNumberOfMessagesVisible Minimum > 0 of QueueName ${name} for 3 periods`;

const ofFunction = (name: string) => [
  `AWS/Lambda DestinationDeliveryFailures Sum > 0 of FunctionName ${name}`,
  `AWS/Lambda RecursiveInvocationsDropped Sum > 0 of FunctionName ${name}`,
  `Comeback ConfigurationFaults Sum > 0 of Target ${name}`,
  `Comeback InvokeLateness p99 > 300000 of Target ${name}`,
];

test('there is an alarm for everything that needs a person, for functions attached before and after', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Before'));
  stack.retry.alarms();
  const after = stack.function('After');
  stack.retry.attach(after);
  stack.retry.attach(after.currentVersion);
  const ofEach = ['Before', 'After'].flatMap((id) => [...ofFunction(id), ofQueue(`RetryRetryQueue${id}`)]);
  assert.deepEqual(alarmsOf(stack).sort(), [...OF_SYSTEM, ...ofEach].sort());
});

test('a shared queue has one alarm, and so has the queue of redrives', () => {
  const alarmsOfQueues = (props: AsyncRetryProps) => {
    const stack = new TestStack(props);
    stack.retry.alarms();
    for (const id of ['Orders', 'Payments']) stack.retry.attach(stack.function(id));
    stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
    return alarmsOf(stack).filter((alarm) => / Minimum /.test(alarm));
  };
  assert.deepEqual(alarmsOfQueues({ sharedQueue: true }), [ofQueue('RetryRetryQueue')]);
  assert.deepEqual(
    alarmsOfQueues({}).sort(),
    ['RetryRedriveQueue', 'RetryRetryQueueOrders', 'RetryRetryQueuePayments'].map(ofQueue),
  );
});

test('a ledger has an alarm for each function', () => {
  const stack = withOrders({ ledger: true });
  stack.retry.alarms();
  assert.ok(alarmsOf(stack).includes('Comeback LedgerFaults Sum > 0 of Target Orders'));
});

test('probes have an alarm for each function', () => {
  const stack = withOrders({ ledger: true, probe: true });
  stack.retry.alarms();
  assert.ok(alarmsOf(stack).includes('Comeback CircuitOpen Maximum > 0 of Target Orders for 1 of 4 periods'));
});

test('every alarm says what to do, and has the given actions', () => {
  const stack = new TestStack({ ledger: true, probe: true });
  stack.retry.attach(stack.function('Orders'));
  const topic = new sns.Topic(stack, 'Topic');
  const alarms = stack.retry.alarms({ actions: [new actions.SnsAction(topic)] });
  // The others are those of the queue, of the ledger and of probes.
  assert.equal(alarms.length, OF_SYSTEM.length + ofFunction('Orders').length + 3);
  for (const { Properties } of Object.values(stack.template.findResources('AWS::CloudWatch::Alarm'))) {
    assert.deepEqual(Properties.AlarmActions, [stack.resolve(topic.topicArn)]);
    assert.match(
      Properties.AlarmDescription,
      /\b(check|fix|look|raise|set|the errors in the handler's log say)\b/i,
      Properties.MetricName,
    );
    assert.ok(Properties.AlarmDescription.length <= 1024);
  }
});

test('a resource shared by several AsyncRetry has one alarm for each set of actions', () => {
  const pagedBy = (build: (stack: TestStack, second: AsyncRetry, one: sns.Topic, other: sns.Topic) => void) => {
    const stack = new TestStack();
    const second = new AsyncRetry(stack, 'Second', { deadLetterQueue: stack.retry.deadLetterQueue });
    build(stack, second, new sns.Topic(stack, 'One'), new sns.Topic(stack, 'Other'));
    const alarms = Object.entries(stack.template.findResources('AWS::CloudWatch::Alarm'));
    return ['DeadLetters', 'DeadLettersNotSent'].map(
      (id) => alarms.filter(([name]) => new RegExp(`Alarms${id}[0-9A-F]{8}$`).test(name)).length,
    );
  };
  assert.deepEqual(
    pagedBy((stack, second, one) => {
      stack.retry.alarms({ actions: [new actions.SnsAction(one)] });
      second.alarms({ actions: [new actions.SnsAction(one)] });
    }),
    [1, 1],
  );
  assert.deepEqual(
    pagedBy((stack, second) => {
      stack.retry.alarms();
      second.alarms();
    }),
    [1, 1],
  );
  assert.deepEqual(
    pagedBy((stack, second, one, other) => {
      stack.retry.alarms({ actions: [new actions.SnsAction(one)] });
      second.alarms({ actions: [new actions.SnsAction(other)] });
    }),
    [2, 2],
  );
  assert.deepEqual(
    pagedBy((stack, second, one) => {
      stack.retry.alarms();
      second.alarms({ actions: [new actions.SnsAction(one)] });
    }),
    [2, 2],
  );
});

test('each dead-letter queue has an alarm, and unsent dead letters have one in each region', () => {
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
    ['Events were given up', 'A retry handler in this region'].map(
      (description) =>
        Object.keys(
          Template.fromStack(stack).findResources('AWS::CloudWatch::Alarm', {
            Properties: { AlarmDescription: Match.stringLikeRegexp(description) },
          }),
        ).length,
    ),
  );
  assert.deepEqual(counts, [
    [2, 1],
    [1, 1],
  ]);
});

test('the threshold of lateness can be set within its range', () => {
  assert.equal(
    complaint(() => new TestStack().retry.alarms({ lateness: Duration.seconds(0) })),
    'the alarms of AsyncRetry Test/Retry: lateness must be from 1s to 14d, got "0 seconds"',
  );
  const stack = withOrders();
  stack.retry.alarms({ lateness: Duration.seconds(90) });
  assert.match(alarmsOf(stack).join('\n'), /InvokeLateness p99 > 90000 of/);
});

test('the dashboard shows the queues, the handler and every function', () => {
  const stack = new TestStack({ ledger: true, register: true, probe: true });
  stack.retry.attach(stack.function('Before'));
  stack.retry.dashboard({ dashboardName: 'retries' });
  stack.retry.attach(stack.function('After'));
  assert.equal(stack.only('AWS::CloudWatch::Dashboard').DashboardName, 'retries');
  const each = (line: (name: string) => string[]) => ['Before', 'After'].flatMap(line);
  assert.deepEqual(linesOf(stack), {
    'What became of failed events': each((name) => [
      `Comeback Waited Sum of ${name}: ${name} waited`,
      `Comeback Invoked Sum of ${name}: ${name} re-invoked`,
      `Comeback DeadLettered Sum of ${name}: ${name} given up`,
      `Comeback DeadLettered Sum of cancelled in ${name}: ${name} cancelled`,
      `Comeback Probes Sum of ${name}: ${name} probed`,
      `Comeback BroughtForward Sum of ${name}: ${name} brought forward`,
    ]),
    'Messages in the queues': [
      'AWS/SQS ApproximateNumberOfMessagesVisible Maximum of RetryDeadLetterQueue: dead letters',
      ...each((name) => [
        `AWS/SQS ApproximateNumberOfMessagesNotVisible Maximum of RetryRetryQueue${name}: ${name} waiting`,
        `AWS/SQS ApproximateNumberOfMessagesDelayed Maximum of RetryRetryQueue${name}: ${name} delayed`,
        `AWS/SQS ApproximateNumberOfMessagesVisible Maximum of RetryRetryQueue${name}: ${name} due`,
      ]),
    ],
    'Lateness of retries in ms, p99': each((name) => [`Comeback InvokeLateness p99 of ${name}: ${name}`]),
    'Age of events in seconds, maximum': each((name) => [`Comeback EventAge Maximum of ${name}: ${name}`]),
    'What a person has to fix': each((name) => [
      `Comeback ConfigurationFaults Sum of ${name}: ${name} configuration`,
      `Comeback DeadLettersNotSent Sum of ${name}: ${name} dead letters not sent`,
      `Comeback Throttled Sum of ${name}: ${name} throttled`,
      `AWS/Lambda DestinationDeliveryFailures Sum of ${name}: ${name} not delivered`,
      `AWS/Lambda RecursiveInvocationsDropped Sum of ${name}: ${name} taken for a loop`,
      `Comeback LedgerFaults Sum of ${name}: ${name} ledger`,
      `Comeback CircuitOpen Maximum of ${name}: ${name} down`,
    ]),
    'The retry handler': [
      'AWS/Lambda Invocations Sum of RetryHandler',
      'AWS/Lambda Errors Sum of RetryHandler',
      'AWS/Lambda Throttles Sum of RetryHandler',
      'AWS/Lambda Duration p99 of RetryHandler',
    ],
  });
});

test('the dashboard names no function at a shared queue, and shows only what there is', () => {
  const stack = new TestStack({ sharedQueue: true });
  stack.retry.attach(stack.function('Orders'));
  stack.retry.dashboard();
  const lines = linesOf(stack);
  assert.match(lines['Messages in the queues'][1], /: waiting$/);
  assert.doesNotMatch(Object.values(lines).flat().join(), /ledger|cancelled|probed|brought forward|down/);
});

test('a metric is of one function, or of all together', () => {
  const stack = new TestStack();
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  stack.retry.attach(orders);
  const of = (metric: cloudwatch.IMetric) => metric.toMetricConfig();
  assert.deepEqual(
    of(stack.retry.metricDeadLettered()).metricStat,
    of(stack.retry.metricDeadLettered({ target: orders })).metricStat,
  );
  stack.retry.attach(payments);
  const together = of(
    stack.retry.metricDeadLettered({
      period: Duration.minutes(1),
      color: '#d62728',
      dimensionsMap: { Reason: 'not_retryable' },
    }),
  );
  assert.equal(together.mathExpression?.expression, 'SUM([deadLettered0,deadLettered1])');
  assert.equal(together.mathExpression?.period, 60);
  assert.deepEqual(
    Object.values(together.mathExpression?.usingMetrics ?? {}).map((each) => of(each).metricStat?.dimensions),
    [
      [
        { name: 'Reason', value: 'not_retryable' },
        { name: 'Target', value: orders.functionName },
      ],
      [
        { name: 'Reason', value: 'not_retryable' },
        { name: 'Target', value: payments.functionName },
      ],
    ],
  );
  assert.deepEqual(together.renderingProperties, { label: 'DeadLettered', color: '#d62728' });
  const share = new cloudwatch.MathExpression({
    expression: 'dead / invoked',
    usingMetrics: { dead: stack.retry.metricDeadLettered(), invoked: stack.retry.metricInvoked() },
  });
  new cloudwatch.Dashboard(stack, 'Own').addWidgets(
    new cloudwatch.GraphWidget({ left: [share, stack.retry.metricWaited()] }),
  );
  const counts = [
    'Waited',
    'Invoked',
    'DeadLettered',
    'Throttled',
    'ConfigurationFaults',
    'DeadLettersNotSent',
    'LedgerFaults',
    'Duplicates',
    'Probes',
    'BroughtForward',
  ];
  const expected = [
    ...counts.map((name) => [name, 'Sum', 'SUM']),
    ['InvokeLateness', 'p99', 'MAX'],
    ['EventAge', 'Maximum', 'MAX'],
    ['CircuitOpen', 'Maximum', 'MAX'],
  ];
  for (const [name, statistic, together] of expected) {
    const metric = (options: RetryMetricOptions = {}) => of((stack.retry as any)[`metric${name}`](options));
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
  const alias = new lambda.Alias(stack, 'Live', {
    aliasName: 'live',
    version: stack.function('Orders').currentVersion,
  });
  stack.retry.attach(alias);
  const [{ value }] = stack.retry.metricWaited({ target: alias }).toMetricConfig().metricStat?.dimensions ?? [];
  assert.equal(value, alias.lambda.functionName);
});

test('functions that are not attached have no metrics', () => {
  const stack = new TestStack();
  assert.match(
    complaint(() => stack.retry.metricWaited()),
    /AsyncRetry Test\/Retry has no metric Waited of its functions: attach first/,
  );
  assert.match(
    complaint(() => stack.retry.metricWaited({ target: stack.function('Orders') })),
    /has no metric Waited of Test\/Orders/,
  );
});

test('alarms and the dashboard are made only once', () => {
  const { retry } = new TestStack();
  retry.alarms();
  retry.dashboard();
  assert.equal(
    complaint(() => retry.alarms()),
    'AsyncRetry Test/Retry: alarms() was called before',
  );
  assert.equal(
    complaint(() => retry.dashboard()),
    'AsyncRetry Test/Retry: dashboard() was called before',
  );
});
