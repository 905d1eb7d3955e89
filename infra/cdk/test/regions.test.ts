import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry } from '../lib';
import { errorOf, functionIn } from './app';

const REGIONS = ['eu-west-1', 'us-east-1'];

/** An app as docs/deploy.md describes it: a stack for each region, with the function and its retries. */
function inRegions(): Stack[] {
  const app = new App();
  return REGIONS.map((region) => {
    const stack = new Stack(app, `orders-${region}`, { env: { account: '123456789012', region } });
    const retry = new AsyncRetry(stack, 'Retry', { ledger: true });
    retry.attach(functionIn(stack, 'Orders', { functionName: 'orders' }));
    retry.alarms();
    retry.dashboard();
    return stack;
  });
}

test('each region has the same system, which depends on no other region', () => {
  const [here, there] = inRegions().map((stack) => Template.fromStack(stack).toJSON());
  const types = ({ Resources }: any) => Object.values<any>(Resources).map(({ Type }) => Type);
  assert.deepEqual(types(here), types(there));
  const named = [here, there].map((template) => REGIONS.map((region) => JSON.stringify(template).includes(region)));
  assert.deepEqual(named, [
    [true, false],
    [false, true],
  ]);
});

test('a function of another region is refused', () => {
  const [here, there] = inRegions();
  const retry = new AsyncRetry(here, 'Second');
  assert.match(
    errorOf(() => retry.attach(functionIn(there, 'Payments'))),
    /us-east-1/,
  );
});
