import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { App, aws_iam as iam, aws_lambda as lambda, CfnParameter, Duration, NestedStack, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AsyncRetryProps, AttachOptions } from '../lib';
import { estimatedLength } from '../lib/bindings';
import { Target } from '../lib/target';
import { errorOf, functionIn, TestStack } from './app';

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
    for (let each = 0; each < (nth < 2 ? 17 : 16); each++) retry.attach(functionIn(stack, `Function${nth}${each}`));
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

test("variables that don't fit are refused, and the error names the alternatives", () => {
  const attachedBy = (props: AsyncRetryProps, own: (index: number) => AttachOptions = () => ({})) => {
    const stack = new TestStack(props);
    let count = 0;
    const message = errorOf(() => {
      for (; count < 50; count += 1) stack.retry.attach(stack.function(`Function${count}`), own(count));
      throw new Error('all fit');
    });
    return [count, message] as const;
  };
  const [count, message] = attachedBy({});
  assert.ok(count > 30, String(count));
  assert.match(
    message,
    /^AsyncRetry Test\/Retry can't attach Test\/Function\d+: the handler's variables would have about 4\d\d\d characters, and Lambda takes 4096: let the functions share a queue \(sharedQueue\), make another AsyncRetry for some functions, or give fewer of them policies of their own$/,
  );
  assert.deepEqual(attachedBy({ sharedQueue: true }), [50, 'all fit']);
  const [, full] = attachedBy({ sharedQueue: true }, (index) => ({ maxAttempts: index + 1, maxAge: Duration.days(7) }));
  assert.match(full, /and Lambda takes 4096: make another AsyncRetry for some functions/);

  const stack = new TestStack();
  for (let index = 0; index < count; index += 1) stack.retry.attach(stack.function(`Function${index}`));
  assert.throws(() => stack.retry.grantRedrive(new iam.User(stack, 'Operator')), {
    message:
      /^AsyncRetry Test\/Retry can't have a queue for redrives: the handler's variables would have about \d+ characters/,
  });
});

test('the length of a generated name is known, unless its stack has no name yet', () => {
  const lengthOf = (build: (stack: Stack) => lambda.IFunction) => {
    const made = build(new Stack(new App(), 'Shop'));
    return estimatedLength([made.functionName], [new Target(made)], []) - estimatedLength([''], [], []);
  };
  const cases: [(stack: Stack) => lambda.IFunction, number][] = [
    // Shop-OrdersA9B65338-123456789012
    [(scope) => functionIn(scope, 'Orders'), 32],
    [(scope) => functionIn(scope, 'Orders'.repeat(12)), 64],
    [(scope) => functionIn(scope, 'Orders', { functionName: 'orders' }), 6],
    [(scope) => lambda.Function.fromFunctionName(scope, 'Orders', 'orders'), 6],
    [(scope) => lambda.Function.fromFunctionName(scope, 'Orders', new CfnParameter(scope, 'Name').valueAsString), 64],
    [(scope) => functionIn(new NestedStack(scope, 'Nested'), 'Orders'), 64],
  ];
  for (const [build, expected] of cases) assert.equal(lengthOf(build), expected);
});

test('the number of functions that share a queue is limited by the size of its policy', () => {
  const stack = new TestStack({ sharedQueue: true });
  const functions = Array.from({ length: 50 }, (_, index) => stack.function(`F${index}`));
  const [first, last] = [functions[0], functions[49]].map((each) => each.currentVersion);
  for (const each of [first, ...functions, last]) stack.retry.attach(each);
  assert.throws(() => stack.retry.attach(stack.function('Orders')), {
    message: /50 functions share the queue, and its policy has no room for more roles: make another AsyncRetry/,
  });
});
