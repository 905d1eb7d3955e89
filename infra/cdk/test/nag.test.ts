import * as assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { App, aws_kms as kms, aws_lambda as lambda, Stack, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { functionIn } from './app';

/** The intended findings of the pack and their reasons, from the README. */
const README = readFileSync(join(__dirname, '..', '..', 'README.md'), 'utf8');
const EXPLAINED = [...README.matchAll(/{ id: '(AwsSolutions-[^']+)', reason: '([^']+)' }/g)].map(([, id, reason]) => ({
  id,
  reason,
}));

/** The findings of AWS's rules for solutions in the retries of one function, without those in the function. */
function findings(props: (stack: Stack) => AsyncRetryProps, acknowledged: typeof EXPLAINED = []): string[] {
  const app = new App();
  const stack = new Stack(app, 'Test');
  const retry = new AsyncRetry(stack, 'Retry', props(stack));
  retry.attach(functionIn(stack, 'Orders'), { transparent: true });
  retry.alarms();
  retry.dashboard();
  Validations.of(retry).acknowledge(...acknowledged);
  return new AwsSolutionsChecks(retry).validateScope(retry).violations.map(({ ruleName }) => ruleName);
}

const LEAST = () => ({});

const MOST = (stack: Stack) => ({
  encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
  ledger: true,
  register: true,
  probe: true,
  sharedQueue: true,
  tracing: lambda.Tracing.ACTIVE,
});

test('the README explains every finding of cdk-nag', () => {
  assert.deepEqual(findings(LEAST), [EXPLAINED[0].id]);
  assert.deepEqual(findings(MOST).sort(), EXPLAINED.map(({ id }) => id).sort());
  for (const props of [LEAST, MOST]) assert.deepEqual(findings(props, EXPLAINED), []);
});
