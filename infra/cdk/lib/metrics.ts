import {
  aws_cloudwatch as cloudwatch,
  aws_dynamodb as dynamodb,
  aws_lambda as lambda,
  aws_logs as logs,
  aws_sqs as sqs,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';

/** The parts of an `AsyncRetry` that its alarms, its dashboard and people look at. */
export interface RetrySystem extends Construct {
  readonly handler: lambda.Function;
  readonly deadLetterQueue: sqs.IQueue;
  readonly ledger?: dynamodb.ITable;
}

/** The namespace of the handler's metrics. */
const NAMESPACE = 'Comeback';

/** Options of a metric, with the function or queue that it is about. */
export interface RetryMetricOptions extends cloudwatch.MetricOptions {
  /**
   * One of the attached functions.
   * @default - all functions and queues that are attached so far, together
   */
  readonly target?: lambda.IFunction;

  /**
   * One of the attached queues, instead of a function.
   * @default - all functions and queues that are attached so far, together
   */
  readonly queue?: sqs.IQueue;
}

/** The statistics of the handler's metrics that don't count. */
const STATISTICS: { readonly [metric: string]: string } = {
  // generated: statistics, by infra/contract/generate.py
  InvokeLateness: 'p99',
  EventAge: 'Maximum',
  CircuitOpen: 'Maximum',
  // end: statistics
};

/** A metric of the handler for targets, by name. Metric math combines several; an alarm supports at most ten. */
export function metricOf(
  metricName: string,
  targets: string[],
  options: cloudwatch.MetricOptions = {},
): cloudwatch.IMetric {
  const each = targets.map(
    (target) =>
      new cloudwatch.Metric({
        namespace: NAMESPACE,
        metricName,
        statistic: STATISTICS[metricName] ?? cloudwatch.Stats.SUM,
        ...options,
        dimensionsMap: { Target: target, ...options.dimensionsMap },
      }),
  );
  if (each.length === 1) return each[0];
  // Unique ids, so that the metric can be used in another expression or beside others in a graph.
  const ids = each.map((_, index) => `${metricName.charAt(0).toLowerCase()}${metricName.slice(1)}${index}`);
  return new cloudwatch.MathExpression({
    expression: `${metricName in STATISTICS ? 'MAX' : 'SUM'}([${ids}])`,
    usingMetrics: Object.fromEntries(each.map((metric, index) => [ids[index], metric])),
    label: options.label ?? metricName,
    period: options.period,
    color: options.color,
  });
}

/** One of Lambda's own metrics for which the CDK has no method. */
export function metricOfLambda(name: string, target: lambda.IFunction): cloudwatch.Metric {
  return target.metric(name, { statistic: cloudwatch.Stats.SUM });
}

/** A metric of CloudWatch Logs about a log group. */
export function metricOfLog(metricName: string, { logGroupName }: logs.ILogGroup): cloudwatch.Metric {
  const dimensionsMap = { LogGroupName: logGroupName };
  return new cloudwatch.Metric({
    namespace: 'AWS/Logs',
    metricName,
    dimensionsMap,
    statistic: cloudwatch.Stats.SUM,
  });
}

/** Counts the lines of a handler's log that have metrics, because the metrics don't identify their handler. */
export function countMetricLines(scope: Construct, handler: lambda.Function): void {
  new logs.MetricFilter(scope, 'MetricLines', {
    logGroup: handler.logGroup,
    filterPattern: logs.FilterPattern.stringValue('$._aws.CloudWatchMetrics[0].Namespace', '=', NAMESPACE),
    metricNamespace: NAMESPACE,
    metricName: nameOfLines(handler),
    // The value if lines arrive, but none with metrics.
    defaultValue: 0,
  });
}

/** The name of the metric that counts them. */
export function nameOfLines({ functionName }: lambda.Function): string {
  return `MetricLines-${functionName}`;
}
