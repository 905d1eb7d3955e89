import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { aws_lambda as lambda, Stack } from 'aws-cdk-lib';
import { AttachOptions } from '../lib';
import { aliasOf, errorOf, TestStack } from './app';

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

test('a function with the layer gets that of its architecture and the wrapper', () => {
  const stack = new TestStack();
  const functions = [
    ['Old', lambda.Architecture.X86_64],
    ['New', lambda.Architecture.ARM_64],
    ['Newer', lambda.Architecture.ARM_64],
  ] as const;
  for (const [id, architecture] of functions) stack.retry.attach(stack.function(id, { architecture }), { layer: true });
  stack.template.resourceCountIs('AWS::Lambda::LayerVersion', 2);
  for (const [id, { name }] of functions) {
    const properties = stack.only('AWS::Lambda::Function', new RegExp(`^${id}[0-9A-F]{8}$`));
    assert.deepEqual(properties.Environment.Variables, { AWS_LAMBDA_EXEC_WRAPPER: '/opt/comeback-exec' });
    const [{ Ref }] = properties.Layers;
    assert.deepEqual(stack.only('AWS::Lambda::LayerVersion', new RegExp(Ref)).CompatibleArchitectures, [name]);
  }
});

test("a layer that can't be added is refused, and the error names what works instead", () => {
  const asset = lambda.Code.fromInline('-');
  const cases: [Partial<lambda.FunctionProps>, RegExp][] = [
    [
      { runtime: lambda.Runtime.PROVIDED_AL2023, code: lambda.Code.fromAsset(__dirname) },
      /layer must be off for the runtime provided.al2023, which supports no wrapper: use transparent, which needs a ledger/,
    ],
    [
      {
        runtime: lambda.Runtime.FROM_IMAGE,
        handler: lambda.Handler.FROM_IMAGE,
        code: lambda.Code.fromEcrImage({
          repositoryName: 'x',
          repositoryArn: 'arn',
          repositoryUriForTagOrDigest: () => 'x',
          grantPull: () => undefined,
          addToResourcePolicy: () => ({ statementAdded: true }),
        } as any),
      },
      /layer must be off for a container image, which has no layers: use transparent, which needs a ledger/,
    ],
    [
      { code: asset, environment: { AWS_LAMBDA_EXEC_WRAPPER: '/opt/other' } },
      /layer needs AWS_LAMBDA_EXEC_WRAPPER, which is "\/opt\/other": use transparent, which needs a ledger/,
    ],
    [
      { code: asset, layers: layersOf(5) },
      /it already has 5 layers, and can't have another: use transparent, which needs a ledger/,
    ],
  ];
  for (const [props, expected] of cases) {
    const stack = new TestStack();
    const message = errorOf(() => stack.retry.attach(stack.function('Orders', props), { layer: true }));
    assert.ok(message.startsWith(REFUSED), message);
    assert.match(message, expected);
  }
});

test('a function gets the layer once, even if several aliases are attached', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders', { layers: layersOf(4) });
  for (const each of [orders, orders.currentVersion])
    stack.retry.attach(each, { layer: true, nonRetryableErrors: ['A', 'B'] });
  assert.equal(stack.only('AWS::Lambda::Function', /^Orders/).Layers.length, 5);
});

test('an existing wrapper variable does not replace the layer', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Orders', { environment: { AWS_LAMBDA_EXEC_WRAPPER: '/opt/comeback-exec' } }), {
    layer: true,
  });
  assert.equal(stack.only('AWS::Lambda::Function', /^Orders/).Layers.length, 1);
});

test('a version that may lack the layer is a warning', () => {
  const warningsOf = (target: (stack: TestStack, orders: lambda.Function) => lambda.IFunction) => {
    const stack = new TestStack();
    stack.retry.attach(target(stack, stack.function('Orders')), { layer: true });
    return stack.warnings.filter((text) => text.includes('comeback:version-layer'));
  };
  type Made = (stack: TestStack, orders: lambda.Function) => lambda.IFunction;
  const versions: Made[] = [
    (stack, orders) => new lambda.Version(stack, 'V1', { lambda: orders }),
    (stack, orders) => lambda.Version.fromVersionAttributes(stack, 'V1', { lambda: orders, version: '1' }),
  ];
  const aliases = versions.map(
    (made): Made =>
      (stack, orders) => {
        const version = made(stack, orders) as lambda.IVersion;
        return new lambda.Alias(stack, 'Live', { aliasName: 'live', version });
      },
  );
  for (const older of [versions[0], ...aliases]) {
    const [warning, ...others] = warningsOf(older);
    assert.match(
      warning,
      /: the version Test\/V1 has the layer only if it is published after this deployment.* let the alias point to currentVersion/,
    );
    assert.deepEqual(others, []);
  }
  const newer: Made[] = [
    (_, orders) => aliasOf(orders),
    (_, orders) => orders.currentVersion,
    (_, orders) => orders.latestVersion,
    (_, orders) => orders,
  ];
  for (const current of newer) assert.deepEqual(warningsOf(current), []);
});

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
    stack.template.resourceCountIs('AWS::Lambda::LayerVersion', 0);
    assert.deepEqual(stack.warnings, []);
  }
});

test('an imported function is transparent, too', () => {
  const stack = new TestStack({ ledger: true });
  stack.retry.attach(lambda.Function.fromFunctionName(stack, 'Orders', 'orders'), { transparent: true });
  const { POLICIES } = stack.only('AWS::Lambda::Function', /^RetryHandler/).Environment.Variables;
  assert.match(JSON.stringify(POLICIES), /TRANSPARENT\\+":\\+"true/);
  assert.ok(!stack.warnings.some((text) => text.includes('comeback:layer')));
});

test('a transparent function without a ledger is refused, and the error names both ways out', () => {
  const stack = new TestStack();
  const message = errorOf(() => stack.retry.attach(stack.function('Orders'), { transparent: true }));
  assert.equal(
    message,
    `${REFUSED}transparent needs the ledger, which notes what an envelope would say: set ledger of the AsyncRetry to true, ` +
      'or let a layer take the envelopes off (layer: true, for the managed runtimes)',
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
