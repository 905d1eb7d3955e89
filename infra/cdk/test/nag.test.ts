import * as assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { App, aws_iam as iam, aws_kms as kms, aws_lambda as lambda, Stack, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { functionIn } from './app';

/** The intended findings of the pack and their reasons, from the README. */
const README = readFileSync(join(__dirname, '..', '..', 'README.md'), 'utf8');
const EXPLAINED = [...README.matchAll(/{ id: '(AwsSolutions-[^']+)', reason: '([^']+)' }/g)].map(([, id, reason]) => ({
  id,
  reason,
}));

/** Those whose ids `acknowledge` does not take. */
const AS_METADATA = Object.fromEntries(
  [...README.matchAll(/^ {2}'(AwsSolutions-[^']+)': '([^']+)',$/gm)].map(([, id, reason]) => [id, reason]),
);

/** The findings of AWS's rules for solutions in the retries of one function and in the role of an operator. */
function findings(props: (stack: Stack) => AsyncRetryProps, isAcknowledged = false): string[] {
  const app = new App();
  const stack = new Stack(app, 'Test');
  const retry = new AsyncRetry(stack, 'Retry', props(stack));
  retry.attach(functionIn(stack, 'Orders'), { transparent: true });
  retry.alarms();
  retry.dashboard();
  const operator = new iam.Role(stack, 'Operator', { assumedBy: new iam.AccountRootPrincipal() });
  retry.grantOperate(operator);
  if (isAcknowledged) {
    for (const each of [retry, operator]) Validations.of(each).acknowledge(...EXPLAINED);
    operator.node.addMetadata(Validations.ACKNOWLEDGED_RULES_METADATA_KEY, AS_METADATA);
  }
  const ids = [retry, operator].flatMap((scope) => new AwsSolutionsChecks(scope).validateScope(scope).violations);
  return [...new Set(ids.map(({ ruleName }) => ruleName))];
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
  const ids = [...EXPLAINED.map(({ id }) => id), ...Object.keys(AS_METADATA)].sort();
  assert.deepEqual(
    findings(LEAST).sort(),
    ids.filter((id) => id !== 'AwsSolutions-DDB3'),
  );
  assert.deepEqual(findings(MOST).sort(), ids);
  for (const props of [LEAST, MOST]) assert.deepEqual(findings(props, true), []);
});
