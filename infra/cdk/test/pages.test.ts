import * as assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  App,
  aws_cloudwatch_actions as actions,
  aws_codedeploy as codedeploy,
  aws_ec2 as ec2,
  aws_iam as iam,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_sns as sns,
  aws_sqs as sqs,
  Stack,
  Validations,
} from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AwsSolutionsChecks, HIPAASecurityChecks, NIST80053R5Checks, PCIDSS321Checks } from 'cdk-nag';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { EVERYTHING_ON, functionIn, TestStack } from './app';

const ROOT = join(__dirname, '..', '..', '..', '..');

/** The intended findings of the pack and their reasons, from the page for operators. */
const PAGE = readFileSync(join(ROOT, 'docs', 'deploy', 'cdk-operations.md'), 'utf8');
const EXPLAINED = [...PAGE.matchAll(/{ id: '(AwsSolutions-[^']+)', reason: '([^']+)' }/g)].map(([, id, reason]) => ({
  id,
  reason,
}));

/** The findings whose ids `acknowledge` does not accept. */
const AS_METADATA = Object.fromEntries(
  [...PAGE.matchAll(/^ {2}'(AwsSolutions-[^']+)': '([^']+)',$/gm)].map(([, id, reason]) => [id, reason]),
);

/** The findings of AWS's rules for solutions in the retries of one function and one queue and in the role of an operator. */
function findings(props: (stack: Stack) => AsyncRetryProps, isAcknowledged = false): string[] {
  const app = new App();
  const stack = new Stack(app, 'Test');
  const retry = new AsyncRetry(stack, 'Retry', props(stack));
  retry.attach(functionIn(stack, 'Orders'), { records: retry.recordBucket !== undefined });
  retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports' }));
  retry.alarms();
  retry.dashboard();
  const operator = new iam.Role(stack, 'Operator', { assumedBy: new iam.AccountRootPrincipal() });
  retry.grantOperate(operator);
  if (isAcknowledged) {
    for (const each of [retry, operator]) {
      Validations.of(each).acknowledge(...EXPLAINED);
      each.node.addMetadata(Validations.ACKNOWLEDGED_RULES_METADATA_KEY, AS_METADATA);
    }
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
  records: true,
  sharedQueue: true,
  tracing: lambda.Tracing.ACTIVE,
  deploymentConfig: codedeploy.LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES,
});

test('the page explains every finding of cdk-nag', () => {
  const ids = [...EXPLAINED.map(({ id }) => id), ...Object.keys(AS_METADATA)].sort();
  assert.deepEqual(
    findings(LEAST).sort(),
    ids.filter((id) => !/DDB3|CodeDeploy|Records|S1/.test(id)),
  );
  assert.deepEqual(findings(MOST).sort(), ids);
  for (const props of [LEAST, MOST]) assert.deepEqual(findings(props, true), []);
});

/** The rules of a pack that a section of FINDINGS.md lists. */
function listed(section: string, pack: string): string[] {
  const page = readFileSync(join(ROOT, 'infra', 'FINDINGS.md'), 'utf8');
  const rows = page
    .split(`\n## ${section}\n`)[1]
    .split('\n## ')[0]
    .matchAll(/^\| `(\w+)` \| ([^|]+) \|/gm);
  return [...rows].filter(([, , found]) => found.split(', ').includes(pack)).map(([, rule]) => rule);
}

const PACKS = { NIST: NIST80053R5Checks, HIPAA: HIPAASecurityChecks, PCI: PCIDSS321Checks };

/** The rules of a pack that retries with a ledger violate, with or without the options for an organization's rules. */
function violated(Pack: (typeof PACKS)[keyof typeof PACKS], isHardened: boolean): string[] {
  const stack = new Stack(new App(), 'Test');
  const retry = new AsyncRetry(stack, 'Retry', {
    ledger: true,
    records: true,
    ...(isHardened && {
      vpc: new ec2.Vpc(stack, 'Vpc'),
      reservedConcurrency: 20,
      deploymentConfig: codedeploy.LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES,
      encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
      logEncryptionKey: new kms.Key(stack, 'LogKey', { enableKeyRotation: true }),
    }),
  });
  retry.attach(functionIn(stack, 'Orders'), { records: true });
  retry.alarms(isHardened ? { actions: [new actions.SnsAction(new sns.Topic(stack, 'Topic'))] } : {});
  retry.dashboard();
  const { violations } = new Pack(retry).validateScope(retry);
  return [...new Set(violations.map(({ ruleName }) => ruleName.split('-')[1]))].sort();
}

test('FINDINGS.md explains each finding of the standards packs, or names the option that avoids it', () => {
  for (const [name, Pack] of Object.entries(PACKS)) {
    const intended = listed('Intended', name);
    assert.deepEqual(violated(Pack, true), intended.sort(), name);
    assert.deepEqual(violated(Pack, false), [...intended, ...listed('Rules of an organization', name)].sort(), name);
  }
});

const PACKAGE = join(__dirname, '..', '..');
const DOCS = join(ROOT, 'docs', 'deploy');
const PAGES = [join(PACKAGE, 'README.md'), join(DOCS, 'cdk-options.md'), join(DOCS, 'cdk-operations.md')]
  .map((page) => readFileSync(page, 'utf8'))
  .join();
const { types, license } = JSON.parse(readFileSync(join(PACKAGE, '.jsii'), 'utf8'));

test('every optional property documents its default', () => {
  const optional = Object.values<any>(types)
    .filter(({ kind }) => kind === 'interface')
    .flatMap(({ name, properties = [] }) =>
      properties.filter((each: any) => each.optional).map((each: any) => [name, each]),
    );
  assert.ok(optional.length > 20);
  for (const [name, { name: property, docs }] of optional)
    assert.ok(docs?.summary && docs.default, `${name}.${property}`);
});

test('the pages name every property, every method and every alarm', () => {
  const members = Object.values<any>(types).flatMap(({ name, kind, properties = [], methods = [] }) =>
    [...(kind === 'interface' ? properties : []), ...methods].map((each: any) => [name, each.name]),
  );
  // The CDK documents its own options.
  const own = members.filter(([name]) => name !== 'RetryMetricOptions' && name !== 'RetryDashboardProps');
  for (const [name, member] of own) assert.match(PAGES, new RegExp(`\\b${member}\\b`), `${name}.${member}`);

  const stack = new TestStack(EVERYTHING_ON);
  stack.retry.attach(stack.function('Orders'));
  for (const { node } of stack.retry.alarms()) assert.match(PAGES, new RegExp(`\`${node.id}\``), node.id);
});

test('README.md says how many alarms one function and two functions have', () => {
  const page = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const said = /The alarms of one function .*?: (\d+) alarms.* two functions\s+have\s+(\d+) alarms/s.exec(page);
  const stack = new TestStack();
  stack.retry.attach(stack.function('Orders'));
  const one = stack.retry.alarms().length;
  stack.retry.attach(stack.function('Payments'));
  assert.deepEqual(said?.slice(1), [`${one}`, `${stack.all('AWS::CloudWatch::Alarm').length}`]);
});

test('with the ids of the pages and the examples, no name says a word twice in a row', () => {
  const files = [
    join(PACKAGE, 'README.md'),
    join(PACKAGE, 'examples', 'typescript', 'app.ts'),
    join(PACKAGE, 'examples', 'python', 'app.py'),
  ].map((file) => readFileSync(file, 'utf8'));
  const ids = files.map((text) => /\bAsyncRetry\(\w+, ['"](\w+)['"]/.exec(text)?.[1]);
  for (const id of ids) {
    const stack = new Stack(new App(), 'Test');
    const retry = new AsyncRetry(stack, id as string);
    retry.attach(functionIn(stack, 'Orders'));
    retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports' }));
    const named = Object.keys(Template.fromStack(stack).findResources('AWS::SQS::Queue'));
    assert.ok(named.some((each) => each.includes('RetryQueueOrders')));
    assert.deepEqual(
      named.filter((each) => /([A-Z][a-z]+)\1/.test(each)),
      [],
    );
  }
});

test('packages of all languages name one licence, and contain it', () => {
  // Construct Hub accepts the identifier of a single licence only.
  assert.equal(license, 'Apache-2.0');
  assert.match(readFileSync(join(PACKAGE, 'LICENSE'), 'utf8'), /Apache License/);
});
