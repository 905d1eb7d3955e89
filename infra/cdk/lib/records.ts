import {
  Annotations,
  ArnFormat,
  aws_events as events,
  aws_iam as iam,
  aws_kms as kms,
  aws_lambda as lambda,
  aws_s3 as s3,
  Duration,
  Fn,
  Lazy,
  RemovalPolicy,
  Stack,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { RECORDS, SETTINGS } from './contract';
import type { RetryHandler } from './handler';
import { EVENT_BRIDGE, exceptFor, letServiceUse, principalArns, RetryQueue } from './queues';
import { parseDuration } from './durations';
import { tagPart } from './tags';
import { ownId } from './target';

/** The actions that show whether a bucket notifies, and how long it keeps its objects. */
export const READ_BUCKET = [
  's3:GetBucketNotification',
  's3:GetBucketPolicy',
  's3:GetBucketPublicAccessBlock',
  's3:GetEncryptionConfiguration',
  's3:GetLifecycleConfiguration',
];

const READ = [...RECORDS.handler.objects, ...RECORDS.handler.versions];
const DELETE = ['s3:DeleteObject', 's3:DeleteObjectVersion'];

export interface RecordsProps {
  readonly handler: RetryHandler;
  /** The user's own bucket. */
  readonly bucket?: s3.IBucket;
  /** The key of the retry queues, and of a bucket of ours. */
  readonly encryptionKey?: kms.IKey;
  /** For how many days records are kept, as far as is known when it is called. */
  readonly days: () => number;
}

/**
 * The bucket of failure records, and how the retry queues are notified of each record. S3 itself notifies them for a
 * bucket of ours. A user's bucket has only one notification configuration, which is the user's own, so EventBridge
 * notifies them.
 */
export class Records extends Construct {
  public readonly bucket: s3.IBucket;
  private readonly own?: RecordBucket;
  private readonly notified = new Set<RetryQueue>();
  private hasStreams = false;
  /** The key of a user's bucket. The key of the retry queues is granted with these. */
  private readonly key?: kms.IKey;

  constructor(scope: Construct, props: RecordsProps) {
    super(scope, 'Records');
    const { handler, bucket, encryptionKey } = props;
    if (bucket) {
      this.bucket = bucket;
      this.key = bucket.encryptionKey === encryptionKey ? undefined : bucket.encryptionKey;
      this.warn(
        'bucket',
        `${bucket.node.path}: let it send its events to EventBridge (eventBridgeEnabled), and keep the objects under ` +
          `${this.prefix} for long enough, as docs/deploy/cdk-options.md says: neither can be seen from here`,
      );
    } else {
      this.bucket = this.own = new RecordBucket(this, 'Bucket', { ...props, prefix: this.prefix });
      this.own.allowRead(handler.roleArn);
      tagPart(scope, this.own, 'records');
    }
    handler.addEnvironment('RECORD_BUCKETS', this.bucket.bucketName);
    const { objects, versions, bucket: ofBucket, key } = RECORDS.handler;
    handler.allow(bucket ? [...objects, ...versions] : objects, this.read);
    // With this permission, S3 says that an object is gone, and without it that access is denied. The condition s3:prefix
    // is one of lists only, and this is asked for a read, which names no prefix.
    handler.allow(ofBucket, this.bucket.bucketArn);
    this.key?.grant(handler, ...key);
    if (encryptionKey) letServiceUse(this, encryptionKey, this.own ? 's3.amazonaws.com' : EVENT_BRIDGE);
  }

  /**
   * Notifies a queue of all records, or of those of the only function whose messages it takes. Records of a function
   * that no longer uses the bucket may still arrive, so this doesn't depend on whether the function uses it.
   */
  public notify(queue: RetryQueue, functionName?: string): void {
    if (this.notified.has(queue)) return;
    this.notified.add(queue);
    const prefix = prefixOf(functionName);
    if (this.own) {
      this.own.notify(queue, prefix);
      return;
    }
    queue.allowService(EVENT_BRIDGE, this.ruleFor(`Rule-${ownId(queue)}`, queue, prefix).attrArn);
  }

  /**
   * Notifies a queue of the records of a stream's mapping. EventBridge does that for a bucket of ours as well: the keys
   * have the mapping's id, so the mapping must exist first, and before that the bucket with its notifications.
   */
  public notifyOfStream({ ref, node }: lambda.CfnEventSourceMapping, queue: RetryQueue): void {
    this.hasStreams = true;
    this.own?.notifyEventBridge();
    const id = `Stream-${ownId(node.scope ?? this)}`;
    const rule = this.ruleFor(id, queue, `${RECORDS.prefix_with_streams}${ref}/`);
    // S3 wants the queue's policy before the bucket, so the policy names the rule without a reference.
    const stack = Stack.of(this);
    rule.name = Fn.join('-', ['comeback', rule.node.addr.slice(-8), Fn.select(2, Fn.split('/', stack.stackId))]);
    const arnFormat = ArnFormat.SLASH_RESOURCE_NAME;
    const arn = stack.formatArn({ service: 'events', resource: 'rule', resourceName: rule.name, arnFormat });
    queue.allowService(EVENT_BRIDGE, arn);
  }

  private ruleFor(id: string, queue: RetryQueue, prefix: string): events.CfnRule {
    return new events.CfnRule(this, id, {
      description: 'Tells the retry queue of failure records in a bucket',
      eventPattern: {
        source: ['aws.s3'],
        'detail-type': ['Object Created'],
        detail: { bucket: { name: [this.bucket.bucketName] }, object: { key: [{ prefix }] } },
      },
      targets: [{ id: 'RetryQueue', arn: queue.queueArn }],
    });
  }

  /** What the keys of all records begin with, including those of streams that are attached later. */
  private get prefix(): string {
    return Lazy.string({ produce: () => (this.hasStreams ? RECORDS.prefix_with_streams : RECORDS.prefix) });
  }

  /** The ARN of all records. */
  private get read(): string {
    return this.bucket.arnForObjects(`${this.prefix}*`);
  }

  /** Exempts the role of an attached function from the bucket's denial of puts. It needs the permission, too. */
  public exempt(roleArn: string): void {
    this.own?.allowPut(roleArn);
  }

  /**
   * What the role of a function needs to put records. Others report that Lambda refuses one that may put no other
   * objects.
   */
  public statements(): iam.PolicyStatement[] {
    const { objects, bucket, key } = RECORDS.function;
    return [
      new iam.PolicyStatement({
        actions: [...objects, ...bucket],
        resources: [this.bucket.bucketArn, this.bucket.arnForObjects('*')],
        // Once a bucket is deleted, anybody can take its name.
        conditions: { StringEquals: { 's3:ResourceAccount': Stack.of(this).account } },
      }),
      ...(this.key ? [new iam.PolicyStatement({ actions: key, resources: [this.key.keyArn] })] : []),
    ];
  }

  /** Lets a principal read records, as dead letters may have their payloads there. */
  public grantRead(grantee: iam.IGrantable, principalArn: string): iam.Grant {
    this.own?.allowRead(principalArn);
    this.key?.grant(grantee, ...RECORDS.handler.key);
    const { objects } = RECORDS.handler;
    return iam.Grant.addToPrincipal({
      grantee,
      actions: this.own ? objects : READ,
      resourceArns: [this.read],
    });
  }

  private warn(topic: string, what: string): void {
    Annotations.of(this).addWarningV2(`comeback:record-${topic}`, what);
  }
}

/**
 * A bucket whose policy lets only the attached functions put records, and only the handler and principals that may
 * redrive or operate read and delete them, whatever other permissions exist in the account.
 */
class RecordBucket extends s3.Bucket {
  /**
   * The ARN, without a reference. A queue's policy names the bucket, and S3 lets the bucket notify the queue only once
   * it does, so CloudFormation must not need the bucket first. The stack's id makes the name unique.
   */
  private readonly knownArn: string;
  private readonly putters = new Set<string>();
  private readonly readers = new Set<string>();
  private readonly notices: s3.CfnBucket.QueueConfigurationProperty[] = [];
  private eventBridge?: s3.CfnBucket.EventBridgeConfigurationProperty;

  constructor(
    scope: Construct,
    id: string,
    { encryptionKey, days, prefix }: RecordsProps & { readonly prefix: string },
  ) {
    const stack = Stack.of(scope);
    const ofStack = Fn.select(2, Fn.split('/', stack.stackId));
    const bucketName = Fn.join('-', ['comeback-records', scope.node.addr.slice(-8), ofStack]);
    super(scope, id, {
      bucketName,
      ...(encryptionKey
        ? { encryption: s3.BucketEncryption.KMS, encryptionKey, bucketKeyEnabled: true }
        : { encryption: s3.BucketEncryption.S3_MANAGED }),
      blockPublicAccess: s3.BlockPublicAccess.BLOCK_ALL,
      objectOwnership: s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
      enforceSSL: true,
      lifecycleRules: [
        {
          prefix,
          expiration: Duration.days(Lazy.number({ produce: days })),
          abortIncompleteMultipartUploadAfter: Duration.days(RECORDS.abort_days),
        },
      ],
      // S3 deletes no bucket that has objects. They expire, and are payloads of events.
      removalPolicy: RemovalPolicy.RETAIN,
    });
    this.knownArn = stack.formatArn({ service: 's3', region: '', account: '', resource: bucketName });
    (this.node.defaultChild as s3.CfnBucket).notificationConfiguration = Lazy.any({
      produce: () =>
        this.notices.length > 0
          ? { queueConfigurations: this.notices, eventBridgeConfiguration: this.eventBridge }
          : undefined,
    });
    // The list must not be empty, so the handler, which lacks the permission, replaces an empty one.
    this.denyAllBut(() => (this.putters.size > 0 ? this.putters : this.readers), RECORDS.function.objects);
    this.denyAllBut(() => this.readers, [...READ, ...DELETE]);
  }

  public allowPut(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.putters.add(arn));
  }

  public allowRead(principalArn: string): void {
    principalArns(principalArn).forEach((arn) => this.readers.add(arn));
  }

  /**
   * Sends a notice of each record with this prefix to a queue. S3 allows 100 of these, and the handler's variables have
   * room for fewer queues.
   */
  public notify(queue: RetryQueue, prefix: string): void {
    const filter = { s3Key: { rules: [{ name: 'prefix', value: prefix }] } };
    this.notices.push({ event: RECORDS.event, queue: queue.queueArn, filter });
    queue.allowService('s3.amazonaws.com', this.knownArn);
    this.node.addDependency(queue.closure);
  }

  /** Sends all events of the bucket to EventBridge, besides the notices. */
  public notifyEventBridge(): void {
    this.eventBridge = { eventBridgeEnabled: true };
  }

  private denyAllBut(allowed: () => Set<string>, actions: string[]): void {
    this.addToResourcePolicy(
      new iam.PolicyStatement({
        effect: iam.Effect.DENY,
        principals: [new iam.AnyPrincipal()],
        actions,
        resources: [this.arnForObjects('*')],
        conditions: exceptFor(Lazy.list({ produce: () => [...allowed()] })),
      }),
    );
  }
}

/**
 * For how many days records are kept: until the last dead letter of an event may expire. The ages and the retentions
 * are those of all policies and dead-letter queues.
 */
export function daysToKeep(ages: Duration[], retentions: Duration[]): number {
  const longestAge = parseDuration(SETTINGS.MAX_AGE.max as string);
  const days = (each: Duration) => (each.isUnresolved() ? longestAge : each).toDays({ integral: false });
  return Math.ceil(Math.max(...ages.map(days)) + Math.max(...retentions.map(days))) + RECORDS.slack_days;
}

/** What the keys of records begin with: those of one function, or all. */
function prefixOf(functionName?: string): string {
  return functionName === undefined ? RECORDS.prefix : `${RECORDS.prefix}${functionName}/`;
}
