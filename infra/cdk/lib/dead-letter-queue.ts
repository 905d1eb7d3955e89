import { Annotations, aws_sqs as sqs, Duration, Stack, Token } from 'aws-cdk-lib';
import { Construct, IConstruct } from 'constructs';
import { CHANGE_VISIBILITY, ClosedQueue, ClosedQueueProps, PURGE, RETENTION, RECEIVE_AND_DELETE } from './closed-queue';
import { tagPart } from './tags';

const RETENTION_DEFAULT = Duration.days(4);

/** The actions that start and cancel SQS's redrive. */
const MOVE = ['sqs:StartMessageMoveTask', 'sqs:CancelMessageMoveTask'];

/** The actions for looking at dead letters, deleting and redriving them. */
export const REDRIVE = [
  ...MOVE,
  'sqs:ListMessageMoveTasks',
  'sqs:ListDeadLetterSourceQueues',
  ...RECEIVE_AND_DELETE,
  CHANGE_VISIBILITY,
  'sqs:GetQueueAttributes',
  'sqs:GetQueueUrl',
];

/**
 * The queue of events that were given up. Anyone who can receive from it can read or delete payloads, and anyone who
 * can send to it can have functions invoked by the next redrive. So only the handler may send, and only principals that
 * may redrive or operate may receive. SQS needs no permission to move messages here from a retry queue.
 */
export class DeadLetterQueue extends ClosedQueue {
  constructor(scope: Construct, id: string, props: ClosedQueueProps) {
    super(
      scope,
      id,
      props,
      {},
      { forReceivers: [PURGE, ...MOVE], forOperators: [...RECEIVE_AND_DELETE, CHANGE_VISIBILITY] },
    );
    tagPart(scope, this, 'dead-letter-queue');
  }
}

/** How long a queue keeps messages, or 14 days if that is unknown at synthesis. */
export function retentionOf(queue: sqs.IQueue): Duration {
  const resource = queue.node.defaultChild as Partial<sqs.CfnQueue> | undefined;
  if (resource?.cfnResourceType !== sqs.CfnQueue.CFN_RESOURCE_TYPE_NAME) return RETENTION;
  const { messageRetentionPeriod = RETENTION_DEFAULT.toSeconds() } = resource;
  return Token.isUnresolved(messageRetentionPeriod) ? RETENTION : Duration.seconds(messageRetentionPeriod);
}

/**
 * Warns if a user's own dead-letter queue may lose messages, or is unencrypted. SQS itself moves messages only to a queue
 * of the same account. An imported queue can't be checked.
 */
export function warnOfOwnQueue(scope: IConstruct, queue: sqs.IQueue, isMovedTo: boolean): void {
  const resource = queue.node.defaultChild as Partial<sqs.CfnQueue> | undefined;
  if (resource?.cfnResourceType !== sqs.CfnQueue.CFN_RESOURCE_TYPE_NAME) return;
  const warn = (topic: string, what: string) =>
    Annotations.of(scope).addWarningV2(
      `comeback:dead-letter-${topic}`,
      `the dead-letter queue ${queue.node.path} ${what}`,
    );

  const { sqsManagedSseEnabled, kmsMasterKeyId } = resource;
  const retention = retentionOf(queue);
  if (retention.toSeconds() < RETENTION.toSeconds()) {
    warn(
      'retention',
      `keeps messages for ${retention.toHumanString()}: set its retentionPeriod to 14 days` +
        (isMovedTo
          ? '. A message that SQS moves there after a thousand receives keeps its age, and may be deleted at once'
          : ''),
    );
  }
  if (Stack.of(queue).resolve(sqsManagedSseEnabled) === false && kmsMasterKeyId === undefined) {
    warn('encryption', 'keeps payloads unencrypted: set its encryption to SQS_MANAGED or KMS');
  }
}
