import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_cloudwatch as cloudwatch,
  aws_cloudwatch_actions as actions,
  aws_lambda as lambda,
  aws_sns as sns,
  Duration,
  Stack,
} from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { AlarmsProps, AsyncRetry, AsyncRetryProps, RetryMetricOptions } from '../lib';
import { complaint, TestStack } from './app';

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
    const whose = (Value.Ref ?? Value['Fn::GetAtt'][0]).slice(0, -8);
    const duration = alarm.EvaluationPeriods === 1 ? '' : ` for ${alarm.EvaluationPeriods} periods`;
    return `${alarm.Namespace} ${alarm.MetricName} ${alarm.Statistic ?? alarm.ExtendedStatistic} > ${alarm.Threshold} of ${Name} ${whose}${duration}`;
  });
}

/** The metric, its owner and the label of every line, by the titles of the dashboard's graphs. */
function linesOf(stack: TestStack): { [title: string]: string[] } {
  const [, parts] = stack.only('AWS::CloudWatch::Dashboard').DashboardBody['Fn::Join'];
  const body = parts
    .map((part: any) =>
      typeof part === 'string' ? part : (part.Ref ?? part['Fn::GetAtt'][0]).replace(/[0-9A-F]{8}$/, ''),
    )
    .join('');
  return Object.fromEntries(
    JSON.parse(body).widgets.map(({ properties: { title, metrics } }: any) => [
      title,
      metrics.map(
        ([namespace, name, , whose, { label, stat = 'Average' } = {} as any]: any) =>
          `${namespace} ${name} ${stat} of ${whose}${label ? `: ${label}` : ''}`,
      ),
    ]),
  );
}

const OF_SYSTEM = [
  'SELECT SUM(DeadLettersNotSent) FROM SCHEMA(Comeback, Target) > 0',
  'AWS/SQS ApproximateNumberOfMessagesVisible Maximum > 0 of QueueName RetryDeadLetterQueue',
  'AWS/SQS ApproximateAgeOfOldestMessage Maximum > 46800 of QueueName RetryRetryQueue',
  'AWS/SQS ApproximateNumberOfMessagesVisible Minimum > 0 of QueueName RetryRetryQueue for 3 periods',
  'AWS/SQS ApproximateNumberOfMessagesNotVisible Maximum > 96000 of QueueName RetryRetryQueue',
  'AWS/Lambda Errors Sum > 0 of FunctionName RetryHandler',
  'AWS/Lambda Throttles Sum > 0 of FunctionName RetryHandler',
  'AWS/Lambda RecursiveInvocationsDropped Sum > 0 of FunctionName RetryHandler',
];

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
  assert.deepEqual(alarmsOf(stack).sort(), [...OF_SYSTEM, ...ofFunction('Before'), ...ofFunction('After')].sort());
});

test('a ledger has an alarm for each function, and each parallel queue has its own', () => {
  const stack = new TestStack({ ledger: true, parallelQueues: 2 });
  stack.retry.attach(stack.function('Orders'));
  stack.retry.alarms();
  const alarms = alarmsOf(stack);
  assert.ok(alarms.includes('Comeback LedgerFaults Sum > 0 of Target Orders'));
  assert.ok(
    alarms.includes('AWS/SQS ApproximateNumberOfMessagesNotVisible Maximum > 96000 of QueueName RetryRetryQueue2'),
  );
  assert.match(
    stack.only('AWS::CloudWatch::Alarm', /WaitingEvents2/).Dimensions[0].Value['Fn::GetAtt'][0],
    /^RetryRetryQueue2/,
  );
});

test('every alarm says what to do, and has the given actions', () => {
  const stack = new TestStack({ ledger: true });
  stack.retry.attach(stack.function('Orders'));
  const topic = new sns.Topic(stack, 'Topic');
  const alarms = stack.retry.alarms({ actions: [new actions.SnsAction(topic)] });
  assert.equal(alarms.length, OF_SYSTEM.length + ofFunction('Orders').length + 1);
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

test('no message should be older than the longest backoff and an hour', () => {
  const cases: [AsyncRetryProps, AsyncRetryProps, AlarmsProps, number][] = [
    [{}, {}, {}, 13],
    [{ maxBackoff: Duration.hours(2) }, {}, {}, 3],
    [{ maxBackoff: Duration.hours(2) }, { maxBackoff: Duration.days(2), maxAge: Duration.days(7) }, {}, 49],
    [{ maxAge: Duration.hours(3) }, {}, {}, 4],
    [{}, {}, { oldestMessage: Duration.hours(5) }, 5],
  ];
  for (const [props, own, alarms, hours] of cases) {
    const stack = new TestStack(props);
    stack.retry.alarms(alarms);
    stack.retry.attach(stack.function('Orders'), own);
    assert.equal(stack.only('AWS::CloudWatch::Alarm', /OldestMessage/).Threshold, hours * 60 * 60);
  }
});

test('thresholds can be set within their ranges', () => {
  const stack = new TestStack();
  assert.equal(
    complaint(() => stack.retry.alarms({ waitingEvents: 120_001 })),
    'the alarms of AsyncRetry Test/Retry: waitingEvents must be a whole number from 1 to 120000, got 120001',
  );
  for (const props of [{ lateness: Duration.seconds(0) }, { oldestMessage: Duration.days(15) }]) {
    assert.match(
      complaint(() => new TestStack().retry.alarms(props)),
      /(lateness|oldestMessage) must be from 1s to 14d, got/,
    );
  }
  const other = new TestStack();
  other.retry.attach(other.function('Orders'));
  other.retry.alarms({ waitingEvents: 10, lateness: Duration.seconds(90) });
  const alarms = alarmsOf(other).join('\n');
  assert.match(alarms, /NotVisible Maximum > 10 of/);
  assert.match(alarms, /InvokeLateness p99 > 90000 of/);
});

test('the dashboard shows the queues, the handler and every function', () => {
  const stack = new TestStack({ ledger: true, parallelQueues: 2 });
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
    ]),
    'Messages in the queues': [
      'AWS/SQS ApproximateNumberOfMessagesNotVisible Maximum of RetryRetryQueue: waiting in queue 1',
      'AWS/SQS ApproximateNumberOfMessagesVisible Maximum of RetryRetryQueue: due in queue 1',
      'AWS/SQS ApproximateNumberOfMessagesNotVisible Maximum of RetryRetryQueue2: waiting in queue 2',
      'AWS/SQS ApproximateNumberOfMessagesVisible Maximum of RetryRetryQueue2: due in queue 2',
      'AWS/SQS ApproximateNumberOfMessagesVisible Maximum of RetryDeadLetterQueue: dead letters',
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
    ]),
    'The retry handler': [
      'AWS/Lambda Invocations Sum of RetryHandler',
      'AWS/Lambda Errors Sum of RetryHandler',
      'AWS/Lambda Throttles Sum of RetryHandler',
      'AWS/Lambda Duration p99 of RetryHandler',
    ],
  });
});

test('the dashboard does not number a single queue, and shows a ledger only if there is one', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Orders'));
  stack.retry.dashboard();
  const lines = linesOf(stack);
  assert.match(lines['Messages in the queues'][0], /: waiting$/);
  assert.ok(!lines['What a person has to fix'].some((line) => line.includes('ledger')));
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
  ];
  const expected = [
    ...counts.map((name) => [name, 'Sum', 'SUM']),
    ['InvokeLateness', 'p99', 'MAX'],
    ['EventAge', 'Maximum', 'MAX'],
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
