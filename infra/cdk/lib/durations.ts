import { Duration } from 'aws-cdk-lib';

const SECONDS_PER_UNIT: [string, number][] = [
  ['d', 24 * 60 * 60],
  ['h', 60 * 60],
  ['m', 60],
  ['s', 1],
];

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
