import * as assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { aws_iam as iam, aws_sqs as sqs, Duration } from 'aws-cdk-lib';
import { AsyncRetryProps, Jitter } from '../lib';
import { effectivePolicy, variables } from '../lib/retry-policy';
import { TestStack } from './app';

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
    .map((fault: string) => /^([\w.-]+) must be/.exec(fault)?.[1])
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
    ...[false, true].flatMap((ledger) =>
      [false, true].flatMap((register) => [false, true].map((probe) => ({ ledger, register, probe }))),
    ),
  ];
  for (const props of [...policies, ...others]) {
    const { inFlightMax, ledger, register, probe } = props;
    const given = {
      ...variables(effectivePolicy(props)),
      ...(inFlightMax !== undefined && { IN_FLIGHT_MAX: String(inFlightMax) }),
      ...(ledger && { LEDGER_TABLE: 'ledger' }),
      ...(register && { REGISTER: 'true' }),
      ...(probe && { PROBE: 'true' }),
    };
    assert.deepEqual(refusedByConstruct(props).sort(), refusedByHandler(given).sort(), JSON.stringify(given));
  }
});

test("the handler accepts the construct's bindings of queues", () => {
  const stack = new TestStack();
  stack.retry.grantRedrive(new iam.User(stack, 'Operator'));
  for (const id of ['Orders', 'Payments']) stack.retry.attach(stack.function(id));
  stack.retry.attachQueue(new sqs.Queue(stack, 'Imports'), { maxAttempts: 3 });
  const { QUEUE_TARGETS, POLICIES } = stack.only('AWS::Lambda::Function', /Handler/).Environment.Variables;
  const textOf = (value: any) =>
    value['Fn::Join'][1].map((part: any) => part.Ref ?? part['Fn::GetAtt']?.[0] ?? part).join('');
  assert.deepEqual(refusedByHandler({ QUEUE_TARGETS: textOf(QUEUE_TARGETS), POLICIES: textOf(POLICIES) }), []);
  assert.deepEqual(refusedByHandler({ QUEUE_TARGETS: '{"orders":[]}' }), ['QUEUE_TARGETS.orders']);
});
