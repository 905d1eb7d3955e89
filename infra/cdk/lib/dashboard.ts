import { aws_cloudwatch as cloudwatch, aws_lambda as lambda, aws_sqs as sqs } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import type { AsyncRetry } from './async-retry';
import { metricOfLambda } from './metrics';
import type { AsyncRetryProps } from './props';

/** Options of the dashboard of an `AsyncRetry`. */
export interface RetryDashboardProps {
  /**
   * Its name in CloudWatch.
   *
   * @default - a name that CloudFormation makes
   */
  readonly dashboardName?: string;
}

/** Two graphs in a row. */
const WIDTH = 12;

/** The graphs to look at first when somebody asks about retries. */
export class RetryDashboard extends Construct {
  public readonly dashboard: cloudwatch.Dashboard;
  private readonly outcomes = graph('What became of failed events');
  private readonly queues: cloudwatch.GraphWidget;
  private readonly lateness = graph('Lateness of retries in ms, p99');
  private readonly ages = graph('Age of events in seconds, maximum');
  private readonly faults = graph('What a person has to fix');

  constructor(
    private readonly retry: AsyncRetry,
    props: RetryDashboardProps,
    private readonly options: AsyncRetryProps,
  ) {
    super(retry, 'Dashboard');
    this.queues = graph('Messages in the queues', [
      retry.deadLetterQueue.metricApproximateNumberOfMessagesVisible({
        statistic: cloudwatch.Stats.MAXIMUM,
        label: 'dead letters',
      }),
    ]);
    this.dashboard = new cloudwatch.Dashboard(this, 'Resource', props);
    this.dashboard.addWidgets(this.outcomes, this.queues);
    this.dashboard.addWidgets(this.lateness, this.ages);
    this.dashboard.addWidgets(this.faults, this.handler());
  }

  /** Adds the lines of one retry queue. Its owner is the function that has it for itself. */
  public showQueue(queue: sqs.IQueue, owner?: lambda.IFunction): void {
    const named = (state: string) => ({
      statistic: cloudwatch.Stats.MAXIMUM,
      label: [...(owner ? [owner.functionName] : []), state].join(' '),
    });
    this.queues.addLeftMetric(queue.metricApproximateNumberOfMessagesNotVisible(named('waiting')));
    this.queues.addLeftMetric(queue.metricApproximateNumberOfMessagesDelayed(named('delayed')));
    this.queues.addLeftMetric(queue.metricApproximateNumberOfMessagesVisible(named('due')));
  }

  /** Adds the lines of one function. */
  public show(target: lambda.IFunction): void {
    const { retry, options } = this;
    const named = (metric: cloudwatch.IMetric, ...what: string[]) =>
      (metric as cloudwatch.Metric).with({ label: [target.functionName, ...what].join(' ') });
    this.outcomes.addLeftMetric(named(retry.metricWaited({ target }), 'waited'));
    this.outcomes.addLeftMetric(named(retry.metricInvoked({ target }), 're-invoked'));
    this.outcomes.addLeftMetric(named(retry.metricDeadLettered({ target }), 'given up'));
    if (options.register) {
      const cancelled = retry.metricDeadLettered({ target, dimensionsMap: { Reason: 'cancelled' } });
      this.outcomes.addLeftMetric(named(cancelled, 'cancelled'));
    }
    if (options.probe) this.outcomes.addLeftMetric(named(retry.metricProbes({ target }), 'probed'));
    if (options.register && options.probe)
      this.outcomes.addLeftMetric(named(retry.metricBroughtForward({ target }), 'brought forward'));
    this.lateness.addLeftMetric(named(retry.metricInvokeLateness({ target })));
    this.ages.addLeftMetric(named(retry.metricEventAge({ target })));
    this.faults.addLeftMetric(named(retry.metricConfigurationFaults({ target }), 'configuration'));
    this.faults.addLeftMetric(named(retry.metricDeadLettersNotSent({ target }), 'dead letters not sent'));
    this.faults.addLeftMetric(named(retry.metricThrottled({ target }), 'throttled'));
    this.faults.addLeftMetric(named(metricOfLambda('DestinationDeliveryFailures', target), 'not delivered'));
    this.faults.addLeftMetric(named(metricOfLambda('RecursiveInvocationsDropped', target), 'taken for a loop'));
    if (retry.ledger) this.faults.addLeftMetric(named(retry.metricLedgerFaults({ target }), 'ledger'));
    if (options.probe) this.faults.addLeftMetric(named(retry.metricCircuitOpen({ target }), 'down'));
  }

  private handler(): cloudwatch.GraphWidget {
    const { handler } = this.retry;
    return graph(
      'The retry handler',
      [handler.metricInvocations(), handler.metricErrors(), handler.metricThrottles()],
      [handler.metricDuration({ statistic: 'p99' })],
    );
  }
}

function graph(
  title: string,
  left: cloudwatch.IMetric[] = [],
  right: cloudwatch.IMetric[] = [],
): cloudwatch.GraphWidget {
  return new cloudwatch.GraphWidget({ title, left, right, width: WIDTH });
}
