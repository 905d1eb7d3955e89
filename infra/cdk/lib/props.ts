import {
  aws_kms as kms,
  aws_lambda as lambda,
  aws_logs as logs,
  aws_s3 as s3,
  aws_sqs as sqs,
  Duration,
  Stack,
  Token,
} from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import { DeadLetterQueue, RetryQueue } from './queues';
import { Faults } from './faults';
import { checkHardening, HardeningProps } from './hardening';
import { checkDuration, checkKnown, checkWhole } from './checks';
import { effectivePolicy } from './effective-policy';
import { checkHandler, checkPolicy } from './policy-checks';
import { RetryPolicy } from './retry-policy';
import { checkHome } from './target';

/** The properties of `AsyncRetry`. */
export interface AsyncRetryProps extends RetryPolicy, HardeningProps {
  /**
   * Where events are sent when they are given up. Your own queue should keep messages for 14 days, encrypted. Its
   * access policy doesn't change. You can share the queue of another `AsyncRetry` in the same stack: its policy then
   * allows both handlers.
   *
   * @default - a queue that keeps messages for 14 days, for the handler and the principals of `grantRedrive`
   * and `grantOperate`
   */
  readonly deadLetterQueue?: sqs.IQueue;

  /**
   * A queue of another account in this region to which the handler sends dead letters. Its policy must allow the
   * handler's role to send. Messages that SQS itself moves go to `deadLetterQueue`, because SQS can't move messages to
   * another account.
   * @default - all dead letters go to `deadLetterQueue`
   */
  readonly centralDeadLetterQueue?: sqs.IQueue;

  /**
   * Whether only CloudFormation may delete the queues. Otherwise, anyone who may delete queues in this account can
   * delete them with all their messages.
   *
   * @default true
   */
  readonly deletionProtection?: boolean;

  /**
   * Your own key for the queues, the ledger and the bucket of records. Its policy must let IAM decide who uses it, as
   * CDK's keys do. It must not be an alias, because permissions apply to keys.
   *
   * @default - the services' own keys
   */
  readonly encryptionKey?: kms.IKey;

  /**
   * Whether each failure re-invokes its function once, even if SQS delivers it twice. It needs a DynamoDB table
   * and two writes per retry.
   *
   * @default false
   */
  readonly ledger?: boolean;

  /**
   * Whether there is a bucket for failure records, which functions attached with `records` use instead of their queue.
   * A record that is larger than an SQS message, 1 MiB, reaches no queue. The records are kept for longer than `maxAge`
   * and the dead-letter queue's retention together, and the bucket remains when the stack is deleted.
   *
   * @default false
   */
  readonly records?: boolean;

  /**
   * Your own bucket for failure records, for this `AsyncRetry` alone. It must send its events to EventBridge and keep
   * the records for long enough, as docs/deploy/cdk-options.md says.
   *
   * @default - a bucket of this construct, if `records` is true
   */
  readonly recordBucket?: s3.IBucket;

  // generated: properties, by infra/contract/generate.py
  /**
   * How many messages of a queue may wait in flight; further waits are kept as delays, which have no limit but are less
   * precise; more than 120,000 need a raised quota of SQS.
   *
   * @default 100000
   */
  readonly inFlightMax?: number;

  /**
   * Whether a function that is down is probed with one event at a time, instead of being re-invoked for every event;
   * with `register`, waiting events are brought forward when it has recovered. Needs `ledger`.
   *
   * @default false
   */
  readonly probe?: boolean;

  /**
   * Whether the ledger lists waiting events, so that operators can see them, retry them now, cancel them, and pause a
   * function. Needs `ledger`.
   *
   * @default false
   */
  readonly register?: boolean;

  /**
   * How long the ledger keeps the record of an operator's order; from 1d to 3650d.
   *
   * @default Duration.days(400)
   */
  readonly historyRetention?: Duration;
  // end: properties

  /**
   * Whether the handler may re-invoke only the attached versions and aliases, not all of the function's. Events that
   * wait for one that is no longer attached then can't be retried.
   *
   * @default false
   */
  readonly onlyAttachedQualifiers?: boolean;

  /**
   * Whether all functions share one retry queue. This saves the cost of polling a queue for each function. But an
   * outage of one function can delay the retries of the others, and each function can have the others invoked with any
   * payload. If you change this, the previous queues are deleted with all waiting events.
   *
   * @default false
   */
  readonly sharedQueue?: boolean;

  /**
   * The number of concurrent invocations of the handler for each retry queue, from 2 to 1,000.
   *
   * @default 10
   */
  readonly maxConcurrency?: number;

  /**
   * How long the handler may take for a batch of ten messages, from 10 seconds to 15 minutes. The visibility
   * timeout of the retry queues is six times as long.
   *
   * @default Duration.seconds(30)
   */
  readonly handlerTimeout?: Duration;

  /**
   * The memory of the handler in MB, from 128 to 10,240.
   *
   * @default 128
   */
  readonly memorySize?: number;

  /**
   * The architecture of the handler.
   *
   * @default lambda.Architecture.ARM_64
   */
  readonly architecture?: lambda.Architecture;

  /** The folder of a checkout of Comeback whose `scripts/package` builds the code to deploy.
   *
   * @default - the code in this package; no Rust is needed
   */
  readonly source?: string;

  /**
   * How long the handler's log is kept.
   *
   * @default RetentionDays.ONE_MONTH
   */
  readonly logRetention?: logs.RetentionDays;

  /**
   * Whether the handler is traced by X-Ray.
   *
   * @default lambda.Tracing.DISABLED
   */
  readonly tracing?: lambda.Tracing;
}

/** Options for attaching a function. The values of its own policy override the general ones. */
export interface AttachOptions extends RetryPolicy {
  /**
   * Whether Lambda puts the failure records of the function into the bucket of `records`, from where they come back
   * whatever their size. Use it with `transparent`: with an envelope, a payload near 1 MiB is larger than Lambda
   * accepts.
   *
   * @default false
   */
  readonly records?: boolean;
}

/** Options for attaching a queue. The values of its own policy override the general ones. */
export interface AttachQueueOptions extends RetryPolicy {
  /**
   * After how many receives SQS moves a message to the retry queue, from 1 to 10. Each receive counts, also one that
   * Lambda throttles: use 3 for a function that is often throttled.
   *
   * @default 1
   */
  readonly maxReceiveCount?: number;

  /**
   * The functions that consume the queue. Lambda lets them be invoked in a loop: otherwise, it would stop them at a
   * message that came back about 16 times.
   *
   * @default - none: the consumers are no functions
   */
  readonly consumers?: lambda.IFunction[];
}

/** Enough for a batch of ten when endpoints are slow. Usually they answer in milliseconds. */
export const HANDLER_TIMEOUT = Duration.seconds(30);

/** With less, the handler would have no time to wait for an answer, because it reserves time for its last steps. */
const HANDLER_TIMEOUT_MIN = Duration.seconds(10);

/** Lambda's limit. */
const HANDLER_TIMEOUT_MAX = Duration.minutes(15);
const [MEMORY_MIN, MEMORY_MAX] = [128, 10_240];

/** The architectures that `scripts/package` builds for: all of Lambda's. */
const ARCHITECTURES = [lambda.Architecture.ARM_64.name, lambda.Architecture.X86_64.name];

/** The limits of an SQS mapping. */
const [MAX_CONCURRENCY_MIN, MAX_CONCURRENCY_MAX] = [2, 1000];

/** Ten batches of ten handle thousands of messages per second, and leave concurrency to other functions. */
export const MAX_CONCURRENCY = 10;

/** Throws one error that lists all invalid properties. */
export function checkProps(scope: IConstruct, props: AsyncRetryProps): void {
  const {
    handlerTimeout = HANDLER_TIMEOUT,
    architecture,
    deadLetterQueue,
    centralDeadLetterQueue,
    encryptionKey,
    recordBucket,
  } = props;
  const faults = new Faults();
  checkPolicy(effectivePolicy(props), faults);
  checkHandler(props, faults);
  checkWhole('maxConcurrency', props.maxConcurrency, MAX_CONCURRENCY_MIN, MAX_CONCURRENCY_MAX, faults);
  checkHardening(props, props.maxConcurrency ?? MAX_CONCURRENCY, faults);
  checkWhole('memorySize', props.memorySize, MEMORY_MIN, MEMORY_MAX, faults);
  if (checkKnown('handlerTimeout', handlerTimeout, faults)) {
    checkDuration('handlerTimeout', handlerTimeout, HANDLER_TIMEOUT_MIN, HANDLER_TIMEOUT_MAX, faults);
  }
  if (deadLetterQueue) {
    const { path } = deadLetterQueue.node;
    if (deadLetterQueue.fifo) faults.add('deadLetterQueue', 'a standard queue, like the retry queue', path);
    if (deadLetterQueue instanceof DeadLetterQueue && Stack.of(deadLetterQueue) !== Stack.of(scope)) {
      faults.add(
        'deadLetterQueue',
        'in this stack, or a queue of your own: its policy names the handlers that send to it',
        path,
      );
    }
    if (deadLetterQueue instanceof RetryQueue) faults.add('deadLetterQueue', 'no retry queue', path);
    checkHome('deadLetterQueue', deadLetterQueue, scope, faults);
  }
  if (centralDeadLetterQueue) checkCentral(centralDeadLetterQueue, scope, faults);
  if (architecture && !ARCHITECTURES.includes(architecture.name))
    faults.add('architecture', ARCHITECTURES.join(' or '), architecture.name);
  if (encryptionKey && 'aliasName' in encryptionKey) {
    faults.add('encryptionKey', 'a key and no alias, as permissions are on keys', encryptionKey.node.path);
  }
  if (recordBucket) {
    checkHome('recordBucket', recordBucket, scope, faults);
    if (props.records === false) faults.add('records', 'true or not set with recordBucket', false);
    const { encryptionKey: key } = recordBucket;
    if (key && 'aliasName' in key) {
      faults.add('recordBucket', 'encrypted with a key and no alias, as permissions are on keys', key.node.path);
    }
  }
  faults.throwIfAny(`AsyncRetry ${scope.node.path}`);
}

/** Reports a central dead-letter queue that the handler can't send to. */
function checkCentral({ fifo, env, node }: sqs.IQueue, scope: IConstruct, faults: Faults): void {
  if (fifo) faults.add('centralDeadLetterQueue', 'a standard queue', node.path);
  const { region } = Stack.of(scope);
  // The handler can send only to its own region.
  if (![region, env.region].some((value) => Token.isUnresolved(value)) && region !== env.region)
    faults.add('centralDeadLetterQueue', `in the region of its retries, ${region}`, env.region);
}
