import {
  Annotations,
  Aspects,
  aws_iam as iam,
  aws_kms as kms,
  aws_sqs as sqs,
  Duration,
  Lazy,
  Stack,
  Token,
} from 'aws-cdk-lib';
import { Construct, IConstruct, IDependable } from 'constructs';
import { RECORDS } from './contract';
import { tagPart } from './tags';
import { isOfType } from './target';

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

  /** Whether a principal may receive. */
  public get isReadable(): boolean {
    return this.receivers.size + this.operators.size > 0;
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
    this.deny(actions, exceptFor(Lazy.list({ produce })));
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

/** The conditions of a denial for everyone but these principals. */
export function exceptFor(principalArns: string[]): iam.Conditions {
  return {
    ArnNotEquals: { 'aws:PrincipalArn': principalArns },
    // AWS services, such as SNS, have no principal ARN. They need a permission in this policy anyway.
    BoolIfExists: { 'aws:PrincipalIsAWSService': 'false' },
  };
}

/**
 * The possible ARNs of a principal. If a role was imported by its name, its ARN lacks the role's path, such as the
 * console's `service-role/`. Names are unique in an account, whatever their path.
 */
export function principalArns(arn: string): string[] {
  const [, before, name] = IMPORTED_BY_NAME.exec(arn) ?? [];
  return name === undefined ? [arn] : [arn, `${before}*/${name}`];
}

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
    // Only synthesis knows that no grant came. Without this, the first one to learn it needs the letters at once.
    Aspects.of(this).add({ visit: (node) => this.warnIfUnreadable(node) });
  }

  private warnIfUnreadable(visited: IConstruct): void {
    if (visited !== this || this.isReadable) return;
    Annotations.of(this).addWarningV2(
      'comeback:dead-letters-unreadable',
      'nobody may look at dead letters or redrive them, not even an administrator: name a role with grantOperate or grantRedrive',
    );
  }
}

/** The service that sends notices of records in a user's bucket, and dead letters of rules. */
export const EVENT_BRIDGE = 'events.amazonaws.com';

/** Lets a service use the key of the retry queues, so that it can send to them. */
export function letServiceUse(scope: IConstruct, key: kms.IKey, service: string): void {
  const actions = RECORDS.notification.key;
  const { statementAdded } = key.addToResourcePolicy(
    new iam.PolicyStatement({
      principals: [new iam.ServicePrincipal(service)],
      actions,
      resources: ['*'],
      // S3 documents no condition for it.
      conditions:
        service === EVENT_BRIDGE ? { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } } : undefined,
    }),
  );
  if (!statementAdded) {
    Annotations.of(scope).addWarningV2(
      'comeback:record-key',
      `the policy of ${key.node.path} can't be changed here: it must let ${service} use the key (${actions.join(', ')}) to ` +
        'send to the retry queues',
    );
  }
}

/** A queue's resource; an imported queue has none. */
export function resourceOf({ node: { defaultChild } }: sqs.IQueue): sqs.CfnQueue | undefined {
  return isOfType<sqs.CfnQueue>(defaultChild, sqs.CfnQueue.CFN_RESOURCE_TYPE_NAME) ? defaultChild : undefined;
}

/** How long a queue keeps messages, or 14 days if that is unknown at synthesis. */
export function retentionOf(queue: sqs.IQueue): Duration {
  const resource = resourceOf(queue);
  if (resource === undefined) return RETENTION;
  const { messageRetentionPeriod = RETENTION_DEFAULT.toSeconds() } = resource;
  return Token.isUnresolved(messageRetentionPeriod) ? RETENTION : Duration.seconds(messageRetentionPeriod);
}

/**
 * Warns if a user's own dead-letter queue may lose messages, or is unencrypted. SQS itself moves messages only to a queue
 * of the same account. An imported queue can't be checked.
 */
export function warnOfOwnQueue(scope: IConstruct, queue: sqs.IQueue, isMovedTo: boolean): void {
  const resource = resourceOf(queue);
  if (resource === undefined) return;
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
  /** The resources of AWS services that may send, by service. */
  private readonly sources = new Map<string, Set<string>>();

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

  /** Lets an AWS service send on behalf of one of its resources in this account. */
  public allowService(service: string, sourceArn: string): void {
    const known = this.sources.get(service);
    if (known) {
      known.add(sourceArn);
      return;
    }
    const sources = new Set([sourceArn]);
    this.sources.set(service, sources);
    // A policy has 8 KB, so all resources of a service have one statement.
    const produce = () => (sources.size === 1 ? sourceArn : [...sources]);
    this.addToResourcePolicy(
      new iam.PolicyStatement({
        principals: [new iam.ServicePrincipal(service)],
        actions: ['sqs:SendMessage'],
        resources: [this.queueArn],
        conditions: {
          ArnEquals: { 'aws:SourceArn': Lazy.any({ produce }) },
          StringEquals: { 'aws:SourceAccount': Stack.of(this).account },
        },
      }),
    );
  }

  /** Lets SQS move messages here from one queue only, or from every queue of the account if its ARN is unknown. */
  public allowMoves(sourceArn?: string): void {
    (this.node.defaultChild as sqs.CfnQueue).redriveAllowPolicy = sourceArn
      ? { redrivePermission: sqs.RedrivePermission.BY_QUEUE, sourceQueueArns: [sourceArn] }
      : { redrivePermission: sqs.RedrivePermission.ALLOW_ALL };
  }
}
