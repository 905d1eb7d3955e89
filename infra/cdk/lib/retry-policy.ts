import type { Duration } from 'aws-cdk-lib';

/** How a backoff is drawn. */
export enum Jitter {
  /** Evenly between the base backoff and the ceiling. */
  FULL = 'full',
  /** Evenly between half the ceiling and the ceiling. */
  EQUAL = 'equal',
  /** The ceiling itself. */
  NONE = 'none',
}

/** How long, how often and after which errors events are retried. */
export interface RetryPolicy {
  // generated: properties, by infra/contract/generate.py
  /**
   * The first backoff; its ceiling doubles with each attempt; from 1s to 12h.
   *
   * @default Duration.seconds(1)
   */
  readonly baseBackoff?: Duration;

  /**
   * The ceiling of one backoff; from `baseBackoff` to 13d.
   *
   * @default Duration.hours(12)
   */
  readonly maxBackoff?: Duration;

  /**
   * The ceilings of the first, the second and the further backoffs, instead of `baseBackoff` and `maxBackoff`; the last
   * one repeats; each from 1s to 13d.
   *
   * @default - none
   */
  readonly backoffs?: Duration[];

  /**
   * How long after its first failure an event may still be retried; longer than `baseBackoff`; from 2s to 365d.
   *
   * @default Duration.days(1)
   */
  readonly maxAge?: Duration;

  /**
   * How many times an event may be re-invoked; without it, as often as `maxAge` allows.
   *
   * @default - no limit
   */
  readonly maxAttempts?: number;

  /**
   * How a backoff is drawn: `full` between `baseBackoff`, or the shortest of `backoffs`, and the ceiling, `equal`
   * between half the ceiling and the ceiling; `none` is the ceiling.
   *
   * @default Jitter.FULL
   */
  readonly jitter?: Jitter;

  /**
   * Error types that are never retried, in addition to `PermanentFailure`; `*` matches any run of characters; matched
   * against the whole type and its last segment, after `.` or `::`.
   *
   * @default - none
   */
  readonly nonRetryableErrors?: string[];

  /**
   * A JSON pointer to the tenant id in the payload, such as /tenant/id, which functions with tenant isolation need.
   *
   * @default - none
   */
  readonly tenantId?: string;

  /**
   * Whether the function is durable: each attempt then has an execution name, with which Lambda starts it once.
   *
   * @default false
   */
  readonly durable?: boolean;

  /**
   * Whether the function is re-invoked with its original payload, without an envelope; the ledger then has what the
   * envelope would say. Needs `ledger`.
   *
   * @default false
   */
  readonly transparent?: boolean;
  // end: properties

  /**
   * The errors after which events are retried in another way. The first whose type matches decides; what it doesn't
   * set is that of the function. The errors of a function come before those of all functions.
   *
   * @default - none
   */
  readonly errors?: ErrorPolicy[];
}

/** The settings of events that failed last with some error. */
export interface ErrorPolicy {
  /** The type of the error; `*` matches any run of characters, as in `nonRetryableErrors`. */
  readonly errorType: string;

  // generated: properties of errors, by infra/contract/generate.py
  /**
   * The first backoff; its ceiling doubles with each attempt; from 1s to 12h.
   *
   * @default - that of the function
   */
  readonly baseBackoff?: Duration;

  /**
   * The ceiling of one backoff; from `baseBackoff` to 13d.
   *
   * @default - that of the function
   */
  readonly maxBackoff?: Duration;

  /**
   * The ceilings of the first, the second and the further backoffs, instead of `baseBackoff` and `maxBackoff`; the last
   * one repeats; each from 1s to 13d.
   *
   * @default - that of the function
   */
  readonly backoffs?: Duration[];

  /**
   * How long after its first failure an event may still be retried; longer than `baseBackoff`; from 2s to 365d.
   *
   * @default - that of the function
   */
  readonly maxAge?: Duration;

  /**
   * How many times an event may be re-invoked; without it, as often as `maxAge` allows.
   *
   * @default - that of the function
   */
  readonly maxAttempts?: number;

  /**
   * How a backoff is drawn: `full` between `baseBackoff`, or the shortest of `backoffs`, and the ceiling, `equal`
   * between half the ceiling and the ceiling; `none` is the ceiling.
   *
   * @default - that of the function
   */
  readonly jitter?: Jitter;
  // end: properties of errors
}
