import { aws_sqs as sqs, Duration } from 'aws-cdk-lib';
import { Construct, IDependable } from 'constructs';
import { ClosedQueue, ClosedQueueProps, RECEIVER_ONLY } from './closed-queue';

/**
 * After so many receives SQS moves a message away. Each wait, each throttle and each crash is one: a bad
 * deploy of the handler has days to be mended.
 */
const RECEIVES_MAX = 1000;

/** What a retry queue is made with. */
export interface RetryQueueProps extends ClosedQueueProps {
  readonly deadLetterQueue: sqs.IQueue;
  readonly receiverArn: string;
  readonly visibilityTimeout: Duration;
}

/**
 * A queue of failed events. Who can send to it can have functions invoked with any payload, and who can
 * receive from it reads the payloads of others, or loses them. So only the attached functions and those who may redrive
 * send, and only the handler receives.
 */
export class RetryQueue extends ClosedQueue {
  /** What closes it: who is to send waits for that. */
  public readonly closure: IDependable;

  constructor(scope: Construct, id: string, props: RetryQueueProps) {
    super(
      scope,
      id,
      props,
      {
        visibilityTimeout: props.visibilityTimeout,
        deadLetterQueue: { queue: props.deadLetterQueue, maxReceiveCount: RECEIVES_MAX },
        // Else whoever may make a queue here could name this one as its dead-letter queue, and have SQS itself move
        // messages here. SQS's redrive to this queue is not asked for it.
        redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
      },
      RECEIVER_ONLY,
    );
    this.letReceive(props.receiverArn);
    this.closure = this.node.findChild('Policy');
  }
}
