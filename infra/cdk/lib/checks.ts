import { Duration, Token } from 'aws-cdk-lib';
import { formatDuration } from './durations';
import type { Faults } from './faults';

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

/** Reports texts that would be no items of a list. */
export function checkList(property: string, list: string[], faults: Faults): void {
  // Tokens pass this check, because they are not blank and have no comma.
  for (const text of list) {
    if (text.trim() === '' || text.includes(',')) {
      faults.add(property, 'texts without a comma, * allowed', text);
    }
  }
}

/** Reports a token instead of a value that must be known at synthesis. Returns whether the value is known. */
export function checkKnown(property: string, value: Duration | number, faults: Faults): boolean {
  const isKnown = typeof value === 'number' ? !Token.isUnresolved(value) : !value.isUnresolved();
  if (!isKnown) faults.note(`${property} must be known at synthesis, got a token`);
  return isKnown;
}
