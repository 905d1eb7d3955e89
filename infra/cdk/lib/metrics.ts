import { aws_cloudwatch as cloudwatch, aws_lambda as lambda, Duration } from 'aws-cdk-lib';

/** Where the handler's metrics are. */
const NAMESPACE = 'Comeback';

/** How a metric is looked at, and of which function. */
export interface RetryMetricOptions extends cloudwatch.MetricOptions {
  /**
   * One of the attached functions.
   *
   * @default - all functions that are attached by now, together
   */
  readonly target?: lambda.IFunction;
}

/**
 * How many dead letters could not be sent, of all targets together: whatever a message names, or nothing at all. An
 * alarm can't search for metrics, but it can query them. It finds those of other handlers in the region too.
 */
export const DEAD_LETTERS_NOT_SENT = new cloudwatch.MathExpression({
  expression: `SELECT SUM(DeadLettersNotSent) FROM SCHEMA(${NAMESPACE}, Target)`,
  usingMetrics: {},
  label: 'DeadLettersNotSent',
  period: Duration.minutes(5),
});

/**
 * A metric of the handler for functions; of several, taken together by a function of metric math. An alarm takes ten.
 */
export function metricOf(
  metricName: string,
  targets: lambda.IFunction[],
  together: 'SUM' | 'MAX',
  options: cloudwatch.MetricOptions,
): cloudwatch.IMetric {
  const each = targets.map(
    (target) =>
      new cloudwatch.Metric({
        namespace: NAMESPACE,
        metricName,
        ...options,
        dimensionsMap: { Target: target.functionName, ...options.dimensionsMap },
      }),
  );
  if (each.length === 1) return each[0];
  // Ids of their own, so that it can be put into another expression, or beside others into a graph.
  const ids = each.map((_, index) => `${metricName.charAt(0).toLowerCase()}${metricName.slice(1)}${index}`);
  return new cloudwatch.MathExpression({
    expression: `${together}([${ids}])`,
    usingMetrics: Object.fromEntries(each.map((metric, index) => [ids[index], metric])),
    label: options.label ?? metricName,
    period: options.period,
    color: options.color,
  });
}

/** One of Lambda's own metrics of a function that the CDK has no method for. */
export function metricOfLambda(name: string, target: lambda.IFunction): cloudwatch.Metric {
  return target.metric(name, { statistic: cloudwatch.Stats.SUM });
}
