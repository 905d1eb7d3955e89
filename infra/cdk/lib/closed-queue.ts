import { aws_iam as iam, aws_kms as kms, aws_sqs as sqs, Duration, Lazy } from 'aws-cdk-lib';
import { Construct } from 'constructs';

/** The longest retention of SQS. Its default, 4 days, would delete messages that wait longer. */
export const RETENTION = Duration.days(14);

/** The value of `aws:CalledVia` for CloudFormation, whether it uses the caller's role or its own. */
const CLOUDFORMATION = 'cloudformation.amazonaws.com';

/** The actions that read events and delete them. */
export const RECEIVE_AND_DELETE = ['sqs:ReceiveMessage', 'sqs:DeleteMessage'];

/** The action that deletes all events of a queue at once. */
export const PURGE = 'sqs:PurgeQueue';

/** The action that changes when a waiting event comes back. */
export const CHANGE_VISIBILITY = 'sqs:ChangeMessageVisibility';

/** Matches the ARN of a role that was imported by its name: its partition is a token, but its name is not. */
const IMPORTED_BY_NAME = /^(arn:\$\{Token\[.+:role\/)([^/]+)$/;

/** The properties of all queues of an `AsyncRetry`. */
export interface ClosedQueueProps {
  readonly encryptionKey?: kms.IKey;
  readonly deletionProtection?: boolean;
}

/** The actions that a queue's policy denies to all other principals, besides `SendMessage` and `DeleteQueue`. */
export interface ClosedActions {
  /** Actions that only receivers may use. */
  readonly forReceivers: string[];
  /** Actions that only receivers and operators may use. */
  readonly forOperators: string[];
}

/**
 * A queue whose policy denies access to messages for everyone except the principals that are allowed here, whatever
 * other permissions exist in the account. Its settings stay open to anyone who may deploy.
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
    // This also denies direct requests, which have no `aws:CalledVia`.
    if (deletionProtection)
      this.deny(['sqs:DeleteQueue'], { 'ForAllValues:StringNotEquals': { 'aws:CalledVia': CLOUDFORMATION } });
  }

  /** Exempts a principal from the denial of sending; it also needs the permission. */
  public allowSend(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.senders.add(arn));
  }

  /** Exempts a principal from the denial of receiving; it also needs the permission. */
  public allowReceive(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.receivers.add(arn));
  }

  /** Exempts an operator from the denial of `forOperators`; it also needs the permission. */
  public allowOperate(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.operators.add(arn));
  }

  /** The list must not be empty, so the queue's other principals, which lack the permission, replace an empty one. */
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
 * The possible ARNs of a principal. If a role was imported by its name, its ARN lacks the role's path, such as the
 * console's `service-role/`. Names are unique in an account, whatever their path.
 */
function principalArns(arn: string): string[] {
  const [, before, name] = IMPORTED_BY_NAME.exec(arn) ?? [];
  return name === undefined ? [arn] : [arn, `${before}*/${name}`];
}
