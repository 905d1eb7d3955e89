import { aws_iam as iam, aws_kms as kms, aws_sqs as sqs, Duration, Lazy } from 'aws-cdk-lib';
import { Construct } from 'constructs';

/** SQS keeps a message no longer. Its default, 4 days, would cut off what waits longer. */
export const RETENTION = Duration.days(14);

/** Whom CloudFormation calls SQS through, for a role of the caller's and for one of its own alike. */
const CLOUDFORMATION = 'cloudformation.amazonaws.com';

/** What reads events, loses them, or changes when they are due. */
export const RECEIVER_ONLY = [
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibility',
  'sqs:PurgeQueue',
];

/** The ARN of a role that was imported by its name: only there is the partition a token and the name none. */
const IMPORTED_BY_NAME = /^(arn:\$\{Token\[.+:role\/)([^/]+)$/;

/** What the queues of an `AsyncRetry` are made with. */
export interface ClosedQueueProps {
  readonly encryptionKey?: kms.IKey;
  readonly deletionProtection?: boolean;
}

/**
 * A queue whose messages are closed to all but those who are let, whatever else others may do in this account. Its
 * settings are not: who may deploy changes them.
 */
export abstract class ClosedQueue extends sqs.Queue {
  private readonly senders = new Set<string>();
  private readonly receivers = new Set<string>();

  constructor(scope: Construct, id: string, props: ClosedQueueProps, own: sqs.QueueProps, receiverOnly: string[]) {
    const { encryptionKey, deletionProtection = true } = props;
    super(scope, id, {
      retentionPeriod: RETENTION,
      enforceSSL: true,
      ...(encryptionKey
        ? { encryption: sqs.QueueEncryption.KMS, encryptionMasterKey: encryptionKey }
        : { encryption: sqs.QueueEncryption.SQS_MANAGED }),
      ...own,
    });
    this.denyAllBut(this.receivers, this.senders, receiverOnly);
    this.denyAllBut(this.senders, this.receivers, ['sqs:SendMessage']);
    // A request that came by no service has no `aws:CalledVia`, and is denied too.
    if (deletionProtection)
      this.deny(['sqs:DeleteQueue'], { 'ForAllValues:StringNotEquals': { 'aws:CalledVia': CLOUDFORMATION } });
  }

  /** Lets a principal send to this queue, as far as the queue is asked: it needs the permission too. */
  public letSend(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.senders.add(arn));
  }

  /** Lets a principal take messages from this queue, likewise. */
  public letReceive(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.receivers.add(arn));
  }

  /** Without anybody it would be no condition: then those of the other side, who have no permission for this one. */
  private denyAllBut(principals: Set<string>, others: Set<string>, actions: string[]): void {
    const produce = () => [...(principals.size > 0 ? principals : others)];
    this.deny(actions, {
      ArnNotEquals: { 'aws:PrincipalArn': Lazy.list({ produce }) },
      // A topic or a rule that somebody lets send has no ARN here; without a permission in this policy none may.
      BoolIfExists: { 'aws:PrincipalIsAWSService': 'false' },
    });
  }

  private deny(actions: string[], conditions: iam.Conditions): void {
    this.addToResourcePolicy(
      new iam.PolicyStatement({
        effect: iam.Effect.DENY,
        principals: [new iam.AnyPrincipal()],
        actions,
        resources: [this.queueArn],
        conditions,
      }),
    );
  }
}

/**
 * The ARNs that a principal may have. That of a role imported by its name lacks the role's path, such as
 * `service-role/`, which the console gives to roles. A name is given once in an account, whatever its path.
 */
function principalArns(arn: string): string[] {
  const [, before, name] = IMPORTED_BY_NAME.exec(arn) ?? [];
  return name === undefined ? [arn] : [arn, `${before}*/${name}`];
}
