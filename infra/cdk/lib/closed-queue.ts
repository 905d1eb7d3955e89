import { aws_iam as iam, aws_kms as kms, aws_sqs as sqs, Duration, Lazy } from 'aws-cdk-lib';
import { Construct } from 'constructs';

/** The longest retention of SQS. Its default, 4 days, would delete messages that wait longer. */
export const RETENTION = Duration.days(14);

/** The value of `aws:CalledVia` for CloudFormation, whether it uses the caller's role or its own. */
const CLOUDFORMATION = 'cloudformation.amazonaws.com';

/** The actions that read events and delete them. */
export const TAKE = ['sqs:ReceiveMessage', 'sqs:DeleteMessage'];

/** The action that deletes all events of a queue at once. */
export const PURGE = 'sqs:PurgeQueue';

/** The action that changes when an event comes back. */
export const CHANGE_VISIBILITY = 'sqs:ChangeMessageVisibility';

/** The ARN of a role that was imported by its name. Only there is the partition a token but the name is not. */
const IMPORTED_BY_NAME = /^(arn:\$\{Token\[.+:role\/)([^/]+)$/;

/** The properties of all queues of an `AsyncRetry`. */
export interface ClosedQueueProps {
  readonly encryptionKey?: kms.IKey;
  readonly deletionProtection?: boolean;
}

/** The actions on a queue that are denied to strangers, besides sending and deleting it. */
export interface ClosedActions {
  /** What only receivers may do. */
  readonly forReceivers: string[];
  /** What receivers and operators may do. */
  readonly forOperators: string[];
}

/**
 * A queue whose messages are closed to everyone except the principals that are allowed here, whatever other
 * permissions exist in the account. Its settings are open to whoever may deploy.
 */
export abstract class ClosedQueue extends sqs.Queue {
  private readonly senders = new Set<string>();
  private readonly receivers = new Set<string>();
  private readonly operators = new Set<string>();

  constructor(scope: Construct, id: string, props: ClosedQueueProps, own: sqs.QueueProps, closed: ClosedActions) {
    const { encryptionKey, deletionProtection = true } = props;
    super(scope, id, {
      retentionPeriod: RETENTION,
      enforceSSL: true,
      ...(encryptionKey
        ? { encryption: sqs.QueueEncryption.KMS, encryptionMasterKey: encryptionKey }
        : { encryption: sqs.QueueEncryption.SQS_MANAGED }),
      ...own,
    });
    this.denyAllBut(() => [...this.receivers], closed.forReceivers);
    this.denyAllBut(() => [...new Set([...this.receivers, ...this.operators])], closed.forOperators);
    this.denyAllBut(() => [...this.senders], ['sqs:SendMessage']);
    // A request that came through no service has no `aws:CalledVia`, and is denied too.
    if (deletionProtection)
      this.deny(['sqs:DeleteQueue'], { 'ForAllValues:StringNotEquals': { 'aws:CalledVia': CLOUDFORMATION } });
  }

  /** Lets a principal send to this queue. This is only the queue's side: it also needs the permission. */
  public letSend(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.senders.add(arn));
  }

  /** Lets a principal receive messages from this queue; it also needs the permission. */
  public letReceive(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.receivers.add(arn));
  }

  /** Lets a principal operate on messages of this queue; it also needs the permission. */
  public letOperate(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.operators.add(arn));
  }

  /** The list must not be empty: an empty one is replaced by the other side's principals, which lack the permission. */
  private denyAllBut(allowed: () => string[], actions: string[]): void {
    const produce = () => {
      const principals = allowed();
      return principals.length > 0 ? principals : [...this.receivers, ...this.senders];
    };
    this.deny(actions, {
      ArnNotEquals: { 'aws:PrincipalArn': Lazy.list({ produce }) },
      // AWS services, such as SNS, have no principal ARN. They need a permission in this policy anyway.
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
 * The ARNs that a principal may have. If a role was imported by its name, its ARN lacks the role's path, such as
 * the console's `service-role/`. Names are unique in an account, whatever their path.
 */
function principalArns(arn: string): string[] {
  const [, before, name] = IMPORTED_BY_NAME.exec(arn) ?? [];
  return name === undefined ? [arn] : [arn, `${before}*/${name}`];
}
