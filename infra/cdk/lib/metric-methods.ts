import { aws_cloudwatch as cloudwatch } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import type { RetryMetricOptions } from './metrics';

/**
 * The methods of an `AsyncRetry` for the handler's metrics. For jsii this class doesn't exist, and its methods are
 * those of `AsyncRetry` itself.
 *
 * @internal
 */
export abstract class MetricMethods extends Construct {
  // generated: methods, by infra/contract/generate.py
  /** Events that were put back until they are due. By default the sum. */
  public metricWaited(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('Waited', options);
  }

  /** Retries that Lambda accepted. By default the sum. */
  public metricInvoked(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('Invoked', options);
  }

  /** How long after its due time each retry was accepted, in milliseconds. By default the 99th percentile. */
  public metricInvokeLateness(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('InvokeLateness', options);
  }

  /** The time since the first failure, of each event that was handled, in seconds. By default the maximum. */
  public metricEventAge(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('EventAge', options);
  }

  /** Events that were given up, by `Target` and `Reason`. By default the sum. */
  public metricDeadLettered(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('DeadLettered', options);
  }

  /** Given-up events whose dead letter can't be sent. By default the sum. */
  public metricDeadLettersNotSent(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('DeadLettersNotSent', options);
  }

  /**
   * Retries, and reads of records in buckets, that AWS throttled or answered with a server error (5xx). By default the
   * sum.
   */
  public metricThrottled(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('Throttled', options);
  }

  /**
   * Retries, and reads of records in buckets, that AWS refuses until somebody changes something. By default the sum.
   */
  public metricConfigurationFaults(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('ConfigurationFaults', options);
  }

  /** Failures that were delivered again and dropped; needs a ledger. By default the sum. */
  public metricDuplicates(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('Duplicates', options);
  }

  /** Events for which the ledger could not be used. By default the sum. */
  public metricLedgerFaults(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('LedgerFaults', options);
  }

  /** 1 while the target is down, 0 otherwise, whenever its circuit is read; needs probes. By default the maximum. */
  public metricCircuitOpen(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('CircuitOpen', options);
  }

  /** Retries that test whether the target has recovered; needs probes. By default the sum. */
  public metricProbes(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('Probes', options);
  }

  /** Waiting events brought forward when the target recovered; needs probes and a register. By default the sum. */
  public metricBroughtForward(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this._metric('BroughtForward', options);
  }
  // end: methods

  /**
   * A metric of the handler, by its name.
   *
   * @internal
   */
  protected abstract _metric(name: string, options: RetryMetricOptions): cloudwatch.IMetric;
}
