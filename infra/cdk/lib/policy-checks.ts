import { Duration, Token } from 'aws-cdk-lib';
import { checkDuration, checkList, checkWhole } from './checks';
import { LAST_CHANCE, propertyOf, Setting } from './contract';
import { formatDuration, parseDuration } from './durations';
import type { Faults } from './faults';
import { HANDLER, OF_ERRORS, POLICY, Settings, Values } from './settings';
import type { RetryPolicy } from './retry-policy';

/** Reports the faults of an effective policy, by the handler's rules. Tokens are not checked. */
export function checkPolicy(policy: RetryPolicy, faults: Faults): void {
  const good = checkValues(POLICY, policy as unknown as Values, faults);
  const { baseBackoff, maxAge } = policy;
  if (baseBackoff && maxAge && good.has('maxAge'))
    checkLastChance(
      good.has('baseBackoff') ? baseBackoff : parseDuration(POLICY.baseBackoff.min as string),
      maxAge,
      faults,
    );
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
function checkValues(settings: Settings, values: Values, faults: Faults, prefix = ''): Set<string> {
  const good = new Set<string>();
  for (const [name, setting] of Object.entries(settings)) {
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
    } else if (typeof value === 'string') {
      const isGood = Token.isUnresolved(value) || new RegExp(setting.pattern ?? '').test(value);
      if (!isGood) faults.add(property, setting.expected ?? '', value);
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
  { min, max, instead_of }: Setting,
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

function isBeforeLastChance(backoff: Duration, maxAge: Duration): boolean {
  const age = maxAge.toSeconds();
  return backoff.toSeconds() <= age - Math.min(LAST_CHANCE.slack_seconds_max, age / LAST_CHANCE.slack_part);
}

/** Reports a `maxAge` that is too short: the first backoff must fit before the last chance for an attempt. */
function checkLastChance(base: Duration, maxAge: Duration, faults: Faults): void {
  if (base.isUnresolved() || maxAge.isUnresolved()) return;
  if (!isBeforeLastChance(base, maxAge)) {
    faults.add('maxAge', `longer than baseBackoff, ${formatDuration(base)}`, maxAge.toHumanString());
  }
}
