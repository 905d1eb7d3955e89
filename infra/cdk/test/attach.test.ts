import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  App,
  aws_iam as iam,
  aws_lambda as lambda,
  aws_lambda_destinations as destinations,
  aws_sqs as sqs,
  CfnParameter,
  Duration,
  Lazy,
  RemovalPolicy,
  Stack,
  Stage,
} from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AttachOptions } from '../lib';
import { aliasOf, errorOf, functionIn, idOf, TestStack, twoStacks, warningsIn } from './app';

test('the permission and the mapping exist before the destination', () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Orders'));
  const [{ DependsOn }] = Object.values(stack.template.findResources('AWS::Lambda::EventInvokeConfig'));
  const ofOrders = DependsOn[0].slice('RetryRetryQueueOrders'.length, -15);
  const ofRole = DependsOn[2].slice(-16, -8);
  assert.deepEqual(
    DependsOn.map((id: string) => id.slice(0, -8)),
    ['Mapping', 'Policy']
      .map((part) => `RetryRetryQueueOrders${ofOrders}${part}`)
      .concat(`RetrySendersServiceRole${ofRole}`),
  );
});

test('the handler may invoke the attached functions with all their versions and aliases, and no other', () => {
  const stack = new TestStack();
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  stack.retry.attach(orders);
  stack.retry.attach(payments);
  stack.function('Bystander');
  const arn = (each: lambda.Function) => stack.resolve(each.functionArn);
  const invoke = stack.statementsOf(/HandlerRole/).filter(({ Action }: any) => Action === 'lambda:InvokeFunction');
  assert.deepEqual(
    invoke.flatMap(({ Resource }: any) => Resource),
    [orders, payments].flatMap((each) => [arn(each), { 'Fn::Join': ['', [arn(each), ':*']] }]),
  );
});

test('each function has its own queue and mapping, and messages in that queue may name no other function', () => {
  const stack = new TestStack();
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  for (const each of [orders, payments, orders.currentVersion]) stack.retry.attach(each);
  const targets = stack.json('QUEUE_TARGETS');
  assert.deepEqual(Object.values(targets), [['Orders'], ['Payments']]);
  const mappings = stack.all('AWS::Lambda::EventSourceMapping');
  assert.deepEqual(mappings.map(({ EventSourceArn }) => idOf(EventSourceArn)).sort(), Object.keys(targets).sort());
  for (const { FunctionName } of mappings) assert.match(JSON.stringify(FunctionName), /"RetryHandler/);
  // A function's failures go to its own queue, whichever version or alias fails.
  for (const { DestinationConfig, FunctionName } of stack.all('AWS::Lambda::EventInvokeConfig')) {
    assert.deepEqual(targets[idOf(DestinationConfig.OnFailure.Destination)], [idOf(FunctionName)]);
  }
});

test('the queue of a function is known by any of its aliases and versions', () => {
  const stack = new TestStack();
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  stack.retry.attach(orders);
  stack.retry.attach(payments);
  assert.equal(stack.retry.retryQueueOf(orders.currentVersion), stack.retry.retryQueues[0]);
  assert.equal(stack.retry.retryQueueOf(payments), stack.retry.retryQueues[1]);
  assert.throws(() => stack.retry.retryQueueOf(stack.function('Mails')), {
    message: 'AsyncRetry Test/Retry has no retry queue of Test/Mails: attach it first',
  });
});

test('functions share one queue on request, whose messages may name all of them', () => {
  const stack = new TestStack({ sharedQueue: true });
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  for (const each of [orders, payments, orders.currentVersion]) stack.retry.attach(each);
  assert.deepEqual(stack.json('QUEUE_TARGETS'), { RetryRetryQueue: ['Orders', 'Payments'] });
  stack.template.resourceCountIs('AWS::Lambda::EventSourceMapping', 1);
  assert.equal(stack.retry.retryQueues.length, 1);
});

test('the queue for redrives may have messages of every function', () => {
  const stack = new TestStack();
  stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
  for (const id of ['Orders', 'Payments', 'Mails']) stack.retry.attach(stack.function(id));
  assert.deepEqual(stack.json('QUEUE_TARGETS').RetryRedriveQueue, ['Orders', 'Payments', 'Mails']);
});

test('a queue keeps its logical id when other functions are attached, removed or attached in another order', () => {
  const idsOf = (...attached: string[]) => {
    const stack = new TestStack();
    const functions = Object.fromEntries(['A', 'B', 'C'].map((id) => [id, stack.function(id)]));
    for (const id of attached) stack.retry.attach(functions[id]);
    return Object.keys(stack.template.findResources('AWS::SQS::Queue')).filter((id) => /RetryQueueB/.test(id));
  };
  const [id, ...others] = idsOf('B');
  assert.deepEqual(others, []);
  for (const attached of [
    ['A', 'B', 'C'],
    ['C', 'B'],
    ['B', 'A'],
  ])
    assert.deepEqual(idsOf(...attached), [id]);
});

test('before a function is attached, no queue has targets', () => {
  for (const sharedQueue of [false, true]) {
    const { Variables } = new TestStack({ sharedQueue }).only('AWS::Lambda::Function', /Handler/).Environment;
    assert.ok(!('QUEUE_TARGETS' in Variables));
  }
});

test('aliases and versions are configured by their qualifiers, and the handler knows their function', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders');
  for (const target of [orders, aliasOf(orders), orders.currentVersion]) stack.retry.attach(target, { maxAttempts: 3 });
  const configs = stack.all('AWS::Lambda::EventInvokeConfig');
  assert.ok(configs.every(({ FunctionName }) => /^Orders/.test(FunctionName.Ref)));
  const qualifiers = configs.map(({ Qualifier }) => Qualifier['Fn::GetAtt']?.[1] ?? Qualifier);
  assert.deepEqual(qualifiers.sort(), ['$LATEST', 'Version', 'live']);
  assert.deepEqual(Object.values(stack.json('QUEUE_TARGETS')), [['Orders']]);
  assert.deepEqual(stack.json('POLICIES'), { Orders: { MAX_ATTEMPTS: '3' } });
});

test("a function in another stack doesn't depend on the stack of the retries", () => {
  const { app, functions, retries } = twoStacks();
  const orders = functionIn(functions, 'Orders');
  new AsyncRetry(retries, 'Retry').attach(orders, { maxAge: Duration.days(7) });
  app.synth();
  assert.deepEqual(
    retries.dependencies.map(({ stackName }) => stackName),
    ['Functions'],
  );
  assert.deepEqual(functions.dependencies, []);
  const template = Template.fromStack(functions);
  template.hasResourceProperties('AWS::Lambda::Function', { RecursiveLoop: 'Allow' });
  Template.fromStack(retries).resourceCountIs('AWS::Lambda::EventInvokeConfig', 1);
  const { Environment } = Object.values(
    Template.fromStack(retries).findResources('AWS::Lambda::Function', { Properties: { Handler: 'bootstrap' } }),
  )[0].Properties;
  assert.match(
    JSON.stringify(Environment.Variables.QUEUE_TARGETS),
    /"QueueName"\]},.*"Functions:ExportsOutputRefOrders/,
  );
});

test('the other properties of an event invoke config are kept', () => {
  const stack = new TestStack();
  const audit = new sqs.Queue(stack, 'Audit');
  const orders = stack.function('Orders', {
    maxEventAge: Duration.hours(1),
    retryAttempts: 0,
    onSuccess: new destinations.SqsDestination(audit),
  });
  stack.retry.attach(orders);
  const config = stack.only('AWS::Lambda::EventInvokeConfig');
  assert.equal(config.MaximumEventAgeInSeconds, 3600);
  assert.equal(config.MaximumRetryAttempts, 0);
  assert.match(JSON.stringify(config.DestinationConfig.OnSuccess), /Audit/);
  assert.match(JSON.stringify(config.DestinationConfig.OnFailure), /RetryQueue/);
});

const other = (stack: TestStack) => new destinations.SqsDestination(new sqs.Queue(stack, 'Mine'));
/** What can't be attached, and why. */
const CONTRADICTIONS: [(stack: TestStack) => [lambda.IFunction, AttachOptions?], string][] = [
  [
    (stack) => {
      const orders = stack.function('Orders');
      stack.retry.attach(orders);
      return [orders];
    },
    'it is attached already',
  ],
  [
    (stack) => {
      const orders = stack.function('Orders');
      new AsyncRetry(stack, 'Other').attach(orders);
      return [orders];
    },
    'it already has another on-failure destination, by Test/Orders/EventInvokeConfig/Resource',
  ],
  [
    (stack) => [stack.function('Orders', { onFailure: other(stack) })],
    'it already has another on-failure destination, by Test/Orders/EventInvokeConfig/Resource',
  ],
  [
    (stack) => {
      const orders = stack.function('Orders', { maxEventAge: Duration.hours(1) });
      const config = orders.node.findChild('EventInvokeConfig').node.defaultChild as lambda.CfnEventInvokeConfig;
      config.destinationConfig = Lazy.any({ produce: () => undefined });
      config.maximumRetryAttempts = Lazy.number({ produce: () => 0 });
      return [orders];
    },
    "its event invoke config at Test/Orders/EventInvokeConfig/Resource can't be read; retryAttempts must not be set",
  ],
  [
    (stack) => [stack.function('Orders', { retryAttempts: 1 })],
    "retryAttempts must not be set: Lambda's own retries would come before the first failure is known, got 1",
  ],
  [
    (stack) => [stack.function('Orders', { recursiveLoop: lambda.RecursiveLoop.TERMINATE })],
    'recursiveLoop must be Allow, or not set: Lambda would stop its retries after about 16, got Terminate',
  ],
  [
    (stack) => {
      const alias = aliasOf(stack.function('F'));
      stack.retry.attach(alias, { maxAttempts: 3 });
      return [alias.lambda, { maxAttempts: 4 }];
    },
    "its policy must be that of the function's other attachments",
  ],
  [
    (stack) => [stack.function('Orders', { tenancyConfig: lambda.TenancyConfig.PER_TENANT })],
    'tenantId must be the place of the tenant id in its payload, such as /tenant/id: it has tenant isolation',
  ],
  [
    (stack) => {
      const orders = stack.function('Orders');
      (orders.node.defaultChild as lambda.CfnFunction).durableConfig = { executionTimeout: 60 };
      return [orders];
    },
    'it is a durable function, which has no destinations: make a retry queue its dead-letter queue, as docs/functions.md says',
  ],
  [(stack) => [stack.retry.handler], 'it is the retry handler itself'],
  [
    (stack) => {
      const env = { account: '123456789012', region: 'eu-west-1' };
      return [functionIn(new Stack(stack.node.root, 'Functions', { env }), 'Orders')];
    },
    'its stack and that of its retries must both have an env, or neither',
  ],
];

test('contradictions are refused with the name of the function', () => {
  for (const [build, expected] of CONTRADICTIONS) {
    const stack = new TestStack();
    const [target, options] = build(stack);
    const message = errorOf(() => stack.retry.attach(target, options));
    assert.ok(message.startsWith(`AsyncRetry Test/Retry can't attach ${target.node.path}: `), message);
    assert.ok(message.includes(expected), message);
  }
});

test('a function with tenant isolation is attached if its payloads say who the tenant is', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders', { tenancyConfig: lambda.TenancyConfig.PER_TENANT });
  stack.retry.attach(orders, { tenantId: '/tenant/id' });
  assert.deepEqual(stack.warnings, []);
});

test('a second event invoke config in the app fails the synthesis, however it names the function', () => {
  const named = (stack: TestStack) => stack.function('Orders', { functionName: 'orders' });
  const other = (stack: TestStack) => new Stack(stack.node.root, 'Other');
  const raw = (scope: Stack, functionName: string) =>
    new lambda.CfnEventInvokeConfig(scope, 'Second', { functionName, qualifier: '$LATEST' });
  const cases: ((stack: TestStack, orders: lambda.Function) => unknown)[] = [
    (stack, orders) => new lambda.EventInvokeConfig(stack, 'Second', { function: orders, retryAttempts: 1 }),
    (stack, orders) => new lambda.EventInvokeConfig(other(stack), 'Second', { function: orders }),
    (stack, orders) => raw(stack, orders.functionArn),
    (stack, orders) => raw(stack, (orders.node.defaultChild as lambda.CfnFunction).ref),
    (stack) => raw(stack, 'orders'),
    (stack) => raw(other(stack), 'orders'),
  ];
  for (const second of cases) {
    const stack = new TestStack();
    const orders = named(stack);
    second(stack, orders);
    stack.retry.attach(orders);
    assert.throws(() => (stack.node.root as App).synth(), {
      message: /Test\/Orders has a second event invoke config, (Test|Other)\/Second/,
    });
  }
  const stack = new TestStack();
  const orders = named(stack);
  stack.retry.attach(orders);
  assert.throws(() => orders.configureAsyncInvoke({ retryAttempts: 2 }), {
    message: /An EventInvokeConfig has already been configured for the function at Test\/Orders/,
  });
});

test('an alias in another stack that is configured later fails the synthesis', () => {
  const { app, functions, retries } = twoStacks();
  const alias = aliasOf(functionIn(functions, 'Orders'));
  new AsyncRetry(retries, 'Retry').attach(alias);
  alias.configureAsyncInvoke({ retryAttempts: 2 });
  assert.throws(() => app.synth(), {
    message:
      /Functions\/Alias-live has a second event invoke config, Functions\/Alias-live\/EventInvokeConfig\/Resource/,
  });
});

test('the latest version is the function itself', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders', { maxEventAge: Duration.hours(1) });
  stack.retry.attach(orders.latestVersion);
  assert.equal(stack.only('AWS::Lambda::EventInvokeConfig').MaximumEventAgeInSeconds, 3600);
  assert.throws(() => stack.retry.attach(orders), { message: /it is attached already$/ });
});

test('an existing config of an alias is treated like that of a function', () => {
  const stack = new TestStack();
  const version = stack.function('Orders').currentVersion;
  const onFailure = new destinations.SqsDestination(new sqs.Queue(stack, 'Mine'));
  const taken = new lambda.Alias(stack, 'Taken', { aliasName: 'taken', version, onFailure });
  assert.throws(() => stack.retry.attach(taken), {
    message: /can't attach Test\/Taken: it already has another on-failure destination/,
  });
  const live = new lambda.Alias(stack, 'Live', { aliasName: 'live', version, maxEventAge: Duration.hours(1) });
  stack.retry.attach(live);
  const [config] = Object.values(
    stack.template.findResources('AWS::Lambda::EventInvokeConfig', { Properties: { MaximumEventAgeInSeconds: 3600 } }),
  );
  assert.ok(
    config.DependsOn.some((id: string) => id.startsWith('Live')),
    'there is an alias before it is configured',
  );
});

test('a deployed config keeps its logical id', () => {
  const ids = [true, false].map((isAttached) => {
    const stack = new TestStack();
    const orders = stack.function('Orders', { maxEventAge: Duration.hours(1) });
    if (isAttached) stack.retry.attach(orders);
    return Object.keys(stack.template.findResources('AWS::Lambda::EventInvokeConfig'));
  });
  assert.deepEqual(ids[0], ids[1]);
});

test('a config in another stack moves to the stack of the retries, with a warning', () => {
  const { functions, retries } = twoStacks();
  const onSuccess = new destinations.SqsDestination(new sqs.Queue(functions, 'Audit'));
  new AsyncRetry(retries, 'Retry').attach(
    functionIn(functions, 'Orders', { maxEventAge: Duration.hours(1), onSuccess }),
  );
  Template.fromStack(functions).resourceCountIs('AWS::Lambda::EventInvokeConfig', 0);
  Template.fromStack(retries).hasResourceProperties('AWS::Lambda::EventInvokeConfig', {
    MaximumEventAgeInSeconds: 3600,
    MaximumRetryAttempts: 0,
    DestinationConfig: { OnSuccess: {}, OnFailure: {} },
  });
  assert.equal(
    Annotations.fromStack(retries).findWarning('*', Match.stringLikeRegexp('its event invoke config moves')).length,
    1,
  );
});

test('the same function is recognized, however it is named', () => {
  const env = { account: '123456789012', region: 'eu-west-1' };
  const arn = 'arn:aws:lambda:eu-west-1:123456789012:function:orders';
  const stack = new TestStack({}, { env });
  const called = [
    stack.function('Orders', { functionName: 'orders' }),
    lambda.Function.fromFunctionName(stack, 'ByName', 'orders'),
    lambda.Function.fromFunctionArn(stack, 'ByArn', arn),
  ];
  stack.retry.attach(called[0]);
  for (const each of called) assert.throws(() => stack.retry.attach(each), { message: /: it is attached already$/ });
  const unknown = new CfnParameter(stack, 'Arn').valueAsString;
  const [first, second] = ['First', 'Second'].map((id) => lambda.Function.fromFunctionArn(stack, id, unknown));
  stack.retry.attach(first);
  assert.throws(() => stack.retry.attach(second), { message: /: it is attached already$/ });
});

test('functions with the same name in different places are different', () => {
  const home = { account: '111111111111', region: 'eu-west-1' };
  const byName = (stack: Stack) => lambda.Function.fromFunctionName(stack, 'Orders', 'orders');
  const made = (stack: Stack) => functionIn(stack, 'Orders');
  const configured = (stack: Stack) =>
    new lambda.CfnEventInvokeConfig(stack, 'Config', { functionName: 'orders', qualifier: '$LATEST' });
  const cases: [(app: App) => Stack[], (stack: Stack) => lambda.IFunction, (stack: Stack) => unknown][] = [
    [
      (app) =>
        [home, { ...home, account: '222222222222' }].map((env, index) => new Stack(app, `Stack${index}`, { env })),
      byName,
      configured,
    ],
    [
      (app) => [home, { ...home, region: 'us-east-1' }].map((env, index) => new Stack(app, `Stack${index}`, { env })),
      byName,
      configured,
    ],
    // The account and region of these are not known yet.
    [(app) => ['Blue', 'Green'].map((id) => new Stack(new Stage(app, id), 'Stack')), byName, configured],
    // These have the same logical id.
    [
      (app) => ['Blue', 'Green'].map((id) => new Stack(app, id)),
      made,
      (stack) => new lambda.EventInvokeConfig(stack, 'Config', { function: made(stack) }),
    ],
  ];
  for (const [stacks, orders, config] of cases) {
    const app = new App();
    const [here, there] = stacks(app);
    new AsyncRetry(here, 'Retry').attach(orders(here));
    config(there);
    app.synth();
  }
});

test('a role of several functions may send to the queues of all, and to a shared one once', () => {
  const queuesOf = (sharedQueue: boolean) => {
    const stack = new TestStack({ sharedQueue });
    const role = new iam.Role(stack, 'Common', { assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com') });
    for (const id of ['A', 'B', 'C']) stack.retry.attach(stack.function(id, { role }));
    const statements = stack.statementsOf(/Common/);
    assert.ok(statements.every(({ Action }: any) => Action === 'sqs:SendMessage'));
    return statements.map(({ Resource }: any) => /RetryQueue([ABC]?)/.exec(Resource['Fn::GetAtt'][0])?.[1]);
  };
  assert.deepEqual(queuesOf(false), ['A', 'B', 'C']);
  assert.deepEqual(queuesOf(true), ['']);
});

test("a role that can't be changed is a warning that says what it needs", () => {
  const stack = new TestStack();
  const role = new iam.Role(stack, 'Fixed', {
    assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
  }).withoutPolicyUpdates();
  stack.retry.attach(stack.function('Orders', { role }));
  assert.equal(stack.warnings.length, 1);
  assert.match(
    stack.warnings[0],
    /Test\/Orders: its role can't be changed here.* give it {"Statement":\[{"Action":"sqs:SendMessage"/,
  );
});

test('a function with an unknown role opens its own queue to all roles of the account, and no other queue', () => {
  const stack = new TestStack();
  stack.retry.attach(lambda.Function.fromFunctionName(stack, 'Orders', 'orders'));
  stack.retry.attach(stack.function('Payments'));
  const sendersOf = (id: RegExp) => {
    const [, , , send] = stack.only('AWS::SQS::QueuePolicy', id).PolicyDocument.Statement;
    return JSON.stringify(send.Condition.ArnNotEquals['aws:PrincipalArn']);
  };
  const anyRole = /{"Ref":"AWS::Partition"},":iam::",{"Ref":"AWS::AccountId"},":role\/\*"/;
  assert.match(sendersOf(/RetryQueueOrders/), anyRole);
  assert.doesNotMatch(sendersOf(/RetryQueuePayments/), anyRole);
});

test('a singleton function is a function of this app', () => {
  const stack = new TestStack();
  const orders = new lambda.SingletonFunction(stack, 'Orders', {
    uuid: 'orders',
    runtime: lambda.Runtime.PYTHON_3_13,
    handler: 'index.handler',
    code: lambda.Code.fromInline('-'),
  });
  stack.retry.attach(orders);
  assert.deepEqual(stack.warnings, []);
  const properties = stack.only('AWS::Lambda::Function', /^Singleton/);
  assert.equal(properties.RecursiveLoop, 'Allow');
});

test('a version that changes with each deployment is a warning, and its alias is not', () => {
  const warningsOf = (
    isHere: boolean,
    attach: (retry: AsyncRetry, orders: lambda.Function) => void,
    props: Partial<lambda.FunctionProps> = {},
  ) => {
    const { functions, retries } = twoStacks();
    attach(new AsyncRetry(isHere ? functions : retries, 'Retry'), functionIn(functions, 'Orders', props));
    return warningsIn(isHere ? functions : retries);
  };
  const attachVersion = (retry: AsyncRetry, orders: lambda.Function) => retry.attach(orders.currentVersion);
  const [across, ...others] = warningsOf(false, attachVersion);
  assert.match(
    across,
    /^Functions\/Orders\/CurrentVersion: each change of its function makes a new version, which Functions can't deploy while Retries imports the old one: attach an alias/,
  );
  const [within, ...more] = warningsOf(true, attachVersion);
  assert.match(
    within,
    /makes a new version and deletes the old one, although waiting events name it: attach an alias of it, or retain it/,
  );
  assert.deepEqual([...others, ...more], []);
  const currentVersionOptions = { removalPolicy: RemovalPolicy.RETAIN };
  assert.deepEqual(warningsOf(true, attachVersion, { currentVersionOptions }), []);
  for (const target of [aliasOf, (orders: lambda.Function) => orders.latestVersion])
    for (const isHere of [true, false])
      assert.deepEqual(
        warningsOf(isHere, (retry, orders) => retry.attach(target(orders))),
        [],
      );
});

test('an alias in another stack is attached without its version', () => {
  const { app, functions, retries } = twoStacks();
  const alias = aliasOf(functionIn(functions, 'Orders'));
  new AsyncRetry(retries, 'Retry').attach(alias);
  app.synth();
  const exported = Object.keys(Template.fromStack(functions).toJSON().Outputs);
  assert.ok(exported.length > 0);
  assert.deepEqual(
    exported.filter((name) => /Version/.test(name)),
    [],
  );
});

test("a dead-letter queue of the function's own is a warning", () => {
  const stack = new TestStack();
  stack.retry.attach(stack.function('Orders', { deadLetterQueueEnabled: true }));
  assert.match(
    stack.warnings[0],
    /Test\/Orders: it has a dead-letter queue of its own, to which Lambda also sends each failure/,
  );
});

test('forbidding a recursive loop after attach fails the synthesis', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders');
  stack.retry.attach(orders);
  (orders.node.defaultChild as lambda.CfnFunction).recursiveLoop = 'Terminate';
  assert.throws(() => (stack.node.root as App).synth(), {
    message: /Test\/Orders must keep recursiveLoop Allow, got Terminate/,
  });
});

test('an imported function is attached as far as a template allows, with a warning for the rest', () => {
  const env = { account: '123456789012', region: 'eu-west-1' };
  const stack = new TestStack({}, { env });
  const functionArn = 'arn:aws:lambda:eu-west-1:123456789012:function:orders';
  const role = iam.Role.fromRoleArn(stack, 'OrdersRole', 'arn:aws:iam::123456789012:role/orders-role');
  const orders = lambda.Function.fromFunctionAttributes(stack, 'Orders', { functionArn, role, sameEnvironment: true });
  stack.retry.attach(orders);
  assert.equal(stack.only('AWS::Lambda::EventInvokeConfig').FunctionName, 'orders');
  assert.deepEqual(stack.actionsOf(/orders-role/), ['sqs:SendMessage']);
  assert.deepEqual(
    stack.warnings.map((text) => text.replace(/ \[ack: .*/, '')),
    [
      "Test/Orders: its RecursiveLoop can't be set from here, and Lambda would stop its retries after about 16: " +
        'run aws lambda put-function-recursion-config --recursive-loop Allow --function-name orders',
    ],
  );

  const other = new TestStack({}, { env });
  other.retry.attach(lambda.Function.fromFunctionArn(other, 'Orders', functionArn));
  assert.deepEqual(other.warnings.map((text) => /comeback:(\w+)/.exec(text)?.[1]).sort(), ['recursion', 'role']);

  const unnamed = new TestStack();
  unnamed.retry.attach(lambda.Function.fromFunctionArn(unnamed, 'Orders', functionArn));
  unnamed.retry.attach(
    lambda.Function.fromFunctionName(unnamed, 'Payments', new CfnParameter(unnamed, 'Name').valueAsString),
  );
  assert.ok(unnamed.warnings.some((text) => text.includes('--function-name NAME')));
});

test("a function in another account or region can't be attached", () => {
  const stack = new TestStack({}, { env: { account: '123456789012', region: 'eu-west-1' } });
  const imported = (id: string, arn: string) => lambda.Function.fromFunctionArn(stack, id, arn);
  const cases = [
    [
      'arn:aws:lambda:us-east-1:123456789012:function:orders',
      'it must be in the region of its retries, eu-west-1, and is in us-east-1',
    ],
    [
      'arn:aws:lambda:eu-west-1:000000000000:function:orders',
      'it must be in the account of its retries, 123456789012, and is in 000000000000',
    ],
    [
      'arn:aws:lambda:eu-west-1:123456789012:function:orders:live',
      'its ARN must be without a qualifier, got arn:aws:lambda:eu-west-1:123456789012:function:orders:live',
    ],
  ];
  for (const [index, [arn, expected]] of cases.entries()) {
    assert.throws(() => stack.retry.attach(imported(`F${index}`, arn)), { message: new RegExp(expected) });
  }
});

test('with onlyAttachedQualifiers, the handler may invoke only the attached qualifiers', () => {
  const stack = new TestStack({ onlyAttachedQualifiers: true });
  const [orders, payments] = ['Orders', 'Payments'].map((id) => stack.function(id));
  stack.retry.attach(orders);
  for (const name of ['live', 'next']) stack.retry.attach(aliasOf(payments, name));
  const allowed = stack
    .statementsOf(/HandlerRole/)
    .filter(({ Action }) => Action === 'lambda:InvokeFunction')
    .flatMap(({ Resource }) => Resource);
  const qualified = (each: lambda.Function, qualifier: string) => stack.resolve(`${each.functionArn}:${qualifier}`);
  assert.deepEqual(allowed, [
    stack.resolve(orders.functionArn),
    qualified(orders, '$LATEST'),
    qualified(payments, 'live'),
    qualified(payments, 'next'),
  ]);
});
