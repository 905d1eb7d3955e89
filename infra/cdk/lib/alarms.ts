import {
  aws_cloudwatch as cloudwatch,
  aws_lambda as lambda,
  aws_sqs as sqs,
  Duration,
  Stack,
  Stage,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import type { AsyncRetry } from './async-retry';
import { RETENTION } from './closed-queue';
import { Faults } from './faults';
import { DEAD_LETTERS_NOT_SENT, metricOfLambda } from './metrics';
import type { AsyncRetryProps } from './props';
import { checkDuration, checkKnown } from './retry-policy';
import { ownId } from './target';

/** Options of the alarms of an `AsyncRetry`. */
export interface AlarmsProps {
  /**
   * What happens when an alarm goes off, such as `new SnsAction(topic)`.
   *
   * @default - nothing; the console shows the alarms
   */
  readonly actions?: cloudwatch.IAlarmAction[];

  /**
   * The largest lateness of 99 of 100 retries.
   *
   * @default Duration.minutes(5)
   */
  readonly lateness?: Duration;
}

/** Far more than a queue and a mapping ever need. */
const LATENESS = Duration.minutes(5);

/** A working mapping receives visible messages within a second. Three periods are a quarter of an hour. */
const UNREAD_PERIODS = 3;

/**
 * While a function is down, its events wait for up to a quarter of an hour before one of them says so again. With fewer
 * periods, the alarm would go off again and again in one outage.
 */
const DOWN_PERIODS = 4;

/** When an alarm goes off, and its description, which says what to do. */
interface Trigger {
  readonly metric: cloudwatch.IMetric;
  /** @default - any value above zero */
  readonly above?: number;
  /** @default 1 */
  readonly periods?: number;
  /** @default - all of the periods */
  readonly periodsAbove?: number;
  readonly description: string;
}

/** The alarms of an `AsyncRetry` and of its functions. */
export class RetryAlarms extends Construct {
  public readonly all: cloudwatch.Alarm[] = [];

  constructor(
    private readonly retry: AsyncRetry,
    private readonly props: AlarmsProps,
    private readonly options: AsyncRetryProps,
  ) {
    super(retry, 'Alarms');
    const faults = new Faults();
    const { lateness } = props;
    if (lateness && checkKnown('lateness', lateness, faults))
      checkDuration('lateness', lateness, Duration.seconds(1), RETENTION, faults);
    faults.throwIfAny(`the alarms of AsyncRetry ${retry.node.path}`);
    this.watchDeadLetters();
    this.watchHandler();
  }

  /**
   * Adds the alarm on one retry queue. CloudWatch bills an alarm on several queues by the queue too, and its name would
   * not say which of them it is about.
   */
  public watchQueue(queue: sqs.IQueue): void {
    this.alarm(new Construct(this, queue.node.id), 'UnreadMessages', {
      metric: queue.metricApproximateNumberOfMessagesVisible({ statistic: cloudwatch.Stats.MINIMUM }),
      periods: UNREAD_PERIODS,
      description:
        'Messages in a retry queue are due, and for a quarter of an hour not all of them were received. Check that ' +
        "the queue's mapping is enabled and that the handler is not throttled. If the handler is only busy, raise the " +
        "mapping's maximum concurrency. If 120,000 messages are in flight, SQS delivers none: the errors in the " +
        "handler's log say why it can't send them again with a delay.",
    });
  }

  /** Adds the alarms on the metrics of one function. */
  public watchFunction(target: lambda.IFunction): void {
    const { lateness = LATENESS } = this.props;
    const scope = new Construct(this, ownId(target));
    this.alarm(scope, 'UndeliveredFailures', {
      metric: metricOfLambda('DestinationDeliveryFailures', target),
      description:
        'Lambda could not send failed events of this function to the retry queue, and dropped ' +
        "them. Check that the function's role may send to the queue and use its key. A payload " +
        'near 1 MiB is dropped too, because its failure record does not fit into a message.',
    });
    this.alarm(scope, 'RecursionStopped', {
      metric: metricOfLambda('RecursiveInvocationsDropped', target),
      description:
        'Lambda took the retries of this function for an endless loop, and stopped them. Set ' +
        'its RecursiveLoop to Allow. Then redrive the dead-letter queue, where the reason of ' +
        'these events is recursion_stopped.',
    });
    this.alarm(scope, 'ConfigurationFaults', {
      metric: this.retry.metricConfigurationFaults({ target }),
      description:
        "This function can't be re-invoked: a permission, the key or the function itself is " +
        "missing. The errors in the handler's log say which. Fix it; until then its events " +
        'wait, but no longer than their maximum age.',
    });
    this.alarm(scope, 'Lateness', {
      metric: this.retry.metricInvokeLateness({ target }),
      above: lateness.toMilliseconds(),
      description:
        'Retries of this function are late. Check whether the handler is throttled. If its retry queue has more due ' +
        "messages than the handler can take, raise the mapping's maximum concurrency.",
    });
    if (this.retry.ledger) {
      this.alarm(scope, 'LedgerFaults', {
        metric: this.retry.metricLedgerFaults({ target }),
        description:
          "The ledger can't say whether failures of this function were already handled, so its " +
          "events wait. The errors in the handler's log say whether the table, the permission " +
          'or the key is missing.',
      });
    }
    if (this.options.probe) {
      this.alarm(scope, 'CircuitOpen', {
        metric: this.retry.metricCircuitOpen({ target }),
        periods: DOWN_PERIODS,
        periodsAbove: 1,
        description:
          'This function has been down since this alarm went off: nearly all re-invocations failed. It is now probed ' +
          'with one event at a time, and its other events wait without using up attempts, but no longer than their ' +
          "maximum age. Look into the function's log and fix the cause. Retries resume by themselves when a probe " +
          'succeeds.',
      });
    }
  }

  private watchDeadLetters(): void {
    const { deadLetterQueue } = this.retry;
    this.alarmOnce('DeadLetters', ({ retry }) => retry.deadLetterQueue.queueArn === deadLetterQueue.queueArn, {
      metric: deadLetterQueue.metricApproximateNumberOfMessagesVisible({ statistic: cloudwatch.Stats.MAXIMUM }),
      description:
        'Events were given up. The attribute Reason of each message in the dead-letter queue ' +
        'says why. A message without Reason was moved there by SQS, because the handler failed ' +
        'on it for days. Fix the cause, then start a redrive of the dead-letter queue with the ' +
        'retry queue that takes them all as its custom destination: each event starts over.',
    });
    const { account, region } = Stack.of(this);
    this.alarmOnce(
      'DeadLettersNotSent',
      ({ retry }) => Stack.of(retry).account === account && Stack.of(retry).region === region,
      {
        metric: DEAD_LETTERS_NOT_SENT,
        description:
          "A retry handler in this region can't send dead letters to its dead-letter queue, so " +
          "these events stay in the retry queue. The errors in the handler's log name the queue " +
          "and the cause: the queue is missing, or its policy, the handler's role or the key " +
          'forbids sending. Fix the cause.',
      },
    );
  }

  private watchHandler(): void {
    const { handler } = this.retry;
    this.alarm(this, 'HandlerErrors', {
      metric: handler.metricErrors(),
      description:
        'The retry handler fails. Look into its log: a bad setting stops it at its start, and ' +
        'the log names the variable. Nothing is lost in the meantime; each message comes back ' +
        'up to a thousand times.',
    });
    this.alarm(this, 'HandlerThrottles', {
      metric: handler.metricThrottles(),
      description:
        "The retry handler is throttled, so retries are late. Raise the account's concurrency, " +
        'or give the handler a reserved concurrency that is at least the maximum concurrency of ' +
        'its mappings.',
    });
    this.alarm(this, 'HandlerRecursionStopped', {
      metric: metricOfLambda('RecursiveInvocationsDropped', handler),
      description:
        'Lambda took the retry handler for an endless loop, and stopped it. Set its ' +
        'RecursiveLoop to Allow; the messages come back by themselves.',
    });
  }

  /** Makes an alarm, unless another `AsyncRetry` has an alarm on the same thing with all actions of this one. */
  private alarmOnce(id: string, isSame: (others: RetryAlarms) => boolean, trigger: Trigger): void {
    const all = (Stage.of(this) ?? this.node.root).node.findAll().filter((each) => each instanceof RetryAlarms);
    const { actions: mine = [] } = this.props;
    const isDone = all.some(
      (each) =>
        each !== this &&
        isSame(each) &&
        mine.every((own) => each.props.actions?.some((other) => isSameAction(own, other))),
    );
    if (!isDone) this.alarm(this, id, trigger);
  }

  private alarm(scope: Construct, id: string, trigger: Trigger): void {
    const { metric, above = 0, periods = 1, periodsAbove, description } = trigger;
    const alarm = new cloudwatch.Alarm(scope, id, {
      metric,
      threshold: above,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: periods,
      datapointsToAlarm: periodsAbove,
      // Most of these metrics count something that should not happen, and have no data as long as it does not.
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      alarmDescription: description,
    });
    alarm.addAlarmAction(...(this.props.actions ?? []));
    this.all.push(alarm);
  }
}

/** Whether two actions do the same. Each `new SnsAction(topic)` is a new object. */
function isSameAction(one: cloudwatch.IAlarmAction, other: cloudwatch.IAlarmAction): boolean {
  const [ours, theirs] = [one, other].map((action) => Object.entries(action).flat());
  return (
    one === other ||
    (one.constructor === other.constructor &&
      ours.length > 0 &&
      ours.length === theirs.length &&
      ours.every((part, index) => part === theirs[index]))
  );
}
