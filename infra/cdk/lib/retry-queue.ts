import { aws_sqs as sqs, Duration } from 'aws-cdk-lib';
import { Construct, IDependable } from 'constructs';
import { CHANGE_VISIBILITY, ClosedQueue, ClosedQueueProps, PURGE, TAKE } from './closed-queue';
import { tagPart } from './tags';

/**
 * SQS moves a message to the dead-letter queue after this many receives. Each wait, each throttle and each crash
 * is a receive, so there are days to fix a bad deployment of the handler.
 */
const RECEIVES_MAX = 1000;

/** The properties of a retry queue. */
export interface RetryQueueProps extends ClosedQueueProps {
  readonly deadLetterQueue: sqs.IQueue;
  /** The ARN of the handler's role. */
  readonly handlerRoleArn: string;
  readonly visibilityTimeout: Duration;
}

/**
 * A queue of failed events. Whoever can send to it can have functions invoked with any payload, and whoever can
 * receive from it can read or delete payloads. So only the attached functions, principals that may redrive and the
 * handler can send, and only the handler can receive. Operators can change when a message comes back, if they know its
 * receipt handle from the ledger.
 */
export class RetryQueue extends ClosedQueue {
  /** The policy that closes the queue. Senders depend on it. */
  public readonly closure: IDependable;

  constructor(scope: Construct, id: string, props: RetryQueueProps) {
    super(
      scope,
      id,
      props,
      {
        visibilityTimeout: props.visibilityTimeout,
        deadLetterQueue: { queue: props.deadLetterQueue, maxReceiveCount: RECEIVES_MAX },
        // Otherwise, whoever may create queues in the account could name this queue as their dead-letter queue, and
        // have SQS itself move messages here. SQS's redrive to this queue does not need this permission.
        redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
      },
      { forReceivers: [...TAKE, PURGE], forOperators: [CHANGE_VISIBILITY] },
    );
    this.letReceive(props.handlerRoleArn);
    // When too many messages are in flight, the handler sends a waiting message again, with a delay.
    this.letSend(props.handlerRoleArn);
    tagPart(scope, this, 'retry-queue');
    this.closure = this.node.findChild('Policy');
  }
}
