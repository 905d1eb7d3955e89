import { Duration, Fn, Token, Tokenization } from 'aws-cdk-lib';
import { formatDuration } from './durations';
import { effectivePolicy } from './effective-policy';
import { HANDLER, OF_ERRORS, POLICY, Values } from './settings';
import type { RetryPolicy } from './retry-policy';

/** The values of the handler's variables, by their names. */
export type Variables = { [name: string]: string | { [errorType: string]: Variables } };

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
