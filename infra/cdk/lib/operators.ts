import { Annotations, ArnFormat, aws_iam as iam, aws_lambda as lambda, Stack } from 'aws-cdk-lib';
import { CHANGE_VISIBILITY, DeadLetterQueue, RECEIVE_AND_DELETE, REDRIVE } from './queues';
import { Conditions, INVOKE, KEY_ACTIONS, Statements } from './handler';
import { TABLE } from './contract';
import { keepHistory } from './ledger';
import { RetrySystem } from './metrics';
import type { AsyncRetryProps } from './props';
import { READ_BUCKET, Records } from './records';
import type { RetryQueues } from './retry-queues';
import { Retried, Target } from './target';

/** The actions that count the messages of a queue, and read its settings. */
const READ_QUEUE = ['sqs:GetQueueAttributes', 'sqs:GetQueueUrl'];

/** The actions that read a function's settings. `GetFunction` is left out, because it also exposes the code. */
const READ_FUNCTION = [
  'lambda:GetFunctionConfiguration',
  'lambda:GetFunctionConcurrency',
  'lambda:GetFunctionEventInvokeConfig',
  'lambda:GetFunctionRecursionConfig',
  'lambda:GetPolicy',
  'lambda:ListFunctionEventInvokeConfigs',
  'lambda:ListTags',
];

const READ_LOG = ['logs:FilterLogEvents', 'logs:StartQuery'];

/** The actions without resource-level permissions. */
const READ_ACCOUNT = [
  'lambda:ListEventSourceMappings',
  'lambda:ListFunctions',
  'logs:GetQueryResults',
  'cloudwatch:GetMetricData',
  'tag:GetResources',
];

/** Limits access to the ledger's items of functions, which are paused or down. Other items are of failures. */
const ONLY_TARGET_ITEMS = { 'ForAllValues:StringLike': { 'dynamodb:LeadingKeys': ['target/*'] } };

/** Limits what is added to the ledger to records of orders whose key names whoever writes them. */
const ONLY_OWN_ORDERS = {
  'ForAllValues:StringEquals': { 'dynamodb:LeadingKeys': [`${TABLE.history}\${aws:userid}`] },
};

/** The parts of a system that operators read and change. */
export interface OperatedSystem {
  readonly retry: RetrySystem;
  readonly options: AsyncRetryProps;
  readonly queues: RetryQueues;
  readonly records?: Records;
  /** Calls a function with each attached function or queue, including those that are attached later. */
  readonly forEachTarget: (watch: (attached: Retried) => void) => void;
}

/**
 * Grants the permissions to see the state of a system, and further actions on the same resources, because naming each
 * resource only once keeps policies short.
 */
export function grantReading(
  { retry, options, queues, records, forEachTarget }: OperatedSystem,
  grantee: iam.IGrantable,
  more: Readonly<Record<'onRetryQueues' | 'onFunctions' | 'onSources', string[]>> = {
    onRetryQueues: [],
    onFunctions: [],
    onSources: [],
  },
): iam.Grant {
  const permissions = new Permissions(grantee);
  const { handler, ledger, deadLetterQueue } = retry;
  permissions.allow(READ_ACCOUNT, '*');
  permissions.allow(READ_QUEUE, deadLetterQueue.queueArn);
  queues.forEach(({ queue }) => permissions.allow([...READ_QUEUE, ...more.onRetryQueues], queue.queueArn));
  permissions.allow(READ_FUNCTION, handler.functionArn);
  permissions.allow(READ_LOG, handler.logGroup.logGroupArn);
  forEachTarget(({ arn, function: each }) => {
    if (each) {
      permissions.allow([...READ_FUNCTION, ...more.onFunctions], ...withQualifiers(each));
      permissions.allow(READ_LOG, logGroupArn(retry, each));
    } else {
      permissions.allow([...READ_QUEUE, ...more.onSources], arn);
    }
  });
  if (records) permissions.allow(READ_BUCKET, records.bucket.bucketArn);
  if (ledger) {
    permissions.allow(['dynamodb:GetItem', 'dynamodb:BatchGetItem'], ledger.tableArn);
    if (options.register)
      permissions.allow(['dynamodb:Query', 'dynamodb:Scan'], `${ledger.tableArn}/index/${TABLE.index}`);
    options.encryptionKey?.grant(grantee, 'kms:Decrypt');
  }
  return permissions.grant;
}

/** Grants the permissions to see and act on waiting events, functions that are down, and dead letters. */
export function grantOperating(system: OperatedSystem, grantee: iam.IGrantable, principalArn: string): iam.Grant {
  const { retry, options, queues, records } = system;
  const read = grantReading(system, grantee, {
    onRetryQueues: [CHANGE_VISIBILITY],
    onFunctions: INVOKE,
    onSources: ['sqs:SendMessage'],
  });
  const permissions = new Permissions(grantee);
  const { ledger, deadLetterQueue } = retry;
  queues.forEach(({ queue }) => queue.allowOperate(principalArn));
  if (deadLetterQueue instanceof DeadLetterQueue) deadLetterQueue.allowOperate(principalArn);
  permissions.allow([...RECEIVE_AND_DELETE, CHANGE_VISIBILITY], deadLetterQueue.queueArn);
  if (ledger) {
    permissions.allow(['dynamodb:UpdateItem'], ledger.tableArn);
    // Deleting a failure's claim could re-invoke its event twice.
    permissions.allowIf(ONLY_TARGET_ITEMS, ['dynamodb:DeleteItem'], ledger.tableArn);
    permissions.allowIf(ONLY_OWN_ORDERS, ['dynamodb:PutItem'], ledger.tableArn);
    grantee.grantPrincipal.addToPrincipalPolicy(keepHistory(ledger));
  }
  for (const key of [options.encryptionKey, options.deadLetterQueue?.encryptionMasterKey])
    key?.grant(grantee, ...KEY_ACTIONS);
  const ofRecords = records?.grantRead(grantee, principalArn);
  return [read, ...(ofRecords ? [ofRecords] : [])].reduce((all, each) => all.combine(each), permissions.grant);
}

/** Grants the permissions to look at dead letters, delete them and send all of them back. */
export function grantRedriving(system: OperatedSystem, grantee: iam.IGrantable, principalArn: string): iam.Grant {
  const { retry, options, queues, records } = system;
  const { deadLetterQueue } = retry;
  if (deadLetterQueue instanceof DeadLetterQueue) deadLetterQueue.allowReceive(principalArn);
  for (const key of [options.encryptionKey, options.deadLetterQueue?.encryptionMasterKey])
    key?.grant(grantee, ...KEY_ACTIONS);
  records?.grantRead(grantee, principalArn);
  const ofDeadLetters = iam.Grant.addToPrincipal({
    grantee,
    actions: REDRIVE,
    resourceArns: [deadLetterQueue.queueArn],
  });
  return queues.grantRedrive({ grantee, principalArn }).reduce((all, each) => all.combine(each), ofDeadLetters);
}

/** The ARN of a principal for the queues' policies. SQS never checks them with the principal of an account. */
export function principalArnOf(retry: RetrySystem, { grantPrincipal }: iam.IGrantable, call: string): string {
  const principal = grantPrincipal as Partial<iam.IRole & iam.IUser & iam.ArnPrincipal>;
  const principalArn = principal.roleArn ?? principal.userArn ?? principal.arn;
  if (principalArn !== undefined && !(grantPrincipal instanceof iam.AccountPrincipal)) return principalArn;
  throw new Error(
    `AsyncRetry ${retry.node.path}: ${call} must be given a role, a user or something with a role, got ${principal}`,
  );
}

/** Warns if a principal did not get all permissions of a grant: says how it can get them. */
export function warnUnlessGranted(retry: RetrySystem, grant: iam.Grant, topic: string, what: string): iam.Grant {
  if (!grant.success) Annotations.of(retry).addWarningV2(`comeback:${topic}`, what);
  return grant;
}

/** Collects the permissions of one principal. */
class Permissions {
  private readonly grants: iam.Grant[] = [];
  private readonly statements: Statements;

  constructor(grantee: iam.IGrantable) {
    this.statements = new Statements(({ actions, resources: resourceArns, conditions }) => {
      const grant = iam.Grant.addToPrincipal({ grantee, actions, resourceArns, conditions });
      this.grants.push(grant);
      return grant.principalStatement;
    });
  }

  public allow(actions: string[], ...resources: string[]): void {
    this.statements.allow(actions, resources);
  }

  public allowIf(conditions: Conditions, actions: string[], ...resources: string[]): void {
    this.statements.allow(actions, resources, conditions);
  }

  /** All grants so far, combined. */
  public get grant(): iam.Grant {
    return this.grants.reduce((all, each) => all.combine(each));
  }
}

/** The ARNs of a function with its versions and aliases, all of which may fail. */
function withQualifiers({ functionArn }: lambda.IFunction): string[] {
  return [functionArn, `${functionArn}:*`];
}

/** The ARN of a function's log group. The property `logGroup` of a function would create a custom resource. */
function logGroupArn(retry: RetrySystem, attached: lambda.IFunction): string {
  const { resource, knownName = attached.functionName } = new Target(attached);
  const config = resource?.loggingConfig;
  // The config may be a token, which has no readable properties.
  const own = config && 'logGroup' in config ? config.logGroup : undefined;
  return Stack.of(retry).formatArn({
    service: 'logs',
    resource: 'log-group',
    resourceName: `${own ?? `/aws/lambda/${knownName}`}:*`,
    arnFormat: ArnFormat.COLON_RESOURCE_NAME,
  });
}
