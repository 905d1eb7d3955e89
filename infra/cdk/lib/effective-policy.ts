import { propertyOf } from './contract';
import { parseDuration } from './durations';
import { POLICY, Values } from './settings';
import type { RetryPolicy } from './retry-policy';
import type { Duration } from 'aws-cdk-lib';

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
