import * as assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { aws_iam as iam, aws_sqs as sqs, CfnParameter, Duration, Token } from 'aws-cdk-lib';
import { AsyncRetry, AsyncRetryProps, Jitter, RetryPolicy } from '../lib';
import { generalVariables, variables } from '../lib/variables';
import { errorOf, TestStack } from './app';

const BAD_POLICIES: [RetryPolicy, string][] = [
  [{ baseBackoff: Duration.seconds(0) }, 'baseBackoff must be from 1s to 12h, got "0 seconds"'],
  [{ baseBackoff: Duration.millis(1500) }, 'baseBackoff must be whole seconds, got "1 second 500 millis"'],
  [{ baseBackoff: Duration.hours(13) }, 'baseBackoff must be from 1s to 12h, got "13 hours"'],
  [
    { baseBackoff: Duration.minutes(1), maxBackoff: Duration.seconds(59) },
    'maxBackoff must be from 1m (baseBackoff) to 13d, got "59 seconds"',
  ],
  [{ maxBackoff: Duration.days(14) }, 'maxBackoff must be from 1s (baseBackoff) to 13d, got "14 days"'],
  [{ maxAge: Duration.days(366) }, 'maxAge must be from 2s to 365d, got "366 days"'],
  [
    { baseBackoff: Duration.seconds(10), maxAge: Duration.seconds(10) },
    'maxAge must be longer than baseBackoff, 10s, got "10 seconds"',
  ],
  [{ backoffs: [Duration.minutes(1), Duration.days(14)] }, 'backoffs must be from 1s to 13d, got "14 days"'],
  [{ backoffs: [] }, 'backoffs must be at least one duration, got ""'],
  [
    { backoffs: [Duration.minutes(1)], baseBackoff: Duration.seconds(1) },
    'backoffs must be absent beside baseBackoff, got "1 minute"',
  ],
  [
    { errors: [{ errorType: 'RateLimited*', maxAge: Duration.days(366) }] },
    'errors.RateLimited*.maxAge must be from 2s to 365d, got "366 days"',
  ],
  [{ errors: [{ errorType: 'A' }, { errorType: 'A' }] }, 'errors must be each error type once, got "A"'],
  [{ errors: [{ errorType: ' A' }] }, 'errors must be error types without spaces around, got " A"'],
  [{ maxAttempts: 0 }, 'maxAttempts must be a whole number from 1 to 4294967295, got 0'],
  [{ maxAttempts: 1.5 }, 'maxAttempts must be a whole number from 1 to 4294967295, got 1.5'],
  [{ maxAttempts: 2 ** 32 }, 'maxAttempts must be a whole number from 1 to 4294967295, got 4294967296'],
  [{ jitter: 'some' as Jitter }, 'jitter must be full, equal or none, got "some"'],
  [{ nonRetryableErrors: ['Good', 'a,b'] }, 'nonRetryableErrors must be texts without a comma, * allowed, got "a,b"'],
  [{ nonRetryableErrors: [' '] }, 'nonRetryableErrors must be texts without a comma, * allowed, got " "'],
];

const BAD: [AsyncRetryProps, string][] = [
  ...BAD_POLICIES,
  [{ maxConcurrency: 1 }, 'maxConcurrency must be a whole number from 2 to 1000, got 1'],
  [{ inFlightMax: 0 }, 'inFlightMax must be a whole number from 1 to 4294967295, got 0'],
  [{ inFlightMax: -1 }, 'inFlightMax must be a whole number from 1 to 4294967295, got -1'],
  [{ inFlightMax: 1.5 }, 'inFlightMax must be a whole number from 1 to 4294967295, got 1.5'],
  [{ memorySize: 127 }, 'memorySize must be a whole number from 128 to 10240, got 127'],
  [{ handlerTimeout: Duration.seconds(9) }, 'handlerTimeout must be from 10s to 15m, got "9 seconds"'],
  [{ handlerTimeout: Duration.minutes(16) }, 'handlerTimeout must be from 10s to 15m, got "16 minutes"'],
];

test('a value out of its range is refused with its name, its range and its value', () => {
  for (const [props, expected] of BAD) {
    assert.throws(() => new TestStack(props), { message: `AsyncRetry Test/Retry: ${expected}` });
  }
});

test('a policy of a function has the same ranges', () => {
  for (const [policy, expected] of BAD_POLICIES) {
    const stack = new TestStack();
    assert.throws(() => stack.retry.attach(stack.function('Orders'), policy), {
      message: `AsyncRetry Test/Retry can't attach Test/Orders: ${expected}`,
    });
  }
});

test('the second attachment of a function is checked like the first', () => {
  const stack = new TestStack();
  const orders = stack.function('Orders');
  stack.retry.attach(orders);
  const message = errorOf(() => stack.retry.attach(orders.currentVersion, { baseBackoff: Duration.millis(1500) }));
  assert.match(
    message,
    /can't attach Test\/Orders\/CurrentVersion: .*; baseBackoff must be whole seconds, got "1 second 500 millis"$/,
  );
});

test('one message lists all errors', () => {
  const message = errorOf(() => new TestStack({ baseBackoff: Duration.hours(13), maxAttempts: 0, maxConcurrency: 1 }));
  assert.deepEqual(
    message.split('; ').map((each) => / ?(\w+) must be/.exec(each)?.[1]),
    ['baseBackoff', 'maxAttempts', 'maxConcurrency'],
  );
});

test('values at the ends of their ranges are accepted', () => {
  // Those of policies and of inFlightMax are compared with the handler's below.
  for (const handlerTimeout of [Duration.seconds(10), Duration.minutes(15)])
    new TestStack({ maxConcurrency: 2, memorySize: 10_240, handlerTimeout });
});

test('a policy of a function is checked together with the general one', () => {
  const stack = new TestStack({ baseBackoff: Duration.minutes(1) });
  stack.retry.attach(stack.function('Payments'), {
    baseBackoff: Duration.seconds(1),
    maxBackoff: Duration.seconds(10),
  });
  assert.throws(() => stack.retry.attach(stack.function('Orders'), { maxBackoff: Duration.seconds(10) }), {
    message:
      'AsyncRetry Test/Retry can\'t attach Test/Orders: maxBackoff must be from 1m (baseBackoff) to 13d, got "10 seconds"',
  });
});

test('a policy of a function has only its own values', () => {
  const stack = new TestStack({ maxAge: Duration.hours(6) });
  stack.retry.attach(stack.function('Orders'), {
    maxAge: Duration.days(7),
    maxAttempts: 3,
    nonRetryableErrors: ['A', 'B'],
  });
  stack.retry.attach(stack.function('Payments'));
  assert.deepEqual(stack.json('POLICIES'), {
    Orders: { MAX_AGE: '7d', MAX_ATTEMPTS: '3', NON_RETRYABLE_ERRORS: 'A,B' },
  });
});

test('an empty list overrides the general one', () => {
  const stack = new TestStack({ nonRetryableErrors: ['A'] });
  stack.retry.attach(stack.function('Orders'), { nonRetryableErrors: [] });
  assert.deepEqual(stack.json('POLICIES'), { Orders: { NON_RETRYABLE_ERRORS: '' } });
});

test("values that must be known at synthesis can't be tokens", () => {
  const stack = new TestStack();
  const number = new CfnParameter(stack, 'Number', { type: 'Number' }).valueAsNumber;
  const message = errorOf(() => new AsyncRetry(stack, 'Other', { handlerTimeout: Duration.minutes(number) }));
  assert.equal(message, 'AsyncRetry Test/Other: handlerTimeout must be known at synthesis, got a token');
  assert.throws(() => new AsyncRetry(stack, 'Third', { baseBackoff: Duration.millis(number) }), {
    message: /baseBackoff must be in seconds or a longer unit, got "millis"$/,
  });
  assert.throws(() => stack.retry.alarms({ settings: { Lateness: { period: Duration.hours(number) } } }), {
    message: /Lateness\.period must be known at synthesis, got a token/,
  });
});

test('tokens are not checked', () => {
  const stack = new TestStack();
  const number = (id: string) => new CfnParameter(stack, id, { type: 'Number' }).valueAsNumber;
  const retry = new AsyncRetry(stack, 'Tokens', {
    baseBackoff: Duration.seconds(number('Base')),
    maxBackoff: Duration.minutes(number('Max')),
    maxAge: Duration.days(number('Age')),
    maxAttempts: number('Attempts'),
    jitter: new CfnParameter(stack, 'Jitter').valueAsString as Jitter,
    maxConcurrency: number('Concurrency'),
    memorySize: number('Memory'),
    inFlightMax: number('InFlight'),
    nonRetryableErrors: Token.asList(new CfnParameter(stack, 'Errors', { type: 'CommaDelimitedList' }).value),
  });
  retry.attach(stack.function('Orders'), { maxAttempts: number('Own') });
  retry.attach(stack.function('Payments'), { maxBackoff: Duration.days(13), maxAge: Duration.days(30) });
  retry.alarms();
  const { Variables } = stack.only('AWS::Lambda::Function', /TokensHandler/).Environment;
  assert.deepEqual(stack.resolve(Variables.MAX_AGE), { 'Fn::Join': ['', [{ Ref: 'Age' }, 'd']] });
  assert.deepEqual(Variables.MAX_BACKOFF, { 'Fn::Join': ['', [{ Ref: 'Max' }, 'm']] });
  assert.deepEqual(Variables.MAX_ATTEMPTS, { Ref: 'Attempts' });
  assert.deepEqual(Variables.IN_FLIGHT_MAX, { Ref: 'InFlight' });
  assert.deepEqual(Variables.NON_RETRYABLE_ERRORS, { 'Fn::Join': [',', { Ref: 'Errors' }] });
});

/** The path of the retry handler, which must be built before this test. */
const HANDLER = process.env.RETRY_HANDLER;

/** The variables that the handler refuses at startup. With valid ones it also fails, as there is no Runtime API. */
function refusedByHandler(given: { [name: string]: string }): string[] {
  assert.ok(HANDLER, 'RETRY_HANDLER must be the path of the retry handler, and is not set');
  const { stdout, status } = spawnSync(HANDLER, {
    encoding: 'utf8',
    env: {
      ...given,
      DEAD_LETTER_QUEUE_URL: 'https://sqs.eu-west-1.amazonaws.com/123456789012/dead-letters',
      AWS_REGION: 'eu-west-1',
      AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9',
      AWS_LAMBDA_FUNCTION_NAME: 'handler',
      AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '128',
    },
  });
  assert.equal(status, 1, stdout);
  // Warnings come first.
  const { message } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  return message
    .split('; ')
    .map((fault: string) => /^([\w.*-]+) must be/.exec(fault)?.[1])
    .filter(Boolean);
}

/** The properties that the construct refuses, under the names of their variables. */
function refusedByConstruct(props: AsyncRetryProps): string[] {
  try {
    new TestStack(props);
    return [];
  } catch (error) {
    const [, faults] = (error as Error).message.split('AsyncRetry Test/Retry: ');
    const properties = faults.split('; ').map((fault) => fault.split(' must be')[0]);
    return properties.map((each) => (each === 'ledger' ? 'LEDGER_TABLE' : each.replace(/[A-Z]/g, '_$&').toUpperCase()));
  }
}

const HOUR = 60 * 60;
const DAY = 24 * HOUR;

test('a flag is a variable of the handler only if it is not its default', () => {
  const flags = (props: AsyncRetryProps) => {
    const { DURABLE, PROBE, REGISTER, TRANSPARENT } = generalVariables(props);
    return [DURABLE, PROBE, REGISTER, TRANSPARENT];
  };
  const [off, on] = [false, true].map((set) => ({ durable: set, probe: set, register: set, transparent: set }));
  assert.deepEqual(flags({}), Array(4).fill(undefined));
  assert.deepEqual(flags(off), Array(4).fill(undefined));
  assert.deepEqual(flags(on), Array(4).fill('true'));
  // The policy of one function may turn off what the general one turns on.
  assert.deepEqual(variables({ durable: false }), { DURABLE: 'false' });
});

test('the construct refuses exactly what the handler refuses', () => {
  const bases = [0, 1, 10, 12 * HOUR, 12 * HOUR + 1];
  const maxima = [0, 1, 9, 10, 13 * DAY, 13 * DAY + 1];
  const ages = [0, 1, 2, 10, 11, 12 * HOUR + 60, 365 * DAY, 365 * DAY + 1];
  const policies: AsyncRetryProps[] = bases.flatMap((base) =>
    maxima.flatMap((max) =>
      ages.map((age) => ({
        baseBackoff: Duration.seconds(base),
        maxBackoff: Duration.seconds(max),
        maxAge: Duration.seconds(age),
      })),
    ),
  );
  const others: AsyncRetryProps[] = [
    ...[0, 1, 2 ** 32 - 1, 2 ** 32].map((maxAttempts) => ({ maxAttempts })),
    ...[...Object.values(Jitter), 'some' as Jitter].map((jitter) => ({ jitter })),
    ...[0, 1, 120_001, 2 ** 32 - 1, 2 ** 32].map((inFlightMax) => ({ inFlightMax })),
    { nonRetryableErrors: ['ValidationError', '*.Fatal'] },
    ...[1, 60, 13 * DAY, 13 * DAY + 1].flatMap((last) => [
      { backoffs: [Duration.seconds(1), Duration.seconds(last)] },
      { backoffs: [Duration.seconds(last)], baseBackoff: Duration.minutes(1), maxAge: Duration.days(14) },
    ]),
    ...[false, true].flatMap((ledger) =>
      [false, true].flatMap((register) =>
        [false, true].flatMap((probe) =>
          [false, true].map((transparent) => ({ ledger, register, probe, transparent })),
        ),
      ),
    ),
  ];
  for (const props of [...policies, ...others]) {
    const given = { ...generalVariables(props), ...(props.ledger && { LEDGER_TABLE: 'ledger' }) };
    assert.deepEqual(refusedByConstruct(props).sort(), refusedByHandler(given).sort(), JSON.stringify(given));
  }
});

test("the handler accepts the construct's bindings of queues", () => {
  const stack = new TestStack();
  stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
  for (const id of ['Orders', 'Payments']) stack.retry.attach(stack.function(id));
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports'), { maxAttempts: 3 });
  const [QUEUE_TARGETS, POLICIES] = ['QUEUE_TARGETS', 'POLICIES'].map((name) => JSON.stringify(stack.json(name)));
  assert.deepEqual(refusedByHandler({ QUEUE_TARGETS, POLICIES }), []);
  assert.deepEqual(refusedByHandler({ QUEUE_TARGETS: '{"orders":[]}' }), ['QUEUE_TARGETS.orders']);
});

test('errors keep their order, and lists of backoffs take the place of what they replace', () => {
  const stack = new TestStack({
    backoffs: [Duration.minutes(1), Duration.hours(3)],
    errors: [{ errorType: 'Slow', jitter: Jitter.NONE }],
  });
  stack.retry.attach(stack.function('Orders'), {
    baseBackoff: Duration.seconds(5),
    errors: [
      { errorType: 'Z*', maxAttempts: 3 },
      { errorType: 'A', backoffs: [Duration.seconds(90)] },
    ],
  });
  const { Variables } = stack.only('AWS::Lambda::Function', /^RetryHandler/).Environment;
  assert.deepEqual(
    ['BACKOFFS', 'BASE_BACKOFF', 'MAX_BACKOFF'].map((name) => Variables[name]),
    ['1m,3h', undefined, undefined],
  );
  const { '*': ofAll, ...own } = stack.json('POLICIES');
  assert.deepEqual(ofAll, { ERRORS: { Slow: { JITTER: 'none' } } });
  const errors = '"ERRORS":{"Z*":{"MAX_ATTEMPTS":"3"},"A":{"BACKOFFS":"90s"}}';
  assert.equal(JSON.stringify(Object.values(own)), `[{"BASE_BACKOFF":"5s",${errors}}]`);
});
