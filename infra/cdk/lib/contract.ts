import { readFileSync } from 'node:fs';
import * as path from 'node:path';

/** A setting of the handler, as the handler's own table has it. */
export interface Setting {
  readonly scope: 'policy' | 'member' | 'handler' | 'functions' | 'resource';
  readonly type: 'duration' | 'durations' | 'whole' | 'choice' | 'flag' | 'list' | 'pointer' | 'json' | 'text';
  readonly default?: string | number | boolean | null;
  readonly min?: string;
  readonly max?: string | number;
  /** The setting whose value is the lower bound. */
  readonly at_least?: string;
  readonly alias_of?: string;
  /** The settings that it replaces, so it is refused beside them. */
  readonly instead_of?: string[];
  /** Whether an error may have a value of its own. */
  readonly for_errors?: boolean;
  /** Whether it is about functions, and so has no effect for a queue. */
  readonly functions_only?: 'refused' | 'ignored';
  /** The setting without which `true` is refused. */
  readonly needs?: string;
  readonly options?: string[];
  /** The form of its text, if there is a property for it, and the same in words. */
  readonly pattern?: string;
  readonly expected?: string;
}

export const SETTINGS: { readonly [name: string]: Setting } = read('settings');

/** How long before the end of its age an event's last attempt is made: so long, or this part of the age if less. */
export const LAST_CHANCE: { readonly slack_seconds_max: number; readonly slack_part: number } = read('last_chance');

/** The names in the ledger's table. */
export const TABLE: { readonly [name: string]: string } = read('table');

export const PRICES: { readonly [name: string]: { readonly dollars: number; readonly unit: string } } = read('prices');

/** What failure records in a bucket need: the keys that they have, and what each party may do with them. */
export const RECORDS: {
  readonly prefix: string;
  /** What the keys of streams' records begin with, too: the id of their mapping follows. */
  readonly prefix_with_streams: string;
  readonly event: string;
  readonly handler: { readonly [of: string]: string[] };
  readonly function: { readonly [of: string]: string[] };
  readonly notification: { readonly key: string[] };
  readonly slack_days: number;
  readonly abort_days: number;
} = read('records');

/** Reads a file of the contract, which the package has beside its code. */
export function read(name: string) {
  return JSON.parse(readFileSync(path.join(__dirname, '..', '..', 'contract', `${name}.json`), 'utf8'));
}

/** The property for a setting: `baseBackoff` for `BASE_BACKOFF`. */
export function propertyOf(name: string): string {
  return name.toLowerCase().replace(/_./g, (separated) => separated[1].toUpperCase());
}
