import {
  aws_cloudwatch as cloudwatch,
  aws_lambda as lambda,
  aws_sqs as sqs,
  Duration,
  Tokenization,
} from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import { propertyOf, read, SETTINGS } from './contract';
import { retentionOf } from './queues';
import { nameOfLines } from './metrics';
import type { AsyncRetryProps } from './props';
import { secondsOf } from './durations';
import type { Retried } from './target';

/** How soon a person must react. */
export enum AlarmSeverity {
  /** Now: events are lost, are about to be, or don't come back. */
  PAGE = 'page',
  /** On a working day: nothing is lost until then. */
  TICKET = 'ticket',
}

/** An alarm of the contract. */
interface Definition {
  /** What it watches. A target is a function or a queue. */
  readonly of: 'region' | 'dead_letter_queue' | 'handler' | 'queue' | 'target' | 'function';
  /** What must be switched on, as the contract calls it. */
  readonly only_with?: string;
  readonly severity: AlarmSeverity;
  readonly above: number;
  readonly periods_above: number;
  readonly periods: number;
  /** In seconds. */
  readonly period: number;
  readonly description: string;
  readonly label?: string;
  readonly expression?: string;
  /** Namespace, name, dimension and statistic of each metric. Without an expression, there is one. */
  readonly metrics: { readonly [id: string]: [string, string, string | null, string] };
}

/** The alarms of an `AsyncRetry` by their names, as Terraform and SAM have them too. */
const DEFINITIONS: { readonly [name: string]: Definition } = read('alarms');

/** The names of all alarms. */
export const ALARMS = Object.keys(DEFINITIONS);

/** The condition of an alarm, and its description, which says what to do. */
export interface Trigger {
  readonly metric: cloudwatch.Metric | cloudwatch.MathExpression;
  readonly severity: AlarmSeverity;
  readonly above: number;
  readonly periods: number;
  readonly periodsAbove: number;
  readonly description: string;
}

/** The triggers of some alarms. */
export type Triggers = { readonly [name: string]: Trigger };

/** What alarms watch: the values of dimensions, and of the variables in names and expressions. */
interface Watched {
  readonly construct?: IConstruct;
  readonly dimensions: { readonly [name: string]: string };
  readonly variables?: { readonly [name: string]: string };
}

/** The alarms on dead letters that can't be sent and on events that are given up, of all handlers in the region. */
export function ofRegion(options: AsyncRetryProps): Triggers {
  return triggers('region', options, { dimensions: {} });
}

/** The alarms of a dead-letter queue. */
export function ofDeadLetters(queue: sqs.IQueue, options: AsyncRetryProps): Triggers {
  const all = triggers('dead_letter_queue', options, {
    construct: queue,
    dimensions: { QueueName: queue.queueName },
  });
  // The definition is about a queue that keeps messages for 14 days.
  const share = retentionOf(queue).toSeconds() / Duration.days(14).toSeconds();
  const { DeadLettersExpire: expire, ...others } = all;
  return { ...others, DeadLettersExpire: { ...expire, above: Math.floor(expire.above * share) } };
}

/** The alarms of the retry handler. */
export function ofHandler(handler: lambda.Function, options: AsyncRetryProps): Triggers {
  return triggers('handler', options, {
    construct: handler,
    dimensions: { FunctionName: handler.functionName, LogGroupName: handler.logGroup.logGroupName },
    variables: { 'MetricLines-${handler}': nameOfLines(handler) },
  });
}

/** The alarms of a retry queue. */
export function ofQueue(queue: sqs.IQueue, options: AsyncRetryProps): Triggers {
  const { inFlightMax = SETTINGS.IN_FLIGHT_MAX.default as number } = options;
  return triggers('queue', options, {
    construct: queue,
    dimensions: { QueueName: queue.queueName },
    variables: { '${in_flight_max}': Tokenization.stringifyNumber(inFlightMax) },
  });
}

/** The alarms of one function, or of a queue that is retried, which has no metrics of Lambda. */
export function ofTarget(target: Retried, options: AsyncRetryProps, maxAge: Duration): Triggers {
  const { name, construct } = target;
  const watched: Watched = {
    construct,
    dimensions: { FunctionName: name, Target: name },
    variables: { '${max_age_seconds}': `${secondsOf(maxAge)}` },
  };
  return {
    ...(target.function && triggers('function', options, watched)),
    ...triggers('target', options, watched),
  };
}

/** The alarm of a function that consumes a queue. */
export function ofConsumer(consumer: lambda.IFunction, options: AsyncRetryProps): Triggers {
  const { functionName } = consumer;
  const dimensions = { FunctionName: functionName, Target: functionName };
  const { RecursionStopped } = triggers('function', options, { construct: consumer, dimensions });
  return { RecursionStopped };
}

/** The alarms about something, without those that need what is switched off. */
function triggers(of: Definition['of'], options: AsyncRetryProps, watched: Watched): Triggers {
  const isOn = (name: string) => Boolean(options[propertyOf(name) as keyof AsyncRetryProps]);
  const own = Object.entries(DEFINITIONS).filter(
    ([, { of: about, only_with }]) => about === of && (only_with === undefined || isOn(only_with)),
  );
  return Object.fromEntries(own.map(([name, definition]) => [name, trigger(definition, watched)]));
}

function trigger(definition: Definition, watched: Watched): Trigger {
  const { severity, above, periods, periods_above, description } = definition;
  return { metric: metric(definition, watched), severity, above, periods, periodsAbove: periods_above, description };
}

function metric(definition: Definition, watched: Watched): cloudwatch.Metric | cloudwatch.MathExpression {
  const { construct, dimensions, variables = {} } = watched;
  const period = Duration.seconds(definition.period);
  const replaced = (text: string) =>
    Object.entries(variables).reduce((text, [name, value]) => text.replaceAll(name, value), text);
  const metrics = Object.entries(definition.metrics).map(([id, [namespace, name, dimension, statistic]]) => {
    const dimensionsMap = dimension ? { [dimension]: dimensions[dimension] } : undefined;
    const metric = new cloudwatch.Metric({
      namespace,
      metricName: replaced(name),
      dimensionsMap,
      statistic,
      period,
    });
    // Only the metrics of AWS are where the construct is; those of the handler are where the handler is.
    return [id, construct && /^AWS\/(Lambda|SQS)$/.test(namespace) ? metric.attachTo(construct) : metric] as const;
  });
  if (definition.expression === undefined) return metrics[0][1];
  const { label } = definition;
  const expression = replaced(definition.expression);
  return new cloudwatch.MathExpression({ expression, usingMetrics: Object.fromEntries(metrics), label, period });
}
