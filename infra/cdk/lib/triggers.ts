import {
  aws_cloudwatch as cloudwatch,
  aws_lambda as lambda,
  aws_sqs as sqs,
  Duration,
  Tokenization,
} from 'aws-cdk-lib';
import type { AsyncRetry } from './async-retry';
import { retentionOf } from './dead-letter-queue';
import { EVENTS_GIVEN_UP, metricOfLambda, metricOfLines, metricOfLog, UNSENT } from './metrics';
import type { AsyncRetryProps } from './props';
import { secondsOf } from './retry-policy';

/** How soon a person must react. */
export enum AlarmSeverity {
  /** Now: events are lost, are about to be, or don't come back. */
  PAGE = 'page',
  /** On a working day: nothing is lost until then. */
  TICKET = 'ticket',
}

/** The alarms of an `AsyncRetry`: of the system, of each retry queue, and of each function. */
export const ALARMS = [
  'DeadLettersNotSent',
  'EventsGivenUp',
  'DeadLetters',
  'DeadLettersGrow',
  'DeadLettersExpire',
  'HandlerErrors',
  'HandlerThrottles',
  'HandlerRecursionStopped',
  'HandlerSilent',
  'UnreadMessages',
  'Backlog',
  'UndeliveredFailures',
  'RecursionStopped',
  'ConfigurationFaults',
  'ThrottledRetries',
  'EventsExpire',
  'Lateness',
  'LedgerFaults',
  'CircuitOpen',
] as const;

export type AlarmName = (typeof ALARMS)[number];

/** The condition of an alarm, and its description, which says what to do. */
export interface Trigger {
  readonly metric: cloudwatch.IMetric;
  readonly severity: AlarmSeverity;
  /** @default - any value above zero */
  readonly above?: number;
  /** @default 1 */
  readonly periods?: number;
  /** @default - all of the periods */
  readonly periodsAbove?: number;
  readonly description: string;
}

/**
 * The triggers of some alarms. Expressions use the sum of a list, because it ignores missing metrics, even one that
 * never had a value.
 */
export type Triggers = { readonly [name in AlarmName]?: Trigger };

const { PAGE, TICKET } = AlarmSeverity;

/** Far longer than a queue and a mapping need. */
const LATENESS = Duration.minutes(5);

/** A working mapping receives visible messages within a second. Three periods are 15 minutes. */
const UNREAD_PERIODS = 3;

/** Above this, the handler keeps some waits as delays, because the queue has too many messages in flight. */
const BACKLOG_PERCENT = 50;

/** The handler's default for `inFlightMax`. */
const IN_FLIGHT_MAX = 100_000;

/** Leaves half of an event's maximum age to find the cause. */
const AGE_PERCENT = 50;

/** SQS deletes dead letters after their retention. Of 14 days, this leaves four. */
const RETENTION_SHARE = 10 / 14;

/**
 * While a function is down, up to 15 minutes pass between two of its metrics, because its events wait that long. With
 * fewer periods, the alarm would go off repeatedly during one outage.
 */
const DOWN_PERIODS = 4;

/** Keep the alarm on while events are given up one by one. */
const GIVEN_UP_PERIODS = 3;
const GROWTH_PERIODS = 12;

/** The log's metrics arrive later than the function's. */
const SILENT_PERIODS = 3;

/** A throttled event is tried again after at most five minutes, so each 15-minute period has at least one try. */
const THROTTLED_PERIOD = Duration.minutes(15);
const THROTTLED_PERIODS = 2;

/** The alarms on dead letters that can't be sent and on events that are given up, of all handlers in the region. */
export function ofRegion(): Triggers {
  return {
    DeadLettersNotSent: {
      metric: UNSENT,
      severity: PAGE,
      description:
        "A retry handler in this region can't send dead letters to its dead-letter queue, so " +
        "these events stay in the retry queue. The errors in the handler's log name the queue " +
        "and the cause: the queue is missing, or its policy, the handler's role or the key " +
        'forbids sending. Fix the cause.',
    },
    EventsGivenUp: {
      metric: EVENTS_GIVEN_UP,
      severity: PAGE,
      periods: GIVEN_UP_PERIODS,
      periodsAbove: 1,
      description:
        'A retry handler in this region gives up events that might have succeeded, or that it is not allowed to ' +
        'retry. Look at the dead letters by reason, function and error. Errors that never heal (not_retryable) and ' +
        'cancelled events are not counted.',
    },
  };
}

/** The alarms of a dead-letter queue. */
export function ofDeadLetters(queue: sqs.IQueue): Triggers {
  const letters = queue.metricApproximateNumberOfMessagesVisible({ statistic: cloudwatch.Stats.MAXIMUM });
  return {
    DeadLetters: {
      metric: letters,
      severity: TICKET,
      description:
        'Events were given up. The attribute Reason of each message in the dead-letter queue says why. A message ' +
        'without Reason was moved there by SQS, because the handler failed on it for days. Fix the cause, then start ' +
        'a redrive of the dead-letter queue, with the retry queue that accepts all dead letters as its custom ' +
        'destination. Each event starts over.',
    },
    DeadLettersGrow: {
      metric: new cloudwatch.MathExpression({
        expression: 'DIFF(letters)',
        usingMetrics: { letters },
        label: 'more dead letters',
        period: letters.period,
      }),
      severity: TICKET,
      periods: GROWTH_PERIODS,
      periodsAbove: 1,
      description:
        'The number of dead letters has grown. The alarm DeadLetters does not show this, because it stays on from ' +
        'the first one. Look at the dead letters of the last hour by reason, function and error.',
    },
    DeadLettersExpire: {
      metric: queue.metricApproximateAgeOfOldestMessage({ statistic: cloudwatch.Stats.MAXIMUM }),
      severity: PAGE,
      above: Math.floor(retentionOf(queue).toSeconds() * RETENTION_SHARE),
      description:
        'The oldest dead letter has been in its queue for so long that SQS soon deletes it. Look at the dead ' +
        'letters, and redrive, export or purge them.',
    },
  };
}

/** The alarms of the retry handler. */
export function ofHandler(handler: lambda.Function): Triggers {
  return {
    HandlerErrors: {
      metric: handler.metricErrors(),
      severity: PAGE,
      description:
        'The retry handler fails. Check its log: an invalid setting stops it at startup, and the log names the ' +
        'variable. Nothing is lost in the meantime: SQS delivers each message up to a thousand times.',
    },
    HandlerThrottles: {
      metric: handler.metricThrottles(),
      severity: TICKET,
      description:
        "The retry handler is throttled, so retries are late. Raise the account's concurrency, " +
        'or give the handler a reserved concurrency that is at least the maximum concurrency of ' +
        'its mappings.',
    },
    HandlerRecursionStopped: {
      metric: metricOfLambda('RecursiveInvocationsDropped', handler),
      severity: PAGE,
      description:
        'Lambda took the retry handler for an endless loop, and stopped it. Set its RecursiveLoop to Allow. SQS ' +
        'delivers its messages again.',
    },
    HandlerSilent: {
      metric: new cloudwatch.MathExpression({
        expression:
          'SUM([IF(SUM([invocations, logged]) == invocations, invocations, 0), ' +
          'IF(published == 0, invocations - errors, 0), unparsed, invalid])',
        usingMetrics: {
          invocations: handler.metricInvocations(),
          errors: handler.metricErrors(),
          logged: metricOfLog('IncomingLogEvents', handler.logGroup),
          published: metricOfLines(handler),
          unparsed: metricOfLog('EMFParsingErrors', handler.logGroup),
          invalid: metricOfLog('EMFValidationErrors', handler.logGroup),
        },
        label: 'no log or no metrics',
        period: handler.metricInvocations().period,
      }),
      severity: PAGE,
      periods: SILENT_PERIODS,
      description:
        'The retry handler runs, but its log or its metrics are missing, so most of the other alarms are blind. ' +
        'Check that its log group exists and is of the class Standard, that its role may write to it, and that no ' +
        'log level is set.',
    },
  };
}

/** The alarms of a retry queue. */
export function ofQueue(queue: sqs.IQueue, { inFlightMax = IN_FLIGHT_MAX }: AsyncRetryProps): Triggers {
  const inFlight = queue.metricApproximateNumberOfMessagesNotVisible({ statistic: cloudwatch.Stats.MAXIMUM });
  return {
    UnreadMessages: {
      metric: queue.metricApproximateNumberOfMessagesVisible({ statistic: cloudwatch.Stats.MINIMUM }),
      severity: PAGE,
      periods: UNREAD_PERIODS,
      description:
        'For a quarter of an hour, a retry queue has constantly had messages that are due but not received. Check ' +
        "that the queue's mapping is enabled and that the handler is not throttled. If the handler is only busy, " +
        "raise the mapping's maximum concurrency. If 120,000 messages are in flight, SQS delivers none: the errors " +
        "in the handler's log say why it can't send them again with a delay.",
    },
    Backlog: {
      metric: new cloudwatch.MathExpression({
        expression: `100 * SUM([inFlight, delayed]) / ${Tokenization.stringifyNumber(inFlightMax)}`,
        usingMetrics: {
          inFlight,
          delayed: queue.metricApproximateNumberOfMessagesDelayed({ statistic: cloudwatch.Stats.MAXIMUM }),
        },
        label: 'waiting events in percent of IN_FLIGHT_MAX',
        period: inFlight.period,
      }),
      severity: TICKET,
      above: BACKLOG_PERCENT,
      description:
        'The number of events that wait in a retry queue is above its threshold, a percentage of IN_FLIGHT_MAX. ' +
        'Nothing stalls, but waits that are kept as delays cost more. Look for the function that is down.',
    },
  };
}

/** The alarms of one function. */
export function ofFunction(
  target: lambda.IFunction,
  retry: AsyncRetry,
  options: AsyncRetryProps,
  maxAge: Duration,
): Triggers {
  const age = retry.metricEventAge({ target }) as cloudwatch.Metric;
  return {
    UndeliveredFailures: {
      metric: metricOfLambda('DestinationDeliveryFailures', target),
      severity: PAGE,
      description:
        'Lambda could not send failed events of this function to the retry queue, and dropped ' +
        "them. Check that the function's role may send to the queue and use its key. A payload " +
        'near 1 MiB is dropped too, because its failure record does not fit into a message.',
    },
    RecursionStopped: {
      metric: metricOfLambda('RecursiveInvocationsDropped', target),
      severity: PAGE,
      description:
        'Lambda took the retries of this function for an endless loop, and stopped them. Set ' +
        'its RecursiveLoop to Allow. Then redrive the dead-letter queue, where the reason of ' +
        'these events is recursion_stopped.',
    },
    ConfigurationFaults: {
      metric: retry.metricConfigurationFaults({ target }),
      severity: PAGE,
      description:
        "This function can't be re-invoked: a permission, the key or the function itself is " +
        "missing. The errors in the handler's log say which. Fix it; until then its events " +
        'wait, but no longer than their maximum age.',
    },
    ThrottledRetries: {
      metric: new cloudwatch.MathExpression({
        expression: 'IF(SUM([throttled, invoked]) == throttled, throttled, 0)',
        usingMetrics: { throttled: retry.metricThrottled({ target }), invoked: retry.metricInvoked({ target }) },
        label: 'throttled and never accepted',
        period: THROTTLED_PERIOD,
      }),
      severity: PAGE,
      periods: THROTTLED_PERIODS,
      description:
        "Lambda throttles the retries of this function, and accepts none. Find out what uses up the account's " +
        "concurrency, and check the rate of asynchronous invocations and AWS's health page.",
    },
    EventsExpire: {
      metric: new cloudwatch.MathExpression({
        expression: `100 * age / ${secondsOf(maxAge)}`,
        usingMetrics: { age },
        label: 'oldest event in percent of its maximum age',
        period: age.period,
      }),
      severity: PAGE,
      above: AGE_PERCENT,
      periods: DOWN_PERIODS,
      periodsAbove: 1,
      description:
        'An event of this function has been failing, or was paused, for a large part of its maximum age. When it ' +
        "reaches that age, it is given up. Check the function's log and fix the cause; resume the function if it is " +
        'paused. If only this event fails, cancel it, or list its error in NON_RETRYABLE_ERRORS.',
    },
    Lateness: {
      metric: retry.metricInvokeLateness({ target }),
      severity: TICKET,
      above: LATENESS.toMilliseconds(),
      description:
        'Retries of this function are late. Check whether the handler is throttled. If its retry queue has more due ' +
        "messages than the handler can process, raise the mapping's maximum concurrency.",
    },
    ...(options.ledger && {
      LedgerFaults: {
        metric: retry.metricLedgerFaults({ target }),
        severity: PAGE,
        description:
          "The ledger can't say whether failures of this function were already handled, so its " +
          "events wait. The errors in the handler's log say whether the table, the permission " +
          'or the key is missing.',
      },
    }),
    ...(options.probe && {
      CircuitOpen: {
        metric: retry.metricCircuitOpen({ target }),
        severity: PAGE,
        periods: DOWN_PERIODS,
        periodsAbove: 1,
        description:
          'This function has been down since this alarm went off: nearly all re-invocations failed. It is now probed ' +
          'with one event at a time, and its other events wait without using up attempts, but no longer than their ' +
          "maximum age. Check the function's log and fix the cause. Retries resume by themselves when a probe " +
          'succeeds.',
      },
    }),
  };
}
