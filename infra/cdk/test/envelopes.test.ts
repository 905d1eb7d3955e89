import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { aws_lambda as lambda, Stack } from 'aws-cdk-lib';
import { AttachOptions } from '../lib';
import { errorOf, TestStack } from './app';

const REFUSED = "AsyncRetry Test/Retry can't attach Test/Orders: ";

/** This many existing layers. */
function layersOf(count: number): lambda.ILayerVersion[] {
  const scope = new Stack();
  return Array.from({ length: count }, (_, index) =>
    lambda.LayerVersion.fromLayerVersionArn(
      scope,
      `Layer${index}`,
      `arn:aws:lambda:eu-west-1:123456789012:layer:other:${index + 1}`,
    ),
  );
}

test('any function is transparent with a ledger, and stays as it is', () => {
  const image = lambda.Code.fromEcrImage({
    repositoryName: 'x',
    repositoryArn: 'arn',
    repositoryUriForTagOrDigest: () => 'x',
    grantPull: () => undefined,
    addToResourcePolicy: () => ({ statementAdded: true }),
  } as any);
  const cases: (() => Partial<lambda.FunctionProps>)[] = [
    () => ({}),
    () => ({ runtime: lambda.Runtime.PROVIDED_AL2023, code: lambda.Code.fromAsset(__dirname) }),
    () => ({ runtime: lambda.Runtime.FROM_IMAGE, handler: lambda.Handler.FROM_IMAGE, code: image }),
    () => ({ environment: { AWS_LAMBDA_EXEC_WRAPPER: '/opt/other' } }),
    () => ({ layers: layersOf(5) }),
  ];
  for (const props of cases) {
    const propertiesOf = (options?: AttachOptions) => {
      const stack = new TestStack({ ledger: true });
      const orders = stack.function('Orders', props());
      stack.retry.attach(orders, options);
      return [stack, stack.only('AWS::Lambda::Function', /^Orders/)] as const;
    };
    const [stack, transparent] = propertiesOf({ transparent: true });
    assert.deepEqual(transparent, propertiesOf()[1]);
    assert.deepEqual(stack.json('POLICIES'), { Orders: { TRANSPARENT: 'true' } });
    assert.deepEqual(stack.warnings, []);
  }
});

test('an imported function is transparent, too', () => {
  const stack = new TestStack({ ledger: true });
  stack.retry.attach(lambda.Function.fromFunctionName(stack, 'Orders', 'orders'), { transparent: true });
  const { POLICIES } = stack.only('AWS::Lambda::Function', /^RetryHandler/).Environment.Variables;
  assert.match(JSON.stringify(POLICIES), /TRANSPARENT\\+":\\+"true/);
});

test('a transparent function without a ledger is refused, and the error names both ways out', () => {
  const stack = new TestStack();
  const message = errorOf(() => stack.retry.attach(stack.function('Orders'), { transparent: true }));
  assert.equal(
    message,
    `${REFUSED}transparent needs the ledger, which notes what an envelope would say: set ledger of the AsyncRetry to true, ` +
      'or let the function read the envelope and leave transparent out',
  );
});

test('one function may have an envelope where all others are transparent', () => {
  const stack = new TestStack({ ledger: true, transparent: true });
  stack.retry.attach(stack.function('Orders'), { transparent: false });
  stack.retry.attach(stack.function('Payments'));
  const { TRANSPARENT } = stack.only('AWS::Lambda::Function', /^RetryHandler/).Environment.Variables;
  assert.equal(TRANSPARENT, 'true');
  assert.deepEqual(stack.json('POLICIES'), { Orders: { TRANSPARENT: 'false' } });
});
