import { aws_cloudwatch as cloudwatch, aws_lambda as lambda, Duration } from 'aws-cdk-lib';

/** Where the handler's metrics are. */
const NAMESPACE = 'Comeback';

/** How often a metric is looked at where nothing is said, as in the CDK's own constructs. */
const PERIOD = Duration.minutes(5);

/** How a metric is looked at, and of which function. */
export interface RetryMetricOptions extends cloudwatch.MetricOptions {
  /**
   * One of the attached functions.
   *
   * @default - all functions that are attached by now, together
   */
  readonly target?: lambda.IFunction;
}

/** A metric of the handler for functions; of several, taken together by a function of metric math. */
export function metricOf(
  metricName: string, targets: lambda.IFunction[], together: 'SUM' | 'MAX', options: cloudwatch.MetricOptions,
): cloudwatch.IMetric {
  const each = targets.map((target) => new cloudwatch.Metric({
    namespace: NAMESPACE,
    metricName,
    period: PERIOD,
    ...options,
    dimensionsMap: { Target: target.functionName, ...options.dimensionsMap },
  }));
  return each.length === 1 ? each[0] : new cloudwatch.MathExpression({
    expression: `${together}(METRICS())`,
    usingMetrics: Object.fromEntries(each.map((metric, index) => [`m${index}`, metric])),
    label: options.label ?? metricName,
    period: options.period ?? PERIOD,
    color: options.color,
  });
}

/** One of Lambda's own metrics of a function that the CDK has no method for. */
export function metricOfLambda(name: string, target: lambda.IFunction): cloudwatch.Metric {
  return target.metric(name, { statistic: cloudwatch.Stats.SUM });
}
