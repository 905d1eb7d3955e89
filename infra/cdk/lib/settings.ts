import type { Duration } from 'aws-cdk-lib';
import { propertyOf, Setting, SETTINGS } from './contract';
import type { RetryPolicy } from './retry-policy';

/** Settings by the names of their properties, each with the name of the handler's variable. */
export interface Settings {
  readonly [property: string]: Setting & { readonly name: string };
}

function settingsOf(of: 'policy' | 'handler'): Settings {
  return Object.fromEntries(
    Object.entries(SETTINGS)
      .filter(([, { scope, alias_of }]) => scope === of && !alias_of)
      .map(([name, setting]) => [propertyOf(name), { ...setting, name }]),
  );
}

/** The settings of a policy. */
export const POLICY = settingsOf('policy');

/** The settings that no function has of its own. */
export const HANDLER = settingsOf('handler');

/** The properties of a policy that have no effect for a queue. */
export const FUNCTIONS_ONLY = [
  ...Object.keys(POLICY).filter((property) => POLICY[property].functions_only),
  'errors',
] as (keyof RetryPolicy)[];

/** What an error can have of its own. */
export const OF_ERRORS: Settings = Object.fromEntries(
  Object.entries(POLICY).filter(([, { for_errors }]) => for_errors),
);

/** The values of settings, by the names of their properties. */
export type Values = {
  readonly [property: string]: Duration | Duration[] | number | string | boolean | string[] | undefined;
};
