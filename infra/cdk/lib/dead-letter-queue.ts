import { Annotations, aws_sqs as sqs, Duration, Stack, Token } from 'aws-cdk-lib';
import { Construct, IConstruct } from 'constructs';
import { ClosedQueue, ClosedQueueProps, RECEIVER_ONLY, RETENTION } from './closed-queue';

/** What SQS keeps a message for where nothing is said. */
const RETENTION_DEFAULT = Duration.days(4);

/** What starts and ends the moves of SQS's redrive. */
const MOVE = ['sqs:StartMessageMoveTask', 'sqs:CancelMessageMoveTask'];

/** What it takes to look at dead letters, to delete them, and to have SQS's redrive move them. */
export const REDRIVE = [
  ...MOVE,
  'sqs:ListMessageMoveTasks',
  'sqs:ListDeadLetterSourceQueues',
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibility',
  'sqs:GetQueueAttributes',
  'sqs:GetQueueUrl',
];

/**
 * Where events are that were given up. Who can receive from it reads their payloads, or loses them, and who can send to
 * it has functions invoked by the next redrive. So only the handler sends, and only those receive who may redrive. What
 * SQS itself moves here from a retry queue asks for no permission.
 */
export class DeadLetterQueue extends ClosedQueue {
  constructor(scope: Construct, id: string, props: ClosedQueueProps) {
    super(scope, id, props, {}, [...RECEIVER_ONLY, ...MOVE]);
  }
}

/**
 * Warns of what gets lost in a dead-letter queue of somebody's own, or may be read there. An imported one can't be
 * looked at.
 */
export function warnOfOwnQueue(scope: IConstruct, queue: sqs.IQueue): void {
  const resource = queue.node.defaultChild as Partial<sqs.CfnQueue> | undefined;
  if (resource?.cfnResourceType !== sqs.CfnQueue.CFN_RESOURCE_TYPE_NAME) return;
  const warn = (topic: string, what: string) =>
    Annotations.of(scope).addWarningV2(
      `comeback:dead-letter-${topic}`,
      `the dead-letter queue ${queue.node.path} ${what}`,
    );

  const { messageRetentionPeriod = RETENTION_DEFAULT.toSeconds(), sqsManagedSseEnabled, kmsMasterKeyId } = resource;
  if (!Token.isUnresolved(messageRetentionPeriod) && messageRetentionPeriod < RETENTION.toSeconds()) {
    warn(
      'retention',
      `keeps messages for ${Duration.seconds(messageRetentionPeriod).toHumanString()}: set its retentionPeriod to ` +
        '14 days. A message that SQS moves there after a thousand receives keeps its age, and may be deleted at once',
    );
  }
  if (Stack.of(queue).resolve(sqsManagedSseEnabled) === false && kmsMasterKeyId === undefined) {
    warn('encryption', 'keeps payloads unencrypted: set its encryption to SQS_MANAGED or KMS');
  }
}
