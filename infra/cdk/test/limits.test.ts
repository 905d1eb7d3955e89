import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { App, aws_iam as iam, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry } from '../lib';
import { functionIn } from './app';

/** Limits of CloudFormation for a stack and its template, of IAM for a role and a managed policy, and of SQS. */
const RESOURCES_MAX = 500;
const TEMPLATE_BYTES_MAX = 1_000_000;
const INLINE_MAX = 10_240;
const MANAGED_MAX = 6_144;
const MANAGED_POLICIES_MAX = 10;
const QUEUE_POLICY_MAX = 8_192;

/** Pseudo parameters, with a long region name. */
const PSEUDO: { [name: string]: string } = {
  'AWS::Partition': 'aws',
  'AWS::Region': 'ap-southeast-2',
  'AWS::AccountId': '123456789012',
};

/** The parts that CloudFormation adds to a logical id in a name: the stack, random characters, and hyphens. */
const GENERATED = 'production-orders--123456789012';
const NAME_MAX = 64;

/** Resolves a value like CloudFormation, with ARNs and names of their maximum length. */
function resolved(value: any): any {
  const name = (id: string) => (GENERATED + id).slice(0, NAME_MAX);
  if (Array.isArray(value)) return value.map(resolved);
  if (typeof value !== 'object' || value === null) return value;
  const [[key, argument] = ['', undefined]] = Object.entries<any>(value);
  if (key === 'Ref') return PSEUDO[argument] ?? name(argument);
  if (key === 'Fn::GetAtt') return `arn:aws:lambda:${PSEUDO['AWS::Region']}:123456789012:function:${name(argument[0])}`;
  if (key === 'Fn::Join') return resolved(argument[1]).join(argument[0]);
  return Object.fromEntries(Object.entries(value).map(([each, of]) => [each, resolved(of)]));
}

/** The number of characters in a policy, which IAM and SQS limit. */
function size(policy: object): number {
  return JSON.stringify(resolved(policy)).length;
}

/** Checks a template against all limits, and returns how many resources it has. */
function checkLimits(stack: Stack): number {
  const template = Template.fromStack(stack);
  const json = template.toJSON();
  const { length } = Object.keys(json.Resources);
  assert.ok(length <= RESOURCES_MAX, `${length} resources`);
  assert.ok(Buffer.byteLength(JSON.stringify(json, undefined, 1)) <= TEMPLATE_BYTES_MAX);
  const documents = (type: string) =>
    Object.entries(template.findResources(type)).map(([id, { Properties }]) => [id, Properties] as const);
  const inline: { [role: string]: number } = {};
  for (const [, { Roles, PolicyDocument }] of documents('AWS::IAM::Policy'))
    for (const { Ref } of Roles ?? []) inline[Ref] = (inline[Ref] ?? 0) + size(PolicyDocument);
  for (const [role, bytes] of Object.entries(inline)) assert.ok(bytes <= INLINE_MAX, `${role}: ${bytes}`);
  const managed: { [role: string]: number } = {};
  for (const [id, { Roles, PolicyDocument }] of documents('AWS::IAM::ManagedPolicy')) {
    assert.ok(size(PolicyDocument) <= MANAGED_MAX, `${id}: ${size(PolicyDocument)}`);
    for (const { Ref } of Roles ?? []) managed[Ref] = (managed[Ref] ?? 0) + 1;
  }
  for (const [role, count] of Object.entries(managed)) assert.ok(count <= MANAGED_POLICIES_MAX, `${role}: ${count}`);
  for (const [id, { PolicyDocument }] of documents('AWS::SQS::QueuePolicy'))
    assert.ok(size(PolicyDocument) <= QUEUE_POLICY_MAX, id);
  return length;
}

test('fifty functions with a queue each stay within the limits of one stack, and their alarms within those of others', () => {
  const app = new App();
  const stack = new Stack(app, 'Fifty');
  const alarms = [0, 1, 2].map((nth) => new Stack(app, `Alarms${nth}`));
  // One handler's variables have room for about twenty functions with a queue each, and a queue for redrives.
  const retries = [0, 1, 2].map(
    (nth) => new AsyncRetry(stack, `Retry${nth}`, { ledger: true, register: true, probe: true }),
  );
  const operator = new iam.Role(stack, 'Operator', { assumedBy: new iam.AccountRootPrincipal() });
  for (const [nth, retry] of retries.entries()) {
    for (let each = 0; each < (nth < 2 ? 17 : 16); each++)
      retry.attach(functionIn(stack, `Function${nth}${each}`), { layer: true });
    retry.alarms({ scope: alarms[nth] });
    retry.dashboard();
    retry.grantOperate(operator);
    retry.grantRedrive(operator);
  }
  // Each function has two resources itself, a queue with policy and mapping, its role's policy and its destination.
  const ofFunctions = checkLimits(stack);
  assert.ok(ofFunctions >= 50 * 7, `${ofFunctions} resources`);
  // Each function has eight alarms, and each queue two.
  const ofAlarms = alarms.map(checkLimits).reduce((one, other) => one + other);
  assert.ok(ofAlarms >= 50 * 10, `${ofAlarms} alarms`);
});

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
  assert.throws(() => retry.attach(functionIn(there, 'Payments')), { message: /us-east-1/ });
});
