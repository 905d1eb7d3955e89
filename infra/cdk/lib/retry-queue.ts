import { aws_sqs as sqs, Duration } from 'aws-cdk-lib';
import { Construct, IDependable } from 'constructs';
import { CHANGE_VISIBILITY, ClosedQueue, ClosedQueueProps, PURGE, RECEIVE_AND_DELETE } from './closed-queue';
import { tagPart } from './tags';

/**
 * SQS moves a message to the dead-letter queue after this many receives, its maximum. Each wait, throttle and crash is
 * a receive, so this leaves days to fix a bad deployment of the handler.
 */
const RECEIVES_MAX = 1000;

export interface RetryQueueProps extends ClosedQueueProps {
  readonly deadLetterQueue: sqs.IQueue;
  readonly handlerRoleArn: string;
  readonly visibilityTimeout: Duration;
}

/**
 * A queue of failed events. Anyone who can send to it can have functions invoked with any payload, and anyone who can
 * receive from it can read or delete payloads. So only the attached functions, principals that may redrive and the
 * handler can send, and only the handler can receive. Operators can change when a message comes back, if they know its
 * receipt handle from the ledger.
 */
export class RetryQueue extends ClosedQueue {
  /** The policy that restricts access to the queue. It must exist before failures are sent. */
  public readonly closure: IDependable;

  constructor(scope: Construct, id: string, props: RetryQueueProps) {
    super(
      scope,
      id,
      props,
      {
        visibilityTimeout: props.visibilityTimeout,
        deadLetterQueue: { queue: props.deadLetterQueue, maxReceiveCount: RECEIVES_MAX },
        // Otherwise, anyone who may create queues in the account could use this queue as their dead-letter queue, and
        // have SQS itself move messages here. SQS's redrive to this queue does not need this permission.
        redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
      },
      { forReceivers: [...RECEIVE_AND_DELETE, PURGE], forOperators: [CHANGE_VISIBILITY] },
    );
    this.allowReceive(props.handlerRoleArn);
    // If too many messages are in flight, the handler sends a waiting message again, with a delay.
    this.allowSend(props.handlerRoleArn);
    tagPart(scope, this, 'retry-queue');
    this.closure = this.node.findChild('Policy');
  }
}
