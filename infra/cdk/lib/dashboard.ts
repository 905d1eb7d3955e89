import { aws_cloudwatch as cloudwatch, aws_sqs as sqs, Duration, Tokenization } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { PRICES } from './contract';
import { MEMORY_SIZE } from './handler';
import { metricOf, metricOfLambda, metricOfLog, RetrySystem } from './metrics';
import type { AsyncRetryProps } from './props';
import { secondsOf } from './durations';
import type { Retried } from './target';

/** Options of the dashboard of an `AsyncRetry`. */
export interface RetryDashboardProps {
  /** The dashboard's name in CloudWatch.
   * @default - a name that CloudFormation generates
   */
  readonly dashboardName?: string;
}

/** Three graphs in a row of 24. */
const WIDTH = 8;

/** The dollars for one unit of a price, in us-east-1. */
const price = (name: string) => {
  const { dollars, unit } = PRICES[name];
  return unit === 'million' ? `${dollars} / 1000000` : `${dollars}`;
};

const HOUR = Duration.hours(1);

/** Shows, in this order: lost events, outages, waiting events and their ages, and costs. */
export class RetryDashboard extends Construct {
  public readonly dashboard: cloudwatch.Dashboard;
  private readonly givenUp = graph('Given up, by reason');
  private readonly dropped = graph('Dropped, or not sent to the dead-letter queue');
  private readonly errors = graph('Failed invocations in percent');
  private readonly faults = graph('Faults that a person must fix');
  private readonly queues = graph('Messages in the retry queues');
  private readonly ages = graph('Oldest event in percent of its maximum age', {
    leftYAxis: { min: 0, max: 100 },
    leftAnnotations: [{ value: 100, label: 'given up' }],
  });
  private readonly lateness = graph('Lateness of retries in ms, p99');
  private readonly outcomes = graph('Outcomes of failed events');
  private readonly costs = graph('Dollars an hour, without metrics and alarms', { stacked: true });

  private expressions = 0;

  constructor(
    private readonly retry: RetrySystem,
    props: RetryDashboardProps,
    private readonly options: AsyncRetryProps,
  ) {
    super(retry, 'Dashboard');
    this.dashboard = new cloudwatch.Dashboard(this, 'Resource', props);
    this.dashboard.addWidgets(heading('Is anything lost?'));
    this.dashboard.addWidgets(this.deadLetters(), this.givenUp, this.dropped);
    this.dashboard.addWidgets(heading('What is down?'));
    this.dashboard.addWidgets(this.errors, this.faults, this.handler());
    this.dashboard.addWidgets(heading('What waits, and until when?'));
    this.dashboard.addWidgets(this.queues, this.ages, this.lateness);
    this.dashboard.addWidgets(heading('What does it cost?'));
    this.dashboard.addWidgets(this.outcomes, this.costs);
    this.showCosts();
  }

  /** Adds the lines of one retry queue. Its owner is the only function or queue that uses it, if there is one. */
  public showQueue(queue: sqs.IQueue, owner?: Retried): void {
    const named = (state: string) => ({
      statistic: cloudwatch.Stats.MAXIMUM,
      label: [...(owner ? [owner.name] : []), state].join(' '),
    });
    this.queues.addLeftMetric(queue.metricApproximateNumberOfMessagesNotVisible(named('waiting')));
    this.queues.addLeftMetric(queue.metricApproximateNumberOfMessagesDelayed(named('delayed')));
    this.queues.addLeftMetric(queue.metricApproximateNumberOfMessagesVisible(named('due')));
    // These metrics count messages, but one request can have ten, so this overestimates the cost.
    this.showCost(owner ? `queue of ${owner.name}` : 'queue', `(s + r + d + e) * ${price('sqs_request')}`, {
      s: queue.metricNumberOfMessagesSent(),
      r: queue.metricNumberOfMessagesReceived(),
      d: queue.metricNumberOfMessagesDeleted(),
      e: queue.metricNumberOfEmptyReceives(),
    });
  }

  /** Adds the lines of one function or queue. */
  public show({ name, function: target }: Retried, maxAge: Duration): void {
    const { retry, options } = this;
    const named = (metric: cloudwatch.IMetric, ...what: string[]) =>
      (metric as cloudwatch.Metric).with({ label: [name, ...what].join(' ') });
    this.givenUp.addLeftMetric(
      new cloudwatch.MathExpression({
        expression: `SEARCH('{Comeback,Target,Reason} MetricName="DeadLettered" Target="${name}"', 'Sum', 300)`,
        // biome-ignore lint/suspicious/noTemplateCurlyInString: CloudWatch replaces these.
        label: "${PROP('Dim.Target')} ${PROP('Dim.Reason')}",
      }),
    );
    if (target)
      this.dropped.addLeftMetric(named(metricOfLambda('DestinationDeliveryFailures', target), 'dropped by Lambda'));
    this.dropped.addLeftMetric(named(metricOf('DeadLettersNotSent', [name]), 'not sent'));
    if (target) {
      this.errors.addLeftMetric(
        this.math(name, '100 * errors / invocations', {
          errors: target.metricErrors(),
          invocations: target.metricInvocations(),
        }),
      );
      if (options.probe) this.errors.addRightMetric(named(metricOf('CircuitOpen', [name]), 'down'));
    }
    this.faults.addLeftMetric(named(metricOf('ConfigurationFaults', [name]), 'configuration'));
    this.faults.addLeftMetric(named(metricOf('Throttled', [name]), 'throttled'));
    if (target)
      this.faults.addLeftMetric(named(metricOfLambda('RecursiveInvocationsDropped', target), 'taken for a loop'));
    if (retry.ledger) this.faults.addLeftMetric(named(metricOf('LedgerFaults', [name]), 'ledger'));
    this.ages.addLeftMetric(this.math(name, `100 * age / ${secondsOf(maxAge)}`, { age: metricOf('EventAge', [name]) }));
    this.lateness.addLeftMetric(named(metricOf('InvokeLateness', [name])));
    this.outcomes.addLeftMetric(named(metricOf('Waited', [name]), 'waited'));
    this.outcomes.addLeftMetric(named(metricOf('Invoked', [name]), 're-invoked'));
    if (target && options.probe) {
      this.outcomes.addLeftMetric(named(metricOf('Probes', [name]), 'probed'));
      if (options.register) this.outcomes.addLeftMetric(named(metricOf('BroughtForward', [name]), 'brought forward'));
    }
  }

  private deadLetters(): cloudwatch.GraphWidget {
    const { deadLetterQueue } = this.retry;
    const statistic = cloudwatch.Stats.MAXIMUM;
    return graph('Dead letters', {
      left: [deadLetterQueue.metricApproximateNumberOfMessagesVisible({ statistic, label: 'dead letters' })],
      right: [
        this.math('days since the oldest', 'age / 86400', {
          age: deadLetterQueue.metricApproximateAgeOfOldestMessage({ statistic }),
        }),
      ],
    });
  }

  private handler(): cloudwatch.GraphWidget {
    const { handler } = this.retry;
    return graph('The retry handler', {
      left: [handler.metricInvocations(), handler.metricErrors(), handler.metricThrottles()],
      right: [handler.metricDuration({ statistic: 'p99' })],
    });
  }

  private showCosts(): void {
    const { retry, options } = this;
    const { handler, ledger } = retry;
    const memory = Tokenization.stringifyNumber(options.memorySize ?? MEMORY_SIZE);
    this.showCost('handler', `i * ${price('lambda_request')} + d / 1000 * ${memory} / 1024 * ${price('gb_second')}`, {
      i: handler.metricInvocations(),
      d: handler.metricDuration({ statistic: cloudwatch.Stats.SUM }),
    });
    const bytes = metricOfLog('IncomingBytes', handler.logGroup);
    this.showCost('log', `b / 1000000000 * ${price('gb_of_log')}`, { b: bytes });
    if (ledger) {
      const writes = ledger.metricConsumedWriteCapacityUnits({ statistic: cloudwatch.Stats.SUM });
      this.showCost('ledger', `w * ${price('write_of_dynamodb')}`, { w: writes });
    }
  }

  /** A line with an expression. Its metrics are numbered, because ids must be unique in a graph. */
  private math(
    label: string,
    expression: string,
    metrics: { [id: string]: cloudwatch.IMetric },
    period = Duration.minutes(5),
  ): cloudwatch.MathExpression {
    const nth = this.expressions++;
    const numbered = Object.keys(metrics).reduce(
      (text, id) => text.replace(new RegExp(`\\b${id}\\b`, 'g'), `${id}${nth}`),
      expression,
    );
    const usingMetrics = Object.fromEntries(Object.entries(metrics).map(([id, metric]) => [`${id}${nth}`, metric]));
    return new cloudwatch.MathExpression({ label, expression: numbered, usingMetrics, period });
  }

  private showCost(label: string, expression: string, metrics: { [id: string]: cloudwatch.IMetric }): void {
    this.costs.addLeftMetric(this.math(label, expression, metrics, HOUR));
  }
}

function graph(title: string, props: cloudwatch.GraphWidgetProps = {}): cloudwatch.GraphWidget {
  return new cloudwatch.GraphWidget({ title, width: WIDTH, ...props });
}

function heading(markdown: string): cloudwatch.TextWidget {
  return new cloudwatch.TextWidget({ markdown: `## ${markdown}`, width: 24, height: 1 });
}
