import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_cloudwatch as cloudwatch,
  aws_cloudwatch_actions as actions,
  aws_iam as iam,
  aws_lambda as lambda,
  aws_sns as sns,
  aws_sqs as sqs,
  Duration,
  Stack,
} from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { AlarmSettings, AlarmSeverity, AsyncRetry, AsyncRetryProps, RetryMetricOptions } from '../lib';
import { ALARMS } from '../lib/triggers';
import { errorOf, TestStack, withOrders } from './app';

/** A logical id without the hashes of the CDK and of this package. */
function withoutHashes(id: string): string {
  return id.slice(0, -8).replace(/[0-9a-f]{8}$/, '');
}

/** The metric of an alarm or of a part of its expression, and its owner. */
function watched(namespace: string, name: any, statistic: string, dimensions: any[] = []): string {
  const ofLines = typeof name === 'string' ? name : name['Fn::Join'][1][0] + withoutHashes(name['Fn::Join'][1][1].Ref);
  const owners = dimensions.map(
    ({ Name, Value }) => ` of ${Name} ${withoutHashes(Value.Ref ?? Value['Fn::GetAtt'][0])}`,
  );
  return [`${namespace} ${ofLines} ${statistic}`, ...owners].join('');
}

/** The metric of every alarm with its threshold, and its periods unless it is one of five minutes, by its path. */
function alarmsOf(stack: TestStack): string[] {
  return Object.values(stack.template.findResources('AWS::CloudWatch::Alarm')).map(({ Properties: alarm }) => {
    assert.equal(alarm.ComparisonOperator, 'GreaterThanThreshold');
    assert.equal(alarm.TreatMissingData, 'notBreaching');
    const { EvaluationPeriods: all, DatapointsToAlarm: above = all, Metrics = [], Threshold } = alarm;
    const [{ Expression, Period } = {} as any, ...parts] = Metrics;
    const period = alarm.Period ?? Period ?? parts[0].MetricStat.Period;
    const metrics = parts.map(({ Id, MetricStat: { Metric, Stat, Period } }: any) => {
      assert.equal(Period, period);
      return `${Id}: ${watched(Metric.Namespace, Metric.MetricName, Stat, Metric.Dimensions)}`;
    });
    const what = Expression
      ? [Expression, ...metrics].join('; ')
      : watched(alarm.Namespace, alarm.MetricName, alarm.Statistic ?? alarm.ExtendedStatistic, alarm.Dimensions);
    const howLong = all === 1 && period === 300 ? '' : ` in ${above} of ${all} x ${period} s`;
    return `${what} > ${Threshold}${howLong}`;
  });
}

/** The metric or the expression, its owner and the label of every line, by the titles of the dashboard's graphs. */
function linesOf(stack: TestStack): { [title: string]: string[] } {
  const [, parts] = stack.only('AWS::CloudWatch::Dashboard').DashboardBody['Fn::Join'];
  const body = parts
    .map((part: any) => (typeof part === 'string' ? part : withoutHashes(part.Ref ?? part['Fn::GetAtt'][0])))
    .join('');
  const graphs = JSON.parse(body).widgets.filter(({ type }: any) => type === 'metric');
  return Object.fromEntries(
    graphs.map(({ properties: { title, metrics } }: any) => [
      title,
      metrics
        .map((line: any) => {
          const {
            label,
            expression,
            visible = true,
            stat = 'Average',
          } = typeof line.at(-1) === 'object' ? line.pop() : {};
          const [namespace, name, ...rest] = line;
          const whose = rest.filter((_: string, index: number) => index % 2 === 1).join(' in ');
          return visible && `${expression ?? `${namespace} ${name} ${stat} of ${whose}`}${label ? `: ${label}` : ''}`;
        })
        .filter(Boolean),
    ]),
  );
}

/** The questions that the rows of the dashboard answer. */
function questionsOf(stack: TestStack): string[] {
  return [...JSON.stringify(stack.template.findResources('AWS::CloudWatch::Dashboard')).matchAll(/## ([^"\\]+)/g)].map(
    ([, question]) => question,
  );
}

const OF_SYSTEM = [
  'SELECT SUM(DeadLettersNotSent) FROM SCHEMA(Comeback, Target) > 0',
  "SELECT SUM(DeadLettered) FROM SCHEMA(Comeback, Target, Reason) WHERE Reason != 'not_retryable' AND Reason != 'cancelled' > 0 in 1 of 3 x 300 s",
  'AWS/SQS ApproximateNumberOfMessagesVisible Maximum of QueueName RetryDeadLetterQueue > 0',
  'DIFF(letters); letters: AWS/SQS ApproximateNumberOfMessagesVisible Maximum of QueueName RetryDeadLetterQueue > 0 in 1 of 12 x 300 s',
  `AWS/SQS ApproximateAgeOfOldestMessage Maximum of QueueName RetryDeadLetterQueue > ${10 * 24 * 60 * 60}`,
  'AWS/Lambda Errors Sum of FunctionName RetryHandler > 0',
  'AWS/Lambda Throttles Sum of FunctionName RetryHandler > 0',
  'AWS/Lambda RecursiveInvocationsDropped Sum of FunctionName RetryHandler > 0',
  'SUM([IF(SUM([invocations, logged]) == invocations, invocations, 0), ' +
    'IF(published == 0, invocations - errors, 0), unparsed, invalid]); ' +
    'invocations: AWS/Lambda Invocations Sum of FunctionName RetryHandler; ' +
    'errors: AWS/Lambda Errors Sum of FunctionName RetryHandler; ' +
    'logged: AWS/Logs IncomingLogEvents Sum of LogGroupName RetryLog; ' +
    'published: Comeback MetricLines-RetryHandler Sum; ' +
    'unparsed: AWS/Logs EMFParsingErrors Sum of LogGroupName RetryLog; ' +
    'invalid: AWS/Logs EMFValidationErrors Sum of LogGroupName RetryLog > 0 in 3 of 3 x 300 s',
];

const ofQueue = (name: string) => [
  `AWS/SQS ApproximateNumberOfMessagesVisible Minimum of QueueName ${name} > 0 in 3 of 3 x 300 s`,
  '100 * SUM([inFlight, delayed]) / 100000; ' +
    `inFlight: AWS/SQS ApproximateNumberOfMessagesNotVisible Maximum of QueueName ${name}; ` +
    `delayed: AWS/SQS ApproximateNumberOfMessagesDelayed Maximum of QueueName ${name} > 50`,
];

const ofFunction = (name: string) => [
  `AWS/Lambda DestinationDeliveryFailures Sum of FunctionName ${name} > 0`,
  `AWS/Lambda RecursiveInvocationsDropped Sum of FunctionName ${name} > 0`,
  `Comeback ConfigurationFaults Sum of Target ${name} > 0`,
  `IF(SUM([throttled, invoked]) == throttled, throttled, 0); throttled: Comeback Throttled Sum of Target ${name}; invoked: Comeback Invoked Sum of Target ${name} > 0 in 2 of 2 x 900 s`,
  `100 * age / 86400; age: Comeback EventAge Maximum of Target ${name} > 50 in 1 of 4 x 300 s`,
  `Comeback InvokeLateness p99 of Target ${name} > 300000`,
];

test('there is an alarm for each condition that needs a person, for functions attached before and after', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Before'));
  stack.retry.alarms();
  const after = stack.function('After');
  stack.retry.attach(after);
  stack.retry.attach(after.currentVersion);
  const ofEach = ['Before', 'After'].flatMap((id) => [...ofFunction(id), ...ofQueue(`RetryRetryQueue${id}`)]);
  assert.deepEqual(alarmsOf(stack).sort(), [...OF_SYSTEM, ...ofEach].sort());
});

test('a shared queue has its alarms once, and so has the queue for redrives', () => {
  const alarmsOfQueues = (props: AsyncRetryProps) => {
    const stack = new TestStack(props);
    stack.retry.alarms();
    for (const id of ['Orders', 'Payments']) stack.retry.attach(stack.function(id));
    stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
    return alarmsOf(stack).filter((alarm) => /R[a-z]+Queue/.test(alarm) && !/DeadLetter/.test(alarm));
  };
  assert.deepEqual(alarmsOfQueues({ sharedQueue: true }), ofQueue('RetryRetryQueue'));
  assert.deepEqual(
    alarmsOfQueues({}).sort(),
    ['RetryRedriveQueue', 'RetryRetryQueueOrders', 'RetryRetryQueuePayments'].flatMap(ofQueue).sort(),
  );
});

test('a ledger has an alarm for each function', () => {
  const stack = withOrders({ ledger: true });
  stack.retry.alarms();
  assert.ok(alarmsOf(stack).includes('Comeback LedgerFaults Sum of Target Orders > 0'));
});

test('probes have an alarm for each function', () => {
  const stack = withOrders({ ledger: true, probe: true });
  stack.retry.alarms();
  assert.ok(alarmsOf(stack).includes('Comeback CircuitOpen Maximum of Target Orders > 0 in 1 of 4 x 300 s'));
});

/** The properties of alarms by the last part of their path. */
function byName(stack: TestStack, alarms: cloudwatch.Alarm[]): { [name: string]: any } {
  const resources = stack.template.findResources('AWS::CloudWatch::Alarm');
  const propertiesOf = (alarm: cloudwatch.Alarm) =>
    resources[stack.getLogicalId(alarm.node.defaultChild as cloudwatch.CfnAlarm)].Properties;
  return Object.fromEntries(alarms.map((alarm) => [alarm.node.id, propertiesOf(alarm)]));
}

test('every alarm says what to do and names its runbook section, and has the actions of its severity', () => {
  const stack = new TestStack({ ledger: true, probe: true });
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
  // The other alarms need a ledger or probes.
  assert.equal(Object.keys(made).length, OF_SYSTEM.length + ofFunction('Orders').length + ofQueue('').length + 2);
  const tickets = ['DeadLetters', 'DeadLettersGrow', 'HandlerThrottles', 'Backlog', 'Lateness', 'HandlerErrors'];
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
  const pagedBy = (build: (stack: TestStack, second: AsyncRetry, one: sns.Topic, other: sns.Topic) => void) => {
    const stack = new TestStack();
    const second = new AsyncRetry(stack, 'Second', { deadLetterQueue: stack.retry.deadLetterQueue });
    build(stack, second, new sns.Topic(stack, 'One'), new sns.Topic(stack, 'Other'));
    const alarms = Object.entries(stack.template.findResources('AWS::CloudWatch::Alarm'));
    return ['DeadLetters', 'DeadLettersGrow', 'DeadLettersExpire', 'DeadLettersNotSent', 'EventsGivenUp'].map(
      (id) => alarms.filter(([name]) => new RegExp(`Alarms${id}[0-9A-F]{8}$`).test(name)).length,
    );
  };
  assert.deepEqual(
    pagedBy((stack, second, one) => {
      stack.retry.alarms({ actions: [new actions.SnsAction(one)] });
      second.alarms({ actions: [new actions.SnsAction(one)] });
    }),
    [1, 1, 1, 1, 1],
  );
  assert.deepEqual(
    pagedBy((stack, second) => {
      stack.retry.alarms();
      second.alarms();
    }),
    [1, 1, 1, 1, 1],
  );
  assert.deepEqual(
    pagedBy((stack, second, one, other) => {
      stack.retry.alarms({ actions: [new actions.SnsAction(one)] });
      second.alarms({ actions: [new actions.SnsAction(other)] });
    }),
    [2, 2, 2, 2, 2],
  );
  assert.deepEqual(
    pagedBy((stack, second, one) => {
      stack.retry.alarms();
      second.alarms({ actions: [new actions.SnsAction(one)] });
    }),
    [2, 2, 2, 2, 2],
  );
  // Only alarms that differ, and alarms that are switched off here.
  assert.deepEqual(
    pagedBy((stack, second) => {
      stack.retry.alarms({ settings: { DeadLettersGrow: { enabled: false }, DeadLetters: { threshold: 5 } } });
      second.alarms();
    }),
    [2, 1, 1, 1, 1],
  );
  // Tickets go elsewhere, pages to the same topic.
  assert.deepEqual(
    pagedBy((stack, second, one, other) => {
      stack.retry.alarms({ actions: [new actions.SnsAction(one)] });
      second.alarms({ actions: [new actions.SnsAction(one)], ticketActions: [new actions.SnsAction(other)] });
    }),
    [2, 2, 1, 1, 1],
  );
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
      const stack = withOrders({ ledger: true, probe: true });
      stack.retry.alarms({ settings: { [name]: settings } });
      return alarmsOf(stack);
    };
    const all = with_({});
    const others = with_({ enabled: false });
    assert.equal(others.length, all.length - 1, name);
    const [own] = with_(changed).filter((alarm) => !others.includes(alarm));
    assert.match(own, / > 7 in 2 of 5 x 600 s$/, name);
  }
});

test('settings that CloudWatch would refuse are an error that names the settings', () => {
  const periods = Duration.hours(2);
  assert.equal(
    errorOf(() =>
      new TestStack().retry.alarms({
        settings: {
          Latenes: {},
          Backlog: { period: Duration.seconds(90) },
          EventsExpire: { period: periods, evaluationPeriods: 85 },
          DeadLetters: { evaluationPeriods: 2, datapointsToAlarm: 3 },
          Lateness: { period: periods, evaluationPeriods: 84 },
        },
      }),
    ),
    'the alarms of AsyncRetry Test/Retry: ' +
      [
        `settings must be of ${ALARMS.join(', ')}, got "Latenes"`,
        'Backlog.period must be 10s, 30s, or whole minutes up to 1d, got "1 minute 30 seconds"',
        'EventsExpire.evaluationPeriods must be at most 84 periods of 2 hours, got 85',
        'DeadLetters.datapointsToAlarm must be a whole number from 1 to 2, got 3',
      ].join('; '),
  );
});

test('EventsExpire depends on the maximum age of its function', () => {
  const stack = new TestStack({ maxAge: Duration.days(7), inFlightMax: 20_000 });
  stack.retry.attach(stack.function('Orders'), { maxAge: Duration.hours(1) });
  stack.retry.attach(stack.function('Payments'));
  stack.retry.alarms();
  const all = alarmsOf(stack).join('\n');
  assert.match(all, /100 \* age \/ 3600; age: Comeback EventAge Maximum of Target Orders > 50/);
  assert.match(all, /100 \* age \/ 604800; age: Comeback EventAge Maximum of Target Payments > 50/);
  assert.match(all, /\/ 20000; inFlight/);
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
  const [week, byDefault] = alarmsOf(stack).filter((alarm) => /OldestMessage/.test(alarm));
  assert.match(week, / > 432000$/);
  assert.match(byDefault, / > 246857$/);
});

test('the dashboard shows the queues, the handler and every function', () => {
  const stack = new TestStack({ ledger: true, register: true, probe: true });
  stack.retry.attach(stack.function('Before'));
  stack.retry.dashboard({ dashboardName: 'retries' });
  stack.retry.attach(stack.function('After'));
  assert.equal(stack.only('AWS::CloudWatch::Dashboard').DashboardName, 'retries');
  assert.deepEqual(questionsOf(stack), [
    'Is anything lost?',
    'What is down?',
    'What waits, and until when?',
    'What does it cost?',
  ]);
  const each = (line: (name: string, index: number) => string[]) => ['Before', 'After'].flatMap(line);
  assert.deepEqual(linesOf(stack), {
    'Dead letters': [
      'AWS/SQS ApproximateNumberOfMessagesVisible Maximum of RetryDeadLetterQueue: dead letters',
      'age0 / 86400: days since the oldest',
    ],
    'Given up, by reason': each((name) => [
      `SEARCH('{Comeback,Target,Reason} MetricName="DeadLettered" Target="${name}"', 'Sum', 300): \${PROP('Dim.Target')} \${PROP('Dim.Reason')}`,
    ]),
    'Dropped, or not sent to the dead-letter queue': each((name) => [
      `AWS/Lambda DestinationDeliveryFailures Sum of ${name}: ${name} dropped by Lambda`,
      `Comeback DeadLettersNotSent Sum of ${name}: ${name} not sent`,
    ]),
    'Failed invocations in percent': [
      ...each((name, index) => [`100 * errors${[5, 8][index]} / invocations${[5, 8][index]}: ${name}`]),
      ...each((name) => [`Comeback CircuitOpen Maximum of ${name}: ${name} down`]),
    ],
    'Faults that a person must fix': each((name) => [
      `Comeback ConfigurationFaults Sum of ${name}: ${name} configuration`,
      `Comeback Throttled Sum of ${name}: ${name} throttled`,
      `AWS/Lambda RecursiveInvocationsDropped Sum of ${name}: ${name} taken for a loop`,
      `Comeback LedgerFaults Sum of ${name}: ${name} ledger`,
    ]),
    'The retry handler': [
      'AWS/Lambda Invocations Sum of RetryHandler',
      'AWS/Lambda Errors Sum of RetryHandler',
      'AWS/Lambda Throttles Sum of RetryHandler',
      'AWS/Lambda Duration p99 of RetryHandler',
    ],
    'Messages in the retry queues': each((name) => [
      `AWS/SQS ApproximateNumberOfMessagesNotVisible Maximum of RetryRetryQueue${name}: ${name} waiting`,
      `AWS/SQS ApproximateNumberOfMessagesDelayed Maximum of RetryRetryQueue${name}: ${name} delayed`,
      `AWS/SQS ApproximateNumberOfMessagesVisible Maximum of RetryRetryQueue${name}: ${name} due`,
    ]),
    'Oldest event in percent of its maximum age': each((name, index) => [`100 * age${[6, 9][index]} / 86400: ${name}`]),
    'Lateness of retries in ms, p99': each((name) => [`Comeback InvokeLateness p99 of ${name}: ${name}`]),
    'Outcomes of failed events': each((name) => [
      `Comeback Waited Sum of ${name}: ${name} waited`,
      `Comeback Invoked Sum of ${name}: ${name} re-invoked`,
      `Comeback Probes Sum of ${name}: ${name} probed`,
      `Comeback BroughtForward Sum of ${name}: ${name} brought forward`,
    ]),
    'Dollars an hour, without metrics and alarms': [
      'i1 * 0.2 / 1000000 + d1 / 1000 * 128 / 1024 * 0.0000133334: handler',
      'b2 / 1000000000 * 0.5: log',
      'w3 * 0.625 / 1000000: ledger',
      ...each((name, index) => [
        `(s${[4, 7][index]} + r${[4, 7][index]} + d${[4, 7][index]} + e${[4, 7][index]}) * 0.4 / 1000000: queue of ${name}`,
      ]),
    ],
  });
});

test('the dashboard names no function for a shared queue, and has no lines for unused options', () => {
  const stack = new TestStack({ sharedQueue: true });
  stack.retry.attach(stack.function('Orders'));
  stack.retry.dashboard();
  const lines = linesOf(stack);
  assert.match(lines['Messages in the retry queues'][0], /: waiting$/);
  assert.doesNotMatch(Object.values(lines).flat().join(), /ledger|probed|brought forward|down/);
});

test('a metric covers one function, or all together', () => {
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
    errorOf(() => stack.retry.metricWaited()),
    /AsyncRetry Test\/Retry has no metric Waited of its functions: attach first/,
  );
  assert.match(
    errorOf(() => stack.retry.metricWaited({ target: stack.function('Orders') })),
    /has no metric Waited of Test\/Orders/,
  );
});

test('alarms and the dashboard can be created only once', () => {
  const { retry } = new TestStack();
  retry.alarms();
  retry.dashboard();
  assert.equal(
    errorOf(() => retry.alarms()),
    'AsyncRetry Test/Retry: alarms() was called before',
  );
  assert.equal(
    errorOf(() => retry.dashboard()),
    'AsyncRetry Test/Retry: dashboard() was called before',
  );
});
