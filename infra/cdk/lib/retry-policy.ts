import { Duration, Fn, Token, Tokenization } from 'aws-cdk-lib';
import { propertyOf, SETTINGS } from './contract';
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

const SECONDS_PER_UNIT: [string, number][] = [
  ['d', 24 * 60 * 60],
  ['h', 60 * 60],
  ['m', 60],
  ['s', 1],
];

/** The last attempt is made this long before `maxAge` ends, or 1 % of `maxAge` before if that is less. */
const SLACK_SECONDS_MAX = 60;

/** The settings of a scope by the names of their properties. */
function optionsOf(of: 'policy' | 'handler') {
  return Object.fromEntries(
    Object.entries(SETTINGS)
      .filter(([, { scope, alias_of }]) => scope === of && !alias_of)
      .map(([name, setting]) => [propertyOf(name), { ...setting, name }]),
  );
}

const POLICY = optionsOf('policy');
const HANDLER = optionsOf('handler');

/** The properties of a policy that have no effect for a queue. */
export const FUNCTIONS_ONLY = [
  ...Object.keys(POLICY).filter((property) => POLICY[property].functions_only),
  'errors',
] as (keyof RetryPolicy)[];

/** What an error can have of its own. */
const OF_ERRORS = Object.fromEntries(Object.entries(POLICY).filter(([, { for_errors }]) => for_errors));

/** The values of settings, by the names of their properties. */
type Values = { readonly [property: string]: Duration | Duration[] | number | string | boolean | string[] | undefined };

/** The values of the handler's variables, by their names. */
export type Variables = { [name: string]: string | { [errorType: string]: Variables } };

/** A policy whose properties with a default are set. */
type EffectivePolicy = RetryPolicy & { readonly maxAge: Duration };

/** The effective policy of a function: its own values override the general ones, which override the defaults. */
export function effectivePolicy(general: RetryPolicy, own?: RetryPolicy): EffectivePolicy {
  const defaults = Object.entries(POLICY).map(([property, { type, default: own }]) => {
    const value = type === 'duration' ? parseDuration(own as string) : own;
    return [property, value ?? undefined];
  });
  const ofAll = overriding(Object.fromEntries(defaults), general as unknown as Values);
  const values = overriding(ofAll, (own ?? {}) as unknown as Values);
  // The errors of all functions are checked once.
  return { ...values, errors: (own ?? general).errors } as unknown as EffectivePolicy;
}

/** Values that override others. What replaces other settings overrides these, too, as they override it. */
function overriding(inherited: Values, own: Values): Values {
  const isSet = (property: string) => own[property] !== undefined;
  const dropped = Object.entries(POLICY).flatMap(([property, { instead_of }]) => {
    const others = (instead_of ?? []).map(propertyOf);
    return isSet(property) ? others : others.some(isSet) ? [property] : [];
  });
  const values = Object.keys(POLICY).map((property) => {
    return [property, own[property] ?? (dropped.includes(property) ? undefined : inherited[property])];
  });
  return Object.fromEntries(values);
}

/** Reports the faults of an effective policy, by the handler's rules. Tokens are not checked. */
export function checkPolicy(policy: RetryPolicy, faults: Faults): void {
  const good = checkValues(POLICY, policy as unknown as Values, faults);
  const { baseBackoff, maxAge } = policy;
  if (baseBackoff && maxAge && good.has('maxAge'))
    checkLastChance(good.has('baseBackoff') ? baseBackoff : Duration.seconds(1), maxAge, faults);
  if (policy.backoffs && good.has('backoffs') && maxAge && good.has('maxAge')) {
    const fits = (each: Duration) => each.isUnresolved() || maxAge.isUnresolved() || isBeforeLastChance(each, maxAge);
    if (!policy.backoffs.some(fits))
      faults.add('backoffs', `durations, one of them shorter than maxAge, ${formatDuration(maxAge)}`, 'longer ones');
  }
  const types = (policy.errors ?? []).map(({ errorType }) => errorType);
  (policy.errors ?? []).forEach(({ errorType, ...own }, index) => {
    if (errorType.trim() !== errorType || errorType === '')
      faults.add('errors', 'error types without spaces around', errorType);
    if (types.indexOf(errorType) < index) faults.add('errors', 'each error type once', errorType);
    checkValues(OF_ERRORS, own as Values, faults, `errors.${errorType}.`);
  });
}

/** Reports the faults of the other settings of all functions, and settings that need the ledger without it. */
export function checkHandler(props: RetryPolicy & { readonly ledger?: boolean }, faults: Faults): void {
  const values = props as unknown as Values;
  checkValues(HANDLER, values, faults);
  for (const [property, { needs, default: own }] of Object.entries({ ...HANDLER, ...POLICY }))
    if (needs && (values[property] ?? own) && !props.ledger)
      faults.add('ledger', `true if ${property} is`, props.ledger ?? false);
}

/** Reports the faults of single values. Returns the durations that are good. */
function checkValues(options: ReturnType<typeof optionsOf>, values: Values, faults: Faults, prefix = ''): Set<string> {
  const good = new Set<string>();
  for (const [name, setting] of Object.entries(options)) {
    const value = values[name];
    const property = prefix + name;
    if (setting.type === 'durations' && value !== undefined) {
      if (checkBackoffs(property, value as Duration[], setting, values, faults)) good.add(name);
    } else if (value instanceof Duration) {
      // One wrong value is one fault: the others are checked as if this one were not set.
      const least = setting.at_least && propertyOf(setting.at_least);
      const other = least && good.has(least) ? (values[least] as Duration) : undefined;
      const min = other && !other.isUnresolved() ? other : parseDuration(setting.min as string);
      if (checkDuration(property, value, min, parseDuration(setting.max as string), faults, least)) good.add(name);
    } else if (Array.isArray(value)) {
      checkList(property, value as string[], faults);
    } else if (
      setting.options &&
      value !== undefined &&
      !Token.isUnresolved(value) &&
      !setting.options.includes(value as string)
    ) {
      faults.add(property, setting.options.join(', '), value);
    } else if (setting.pattern && typeof value === 'string' && !Token.isUnresolved(value)) {
      if (!new RegExp(setting.pattern).test(value)) faults.add(property, 'a JSON pointer such as /tenant/id', value);
    } else if (setting.type === 'whole') {
      checkWhole(property, value as number | undefined, 1, setting.max as number, faults);
    }
  }
  return good;
}

/** Reports durations of a list that are wrong, or a list beside settings that it replaces. Returns whether it is good. */
function checkBackoffs(
  property: string,
  list: Duration[],
  { min, max, instead_of }: { min?: string; max?: string | number; instead_of?: string[] },
  values: Values,
  faults: Faults,
): boolean {
  const [least, most] = [min, max].map((bound) => parseDuration(bound as string));
  const areGood = list.map((each) => checkDuration(property, each, least, most, faults)).every(Boolean);
  const beside = (instead_of ?? []).map(propertyOf).filter((other) => values[other] !== undefined);
  const written = list.map((each) => each.toHumanString()).join(', ');
  if (list.length === 0) faults.add(property, 'at least one duration', written);
  else if (areGood && beside.length > 0) faults.add(property, `absent beside ${beside.join(' and ')}`, written);
  return areGood && list.length > 0 && beside.length === 0;
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

/** The handler's variables for all functions. The handler needs no value of a flag that is its default. */
export function generalVariables(props: RetryPolicy): { [name: string]: string } {
  const values = { ...props, ...effectivePolicy(props) } as unknown as Values;
  const options = Object.entries({ ...POLICY, ...HANDLER });
  return written(
    options.filter(([property, { type, default: own }]) => type !== 'flag' || values[property] !== own),
    values,
  );
}

/** The values that are set of one function's policy, under the names of the handler's variables. */
export function variables(policy: RetryPolicy): Variables {
  return { ...written(Object.entries(POLICY), policy as unknown as Values), ...errorsOf(policy) };
}

/** The handler's value for the errors of a policy, if it has any. */
export function errorsOf({ errors = [] }: RetryPolicy): Variables {
  const all = errors.map((own) => [own.errorType, written(Object.entries(OF_ERRORS), own as unknown as Values)]);
  return all.length > 0 ? { ERRORS: Object.fromEntries(all) } : {};
}

function written(options: [string, { readonly name: string }][], values: Values): { [name: string]: string } {
  const entries = options.map(([property, { name }]) => {
    const value = values[property];
    if (value instanceof Duration) return [name, formatDuration(value)];
    if (Array.isArray(value))
      return [name, joinList(Token.isUnresolved(value) ? (value as string[]) : value.map(text))];
    if (typeof value === 'boolean') return [name, String(value)];
    return [name, typeof value === 'number' ? Tokenization.stringifyNumber(value) : value];
  });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

function text(value: Duration | string): string {
  return value instanceof Duration ? formatDuration(value) : value;
}

/** An empty list overrides the general one. */
function joinList(list: string[]): string {
  return Token.isUnresolved(list) ? Fn.join(',', list) : list.join(',');
}

/** Reads a duration of the contract, such as 12h. */
export function parseDuration(text: string): Duration {
  const [, perUnit] = SECONDS_PER_UNIT.find(([unit]) => unit === text.slice(-1)) ?? ['s', 1];
  return Duration.seconds(Number(text.slice(0, -1)) * perUnit);
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

function isBeforeLastChance(backoff: Duration, maxAge: Duration): boolean {
  const age = maxAge.toSeconds();
  return backoff.toSeconds() <= age - Math.min(SLACK_SECONDS_MAX, age / 100);
}

/** Reports a `maxAge` that is too short: the first backoff must fit before the last chance for an attempt. */
function checkLastChance(base: Duration, maxAge: Duration, faults: Faults): void {
  if (base.isUnresolved() || maxAge.isUnresolved()) return;
  if (!isBeforeLastChance(base, maxAge)) {
    faults.add('maxAge', `longer than baseBackoff, ${formatDuration(base)}`, maxAge.toHumanString());
  }
}

function checkList(property: string, list: string[], faults: Faults): void {
  // Tokens pass this check, because they are not blank and have no comma.
  for (const text of list) {
    if (text.trim() === '' || text.includes(',')) {
      faults.add(property, 'texts without a comma, * allowed', text);
    }
  }
}
