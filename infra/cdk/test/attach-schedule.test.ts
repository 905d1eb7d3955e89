import * as assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  aws_iam as iam,
  aws_kms as kms,
  aws_scheduler as scheduler,
  aws_scheduler_targets as targets,
  aws_sns as sns,
  aws_sqs as sqs,
  Duration,
} from 'aws-cdk-lib';
import { AsyncRetry } from '../lib';
import { errorOf, functionIn, idOf, TestStack, twoStacks } from './app';

const DAILY = scheduler.ScheduleExpression.rate(Duration.days(1));

/** A stack with a schedule of a function. */
function withSchedule(props: targets.ScheduleTargetBaseProps = {}, retry = {}) {
  const stack = new TestStack(retry);
  const orders = stack.function('Orders');
  const target = new targets.LambdaInvoke(orders, props);
  const schedule = new scheduler.Schedule(stack, 'Nightly', { schedule: DAILY, target });
  return { stack, orders, schedule };
}

test('what Scheduler could not deliver goes to the retry queue of the target, with the role of the schedule', () => {
  const key = (stack: TestStack) => new kms.Key(stack, 'Key');
  const stack = new TestStack();
  const retry = new AsyncRetry(stack, 'Encrypted', { encryptionKey: key(stack) });
  const orders = stack.function('Orders');
  const schedule = new scheduler.Schedule(stack, 'Nightly', {
    schedule: DAILY,
    target: new targets.LambdaInvoke(orders, { input: scheduler.ScheduleTargetInput.fromObject({ night: true }) }),
  });
  retry.attachSchedule(schedule, orders);
  const { Target } = stack.only('AWS::Scheduler::Schedule');
  assert.equal(idOf(Target.DeadLetterConfig.Arn), 'EncryptedRetryQueueOrders');
  // The input is what comes back, so it stays.
  assert.equal(Target.Input, '{"night":true}');
  const role = new RegExp(idOf(Target.RoleArn));
  assert.deepEqual(stack.actionsOf(role, /EncryptedRetryQueue/), ['sqs:SendMessage']);
  assert.deepEqual(stack.actionsOf(role, /"Key/), [['kms:Decrypt', 'kms:GenerateDataKey']]);
  const closed = stack
    .all('AWS::SQS::QueuePolicy')
    .flatMap(({ PolicyDocument }) => PolicyDocument.Statement)
    .filter(
      ({ Action, Resource }) => Action === 'sqs:SendMessage' && /RetryQueueOrders/.test(JSON.stringify(Resource)),
    );
  assert.match(JSON.stringify(closed.map(({ Condition }) => Condition)), role);
  assert.deepEqual(stack.warnings, []);
});

test('a queue, and a function that is attached too, have one retry queue each', () => {
  const { stack, orders, schedule } = withSchedule();
  const jobs = new sqs.Queue(stack, 'Jobs', { queueName: 'jobs' });
  const target = new targets.SqsSendMessage(jobs);
  stack.retry.attachSchedule(new scheduler.Schedule(stack, 'Hourly', { schedule: DAILY, target }), jobs);
  stack.retry.attachSchedule(schedule, orders);
  stack.retry.attach(orders);
  stack.retry.attachQueue(jobs);
  assert.deepEqual(stack.json('QUEUE_TARGETS'), {
    RetryRetryQueueJobs: ['sqs:jobs'],
    RetryRetryQueueOrders: ['Orders'],
  });
});

test('the role of an imported schedule target is the user’s to change', () => {
  const role = (stack: TestStack, mutable: boolean) =>
    iam.Role.fromRoleArn(stack, 'Role', 'arn:aws:iam::111111111111:role/nightly', { mutable });
  const stack = new TestStack();
  const orders = stack.function('Orders');
  const target = new targets.LambdaInvoke(orders, { role: role(stack, false) });
  stack.retry.attachSchedule(new scheduler.Schedule(stack, 'Nightly', { schedule: DAILY, target }), orders);
  assert.match(
    stack.warnings.join(),
    /Test\/Nightly: its role can't be changed here, and Scheduler sends to the retry queue with it: give it {"Statement"/,
  );
});

test('a schedule that can’t be attached is refused with the reason', () => {
  const { stack, orders, schedule } = withSchedule();
  const other = stack.function('Other');
  const fifo = new sqs.Queue(stack, 'Fifo', { fifo: true });
  const own = withSchedule({ deadLetterQueue: new sqs.Queue(stack, 'Own') });
  const imported = scheduler.Schedule.fromScheduleArn(
    stack,
    'Imported',
    'arn:aws:scheduler:us-east-1:111111111111:schedule/default/mine',
  );
  const roleless = new scheduler.Schedule(stack, 'Roleless', {
    schedule: DAILY,
    target: {
      bind: () => ({ arn: orders.functionArn, role: { roleArn: 'arn:aws:iam::111111111111:role/x' } as iam.IRole }),
    },
  });
  const refusals: [() => void, RegExp][] = [
    [() => stack.retry.attachSchedule(imported, orders), /it is imported, .*comeback attach --schedule NAME$/],
    [() => stack.retry.attachSchedule(schedule, other), /its target must be Test\/Other, got .*Orders/],
    [() => stack.retry.attachSchedule(schedule, fifo), /its target Test\/Fifo is a FIFO queue/],
    [() => stack.retry.attachSchedule(schedule, new sns.Topic(stack, 'Topic')), /a standard queue, got Test\/Topic/],
    [() => stack.retry.attachSchedule(roleless, orders), /its role is not known, got .*role\/x": Scheduler sends/],
    [() => own.stack.retry.attachSchedule(own.schedule, own.orders), /it has a dead-letter queue already/],
  ];
  for (const [attach, expected] of refusals) assert.match(errorOf(attach), expected);

  const { functions, retries } = twoStacks();
  const far = functionIn(functions, 'Orders');
  const target = new targets.LambdaInvoke(far);
  const there = new scheduler.Schedule(functions, 'Nightly', { schedule: DAILY, target });
  assert.match(
    errorOf(() => new AsyncRetry(retries, 'Retry').attachSchedule(there, far)),
    /it must be in the stack of its retries, Retries, and is in Functions/,
  );
});
