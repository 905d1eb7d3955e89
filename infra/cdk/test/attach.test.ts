import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import { App, aws_iam as iam, aws_lambda as lambda, aws_lambda_destinations as destinations, aws_sqs as sqs, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry } from '../lib';
import { complaint, functionIn, TestStack } from './app';

const REFUSED = 'AsyncRetry Test/Retry can\'t attach Test/Orders: ';

test('an attached function fails into the retry queue at once, and is let loop', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Orders'));
  const config = stack.only('AWS::Lambda::EventInvokeConfig');
  assert.equal(config.MaximumRetryAttempts, 0);
  assert.equal(config.Qualifier, '$LATEST');
  assert.match(config.FunctionName.Ref, /^Orders/);
  assert.match(JSON.stringify(config.DestinationConfig), /^{"OnFailure":{"Destination":{"Fn::GetAtt":\["RetryRetryQueue/);
  assert.equal(stack.only('AWS::Lambda::Function', /^Orders/).RecursiveLoop, 'Allow');
  const [send] = stack.statementsOf(/OrdersServiceRole/);
  assert.deepEqual([send.Effect, send.Action, send.Resource['Fn::GetAtt'][0].slice(0, -8)], ['Allow', 'sqs:SendMessage', 'RetryRetryQueue']);
  assert.deepEqual(stack.warnings, []);
});

test('its failures have a way and a reader before there can be any', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Orders'));
  const [{ DependsOn }] = Object.values(stack.template.findResources('AWS::Lambda::EventInvokeConfig'));
  assert.match(DependsOn.join(), /SendFailures/);
  assert.match(DependsOn.join(), /RetryQueueMapping/);
});

test('the handler may invoke the attached functions with all their versions and aliases, and no other', () => {
  const stack = new TestStack();
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  stack.retry.attach(orders);
  stack.retry.attach(payments);
  stack.function('Bystander');
  const arn = (each: lambda.Function) => stack.resolve(each.functionArn);
  const invoke = stack.statementsOf(/HandlerRole/).filter(({ Action }: any) => Action === 'lambda:InvokeFunction');
  assert.deepEqual(invoke.flatMap(({ Resource }: any) => Resource), [orders, payments].flatMap((each) =>
    [arn(each), { 'Fn::Join': ['', [arn(each), ':*']] }]));
  const { TARGET_FUNCTIONS } = stack.only('AWS::Lambda::Function', /Handler/).Environment.Variables;
  assert.deepEqual(TARGET_FUNCTIONS, { 'Fn::Join': [',', [orders, payments].map((each) => stack.resolve(each.functionName))] });
});

test('aliases and versions are configured by their qualifiers, and known to the handler as their function', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders');
  const alias = new lambda.Alias(stack, 'Live', { aliasName: 'live', version: orders.currentVersion });
  for (const target of [orders, alias, orders.currentVersion]) stack.retry.attach(target, { maxAttempts: 3 });
  const configs = Object.values(stack.template.findResources('AWS::Lambda::EventInvokeConfig')).map(({ Properties }) => Properties);
  assert.ok(configs.every(({ FunctionName }) => /^Orders/.test(FunctionName.Ref)));
  const [latest, live, version] = configs.map(({ Qualifier }) => Qualifier);
  assert.deepEqual([latest, live, version['Fn::GetAtt'][1]], ['$LATEST', 'live', 'Version']);
  const { TARGET_FUNCTIONS, POLICIES } = stack.only('AWS::Lambda::Function', /Handler/).Environment.Variables;
  assert.deepEqual(TARGET_FUNCTIONS, stack.resolve(orders.functionName));
  assert.deepEqual(POLICIES['Fn::Join'][1].map((part: any) => part.Ref?.slice(0, 6) ?? part), ['{"', 'Orders', '":{"MAX_ATTEMPTS":"3"}}']);
});

test('the function\'s own version with an alias in another stack needs nothing of the retries\' stack', () => {
  const app = new App();
  const [functions, retries] = ['Functions', 'Retries'].map((id) => new Stack(app, id));
  const orders = functionIn(functions, 'Orders');
  new AsyncRetry(retries, 'Retry').attach(orders, { transparent: true, maxAge: Duration.days(7) });
  app.synth();
  assert.deepEqual(retries.dependencies.map(({ stackName }) => stackName), ['Functions']);
  assert.deepEqual(functions.dependencies, []);
  const template = Template.fromStack(functions);
  template.hasResourceProperties('AWS::Lambda::Function', { RecursiveLoop: 'Allow' });
  template.resourceCountIs('AWS::Lambda::LayerVersion', 1);
  Template.fromStack(retries).resourceCountIs('AWS::Lambda::EventInvokeConfig', 1);
});

test('what else an event invoke config says is kept', () => {
  const stack = new TestStack();
  const audit = new sqs.Queue(stack, 'Audit');
  const orders = stack.function('Orders', { maxEventAge: Duration.hours(1), onSuccess: new destinations.SqsDestination(audit) });
  stack.retry.attach(orders);
  const config = stack.only('AWS::Lambda::EventInvokeConfig');
  assert.equal(config.MaximumEventAgeInSeconds, 3600);
  assert.equal(config.MaximumRetryAttempts, 0);
  assert.match(JSON.stringify(config.DestinationConfig.OnSuccess), /Audit/);
  assert.match(JSON.stringify(config.DestinationConfig.OnFailure), /RetryQueue/);
});

test('a transparent function gets the layer of its architecture and the wrapper', () => {
  const stack = new TestStack();
  const functions = [['Old', lambda.Architecture.X86_64], ['New', lambda.Architecture.ARM_64], ['Newer', lambda.Architecture.ARM_64]] as const;
  for (const [id, architecture] of functions) stack.retry.attach(stack.function(id, { architecture }), { transparent: true });
  stack.template.resourceCountIs('AWS::Lambda::LayerVersion', 2);
  for (const [id, { name }] of functions) {
    const properties = stack.only('AWS::Lambda::Function', new RegExp(`^${id}[0-9A-F]{8}$`));
    assert.deepEqual(properties.Environment.Variables, { AWS_LAMBDA_EXEC_WRAPPER: '/opt/comeback-exec' });
    const [{ Ref }] = properties.Layers;
    assert.deepEqual(stack.only('AWS::Lambda::LayerVersion', new RegExp(Ref)).CompatibleArchitectures, [name]);
  }
});

test('what can\'t be transparent is refused', () => {
  const asset = lambda.Code.fromInline('-');
  const cases: [Partial<lambda.FunctionProps>, RegExp][] = [
    [{ runtime: lambda.Runtime.PROVIDED_AL2023, code: lambda.Code.fromAsset(__dirname) }, /transparent must be off for the runtime provided.al2023, which knows no wrapper/],
    [{ runtime: lambda.Runtime.FROM_IMAGE, handler: lambda.Handler.FROM_IMAGE, code: lambda.Code.fromEcrImage({ repositoryName: 'x', repositoryArn: 'arn', repositoryUriForTagOrDigest: () => 'x', grantPull: () => undefined, addToResourcePolicy: () => ({ statementAdded: true }) } as any) },
      /transparent must be off for a container image, which has no layers/],
    [{ code: asset, environment: { AWS_LAMBDA_EXEC_WRAPPER: '/opt/other' } }, /transparent needs AWS_LAMBDA_EXEC_WRAPPER, which is "\/opt\/other"/],
  ];
  for (const [props, expected] of cases) {
    const stack = new TestStack();
    const message = complaint(() => stack.retry.attach(stack.function('Orders', props), { transparent: true }));
    assert.ok(message.startsWith(REFUSED), message);
    assert.match(message, expected);
  }
});

test('what contradicts itself is refused, and the function named', () => {
  const cases: [(stack: TestStack) => void, string][] = [
    [(stack) => {
      const orders = stack.function('Orders');
      stack.retry.attach(orders);
      stack.retry.attach(orders);
    }, 'it is attached already'],
    [(stack) => {
      const orders = stack.function('Orders');
      new AsyncRetry(stack, 'Other').attach(orders);
      stack.retry.attach(orders);
    }, 'its on-failure destination is another one already, by Test/Other/Attached-Orders-'],
    [(stack) => stack.retry.attach(stack.function('Orders', { onFailure: new destinations.SqsDestination(new sqs.Queue(stack, 'Mine')) })),
      'its on-failure destination is another one already, by Test/Orders/EventInvokeConfig/Resource'],
    [(stack) => stack.retry.attach(stack.function('Orders', { retryAttempts: 1 })),
      'retryAttempts must be not set: Lambda\'s own retries would come before the first failure is known, got 1'],
    [(stack) => stack.retry.attach(stack.function('Orders', { recursiveLoop: lambda.RecursiveLoop.TERMINATE })),
      'recursiveLoop must be Allow, or not set: Lambda would stop its retries after about 16, got Terminate'],
  ];
  for (const [build, expected] of cases) {
    const message = complaint(() => build(new TestStack()));
    assert.ok(message.startsWith(REFUSED + expected), message);
  }
});

test('a function has one policy, whatever is attached of it', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders');
  stack.retry.attach(orders, { maxAttempts: 3 });
  assert.match(
    complaint(() => stack.retry.attach(orders.currentVersion, { maxAttempts: 4 })),
    /its policy must be the one of the function's other attachments/,
  );
});

test('a second event invoke config that comes later fails the synthesis', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders');
  stack.retry.attach(orders);
  orders.configureAsyncInvoke({ retryAttempts: 2 });
  assert.match(complaint(() => (stack.node.root as App).synth()), /Test\/Orders has a second event invoke config, Test\/Orders\/EventInvokeConfig/);
});

test('a loop that is forbidden later fails the synthesis', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders');
  stack.retry.attach(orders);
  (orders.node.defaultChild as lambda.CfnFunction).recursiveLoop = 'Terminate';
  assert.match(complaint(() => (stack.node.root as App).synth()), /Test\/Orders must keep recursiveLoop Allow, got Terminate/);
});

test('no more functions are taken than can be named', () => {
  const stack = new TestStack();
  for (let index = 0; index < 50; index += 1) stack.retry.attach(stack.function(`F${index}`));
  assert.match(complaint(() => stack.retry.attach(stack.function('Orders'))), /50 functions are attached; make another AsyncRetry/);
});

test('an imported function is attached as far as a template reaches, and the rest is said', () => {
  const env = { account: '123456789012', region: 'eu-west-1' };
  const stack = new TestStack({}, { env });
  const functionArn = 'arn:aws:lambda:eu-west-1:123456789012:function:orders';
  const role = iam.Role.fromRoleArn(stack, 'OrdersRole', 'arn:aws:iam::123456789012:role/orders-role');
  const orders = lambda.Function.fromFunctionAttributes(stack, 'Orders', { functionArn, role, sameEnvironment: true });
  stack.retry.attach(orders);
  assert.equal(stack.only('AWS::Lambda::EventInvokeConfig').FunctionName, 'orders');
  assert.deepEqual(stack.statementsOf(/orders-role/).map(({ Action }: any) => Action), ['sqs:SendMessage']);
  assert.deepEqual(stack.warnings.map((text) => text.replace(/ \[ack: .*/, '')), [
    'Test/Orders: its RecursiveLoop can\'t be set from here, and Lambda would stop its retries after about 16: '
    + 'run aws lambda put-function-recursion-config --recursive-loop Allow --function-name orders',
  ]);

  const other = new TestStack({}, { env });
  other.retry.attach(lambda.Function.fromFunctionArn(other, 'Orders', functionArn), { transparent: true });
  assert.deepEqual(other.warnings.map((text) => /comeback:(\w+)/.exec(text)?.[1]).sort(), ['recursion', 'role', 'transparent']);
});

test('a function that lives elsewhere can\'t be attached', () => {
  const stack = new TestStack({}, { env: { account: '123456789012', region: 'eu-west-1' } });
  const imported = (id: string, arn: string) => lambda.Function.fromFunctionArn(stack, id, arn);
  const cases = [
    ['arn:aws:lambda:us-east-1:123456789012:function:orders', 'it must be in the region of its retries, eu-west-1, and is in us-east-1'],
    ['arn:aws:lambda:eu-west-1:000000000000:function:orders', 'it must be in the account of its retries, 123456789012, and is in 000000000000'],
    ['arn:aws:lambda:eu-west-1:123456789012:function:orders:live', 'its ARN must be without a qualifier, got arn:aws:lambda:eu-west-1:123456789012:function:orders:live'],
  ];
  for (const [index, [arn, expected]] of cases.entries()) {
    assert.match(complaint(() => stack.retry.attach(imported(`F${index}`, arn))), new RegExp(expected));
  }
});
