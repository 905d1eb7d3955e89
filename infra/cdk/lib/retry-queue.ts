import { aws_iam as iam, aws_kms as kms, aws_sqs as sqs, Duration, Lazy } from 'aws-cdk-lib';
import { Construct, IDependable } from 'constructs';

/** SQS keeps a message no longer. Its default, 4 days, would cut off what waits longer. */
export const RETENTION = Duration.days(14);

/**
 * After so many receives SQS moves a message away. Each wait, each throttle and each crash is one: a bad
 * deploy of the handler has days to be mended.
 */
const RECEIVES_MAX = 1000;

/** What nobody but the handler does: to read events, to lose them, or to change when they are due. */
const RECEIVER_ONLY = ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility', 'sqs:PurgeQueue'];

/** How SQS keeps what is in a queue. */
export function encrypted(key?: kms.IKey): Pick<sqs.QueueProps, 'encryption' | 'encryptionMasterKey'> {
  return key
    ? { encryption: sqs.QueueEncryption.KMS, encryptionMasterKey: key }
    : { encryption: sqs.QueueEncryption.SQS_MANAGED };
}

/** What a retry queue is made with. */
export interface RetryQueueProps {
  readonly deadLetterQueue: sqs.IQueue;
  readonly encryptionKey?: kms.IKey;
  readonly receiverArn: string;
  readonly visibilityTimeout: Duration;
}

/**
 * A queue of failed events. Who can send to it can have functions invoked with any payload, and who can
 * receive from it reads the payloads of others, or loses them. So its messages are closed to all but the attached
 * functions and the handler, whatever else others may do in this account. Its settings are not: who may deploy
 * changes them.
 */
export class RetryQueue extends sqs.Queue {
  /** What closes it: who is to send waits for that. */
  public readonly closure: IDependable;

  private readonly senders = new Set<string>();

  constructor(scope: Construct, id: string, props: RetryQueueProps) {
    super(scope, id, {
      retentionPeriod: RETENTION,
      visibilityTimeout: props.visibilityTimeout,
      deadLetterQueue: { queue: props.deadLetterQueue, maxReceiveCount: RECEIVES_MAX },
      enforceSSL: true,
      // Else whoever may make a queue here could name this one as its dead-letter queue, and have SQS itself move messages here.
      redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
      ...encrypted(props.encryptionKey),
    });
    const receiver = [props.receiverArn];
    this.denyAllBut(() => receiver, ...RECEIVER_ONLY);
    // Without anybody it would be no condition. The handler has no permission to send.
    this.denyAllBut(() => this.senders.size > 0 ? [...this.senders] : receiver, 'sqs:SendMessage');
    this.closure = this.node.findChild('Policy');
  }

  /** Lets a principal send to this queue, as far as the queue is asked: it needs the permission too. */
  public letSend(principalArn: string): void {
    this.senders.add(principalArn);
  }

  private denyAllBut(principals: () => string[], ...actions: string[]): void {
    this.addToResourcePolicy(new iam.PolicyStatement({
      effect: iam.Effect.DENY,
      principals: [new iam.AnyPrincipal()],
      actions,
      resources: [this.queueArn],
      conditions: {
        ArnNotEquals: { 'aws:PrincipalArn': Lazy.list({ produce: principals }) },
        // A topic or a rule that somebody lets send has no ARN here; without a permission in this policy none may.
        BoolIfExists: { 'aws:PrincipalIsAWSService': 'false' },
      },
    }));
  }
}
