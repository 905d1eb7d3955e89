import { Duration, Fn, Token, Tokenization } from 'aws-cdk-lib';
import { Faults } from './faults';

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
  /**
   * The first backoff, 1 second to 12 hours; its ceiling doubles with each attempt.
   *
   * @default Duration.seconds(1)
   */
  readonly baseBackoff?: Duration;

  /**
   * The ceiling of one backoff, from `baseBackoff` to 13 days.
   *
   * @default Duration.hours(12)
   */
  readonly maxBackoff?: Duration;

  /**
   * How long after its first failure an event may still be retried, up to 365 days.
   *
   * @default Duration.hours(24)
   */
  readonly maxAge?: Duration;

  /**
   * How many times an event may be re-invoked, from 1.
   *
   * @default - as often as `maxAge` allows
   */
  readonly maxAttempts?: number;

  /**
   * How a backoff is drawn.
   *
   * @default Jitter.FULL
   */
  readonly jitter?: Jitter;

  /**
   * Error types that are never retried; their events are dead-lettered at once. `*` matches any run of
   * characters. A pattern is matched against the whole type and its last segment (after `.` or `::`).
   *
   * @default - none but `PermanentFailure`, which always counts
   */
  readonly nonRetryableErrors?: string[];
}

const SECONDS_PER_UNIT: [string, number][] = [
  ['d', 24 * 60 * 60],
  ['h', 60 * 60],
  ['m', 60],
  ['s', 1],
];

/** SQS counts visibility in whole seconds. A first backoff beyond 12 hours makes no sense. */
const BASE_BACKOFF = [Duration.seconds(1), Duration.hours(12)];

/** SQS keeps a message for at most 14 days. A wait of 13 days leaves a day for the next attempt. */
const MAX_BACKOFF_MAX = Duration.days(13);

/** The handler's own limit. */
const MAX_AGE_MAX = Duration.days(365);

/** The last attempt is made this long before `maxAge` ends, or 1 % of `maxAge` before if that is less. */
const SLACK_SECONDS_MAX = 60;

/** The handler counts attempts in 32 bits. */
const MAX_ATTEMPTS_MAX = 2 ** 32 - 1;

export const DEFAULT_POLICY = {
  baseBackoff: Duration.seconds(1),
  maxBackoff: Duration.hours(12),
  maxAge: Duration.hours(24),
  jitter: Jitter.FULL,
};

/** The effective policy of a function: its own values override the general ones. */
export function effectivePolicy(general: RetryPolicy, own: RetryPolicy = {}): RetryPolicy & typeof DEFAULT_POLICY {
  return {
    baseBackoff: own.baseBackoff ?? general.baseBackoff ?? DEFAULT_POLICY.baseBackoff,
    maxBackoff: own.maxBackoff ?? general.maxBackoff ?? DEFAULT_POLICY.maxBackoff,
    maxAge: own.maxAge ?? general.maxAge ?? DEFAULT_POLICY.maxAge,
    jitter: own.jitter ?? general.jitter ?? DEFAULT_POLICY.jitter,
    maxAttempts: own.maxAttempts ?? general.maxAttempts,
    nonRetryableErrors: own.nonRetryableErrors ?? general.nonRetryableErrors,
  };
}

/** Reports the faults of a policy, by the handler's rules. Tokens are not checked. */
export function checkPolicy(policy: RetryPolicy & typeof DEFAULT_POLICY, faults: Faults): void {
  const [baseMin, baseMax] = BASE_BACKOFF;
  const baseIsGood = checkDuration('baseBackoff', policy.baseBackoff, baseMin, baseMax, faults);
  // One wrong value is one fault: the others are checked as if this one were not set.
  const base = baseIsGood && !policy.baseBackoff.isUnresolved() ? policy.baseBackoff : baseMin;
  checkDuration('maxBackoff', policy.maxBackoff, base, MAX_BACKOFF_MAX, faults, 'baseBackoff');
  if (checkDuration('maxAge', policy.maxAge, Duration.seconds(1), MAX_AGE_MAX, faults)) {
    checkLastChance(base, policy.maxAge, faults);
  }
  checkWhole('maxAttempts', policy.maxAttempts, 1, MAX_ATTEMPTS_MAX, faults);
  const jitters: string[] = Object.values(Jitter);
  if (!Token.isUnresolved(policy.jitter) && !jitters.includes(policy.jitter)) {
    faults.add('jitter', jitters.join(', '), policy.jitter);
  }
  checkErrors(policy.nonRetryableErrors, faults);
}

/** Reports a number that is not whole, or is out of its range. */
export function checkWhole(
  property: string,
  value: number | undefined,
  min: number,
  max: number,
  faults: Faults,
): void {
  if (value === undefined || Token.isUnresolved(value)) return;
  if (!Number.isInteger(value) || value < min || value > max) {
    faults.add(property, `a whole number from ${min} to ${max}`, value);
  }
}

/** The handler's variables for the properties that are set. A function's policy has the same names. */
export function variables(policy: RetryPolicy): { [name: string]: string } {
  const { baseBackoff, maxBackoff, maxAge, maxAttempts, jitter, nonRetryableErrors } = policy;
  return {
    ...(baseBackoff && { BASE_BACKOFF: formatDuration(baseBackoff) }),
    ...(maxBackoff && { MAX_BACKOFF: formatDuration(maxBackoff) }),
    ...(maxAge && { MAX_AGE: formatDuration(maxAge) }),
    ...(maxAttempts !== undefined && { MAX_ATTEMPTS: Tokenization.stringifyNumber(maxAttempts) }),
    ...(jitter && { JITTER: jitter }),
    ...(nonRetryableErrors && { NON_RETRYABLE_ERRORS: joinList(nonRetryableErrors) }),
  };
}

/** An empty list overrides the general one. */
function joinList(list: string[]): string {
  return list.length > 0 ? Fn.join(',', list) : '';
}

/** Formats a duration for the handler, in the largest unit that divides it. */
export function formatDuration(duration: Duration): string {
  if (duration.isUnresolved()) {
    const [count, unit] = duration.formatTokenToNumber().split(' ');
    return count + unit[0];
  }
  // The checks report a duration that is not in whole seconds.
  const seconds = duration.toSeconds({ integral: false });
  const [unit, perUnit] = SECONDS_PER_UNIT.find(([, each]) => seconds % each === 0) ?? ['s', 1];
  return `${seconds / perUnit}${unit}`;
}

/** The seconds of a duration, for a CloudWatch expression. */
export function secondsOf(duration: Duration): string {
  if (!duration.isUnresolved()) return String(duration.toSeconds());
  const [count, unit] = duration.formatTokenToNumber().split(' ');
  const perUnit = SECONDS_PER_UNIT.find(([initial]) => initial === unit[0])?.[1] ?? 1;
  return `(${count} * ${perUnit})`;
}

/** Reports a token instead of a value that must be known at synthesis. Returns whether the value is known. */
export function checkKnown(property: string, value: Duration | number, faults: Faults): boolean {
  const isKnown = typeof value === 'number' ? !Token.isUnresolved(value) : !value.isUnresolved();
  if (!isKnown) faults.note(`${property} must be known at synthesis, got a token`);
  return isKnown;
}

/** Reports a duration that is out of its range or not in whole seconds. Returns whether it is valid. */
export function checkDuration(
  property: string,
  value: Duration,
  min: Duration,
  max: Duration,
  faults: Faults,
  minIs = '',
): boolean {
  if (value.isUnresolved()) {
    // `Duration.millis` of a token: the handler has no unit for milliseconds.
    const isMillis = value.unitLabel().startsWith('milli');
    if (isMillis) faults.add(property, 'in seconds or a longer unit', value.unitLabel());
    return !isMillis;
  }
  const milliseconds = value.toMilliseconds();
  if (milliseconds % 1000 !== 0) {
    faults.add(property, 'whole seconds', value.toHumanString());
    return false;
  }
  const isInRange = min.toMilliseconds() <= milliseconds && milliseconds <= max.toMilliseconds();
  if (!isInRange)
    faults.add(
      property,
      `from ${formatDuration(min)}${minIs && ` (${minIs})`} to ${formatDuration(max)}`,
      value.toHumanString(),
    );
  return isInRange;
}

/** Reports a `maxAge` that is too short: the first backoff must fit before the last chance for an attempt. */
function checkLastChance(base: Duration, maxAge: Duration, faults: Faults): void {
  if (maxAge.isUnresolved()) return;
  const age = maxAge.toSeconds();
  const slack = Math.min(SLACK_SECONDS_MAX, age / 100);
  if (age - slack < base.toSeconds()) {
    faults.add('maxAge', `longer than baseBackoff, ${formatDuration(base)}`, maxAge.toHumanString());
  }
}

function checkErrors(errors: string[] | undefined, faults: Faults): void {
  // Tokens pass this check, because they are not blank and have no comma.
  for (const error of errors ?? []) {
    if (error.trim() === '' || error.includes(',')) {
      faults.add('nonRetryableErrors', 'error types without a comma, * allowed', error);
    }
  }
}
