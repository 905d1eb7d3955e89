import { Annotations, aws_lambda as lambda } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import type { Attachment } from './attachment';
import type { Faults } from './faults';
import { checkStack } from './receiver';
import type { Records } from './records';
import { grantedByHand, Senders } from './senders';
import { isOfType, Target } from './target';

/** How often a mapping itself retries a batch, if nobody has said it. Its shard has to wait meanwhile. */
const ATTEMPTS = 2;

/** The response type of a function that names the records that failed. */
const PARTIAL = 'ReportBatchItemFailures';

/** The mappings of a source to a function. A Kafka cluster may have several topics. */
export function streamsOf(scope: IConstruct, target: Target, eventSourceArn: string): AttachedStream[] {
  const type = lambda.CfnEventSourceMapping.CFN_RESOURCE_TYPE_NAME;
  const { functionArn, functionName } = target.attached;
  const names = [functionArn, functionName];
  return scope.node.root.node
    .findAll()
    .filter((each) => isOfType<lambda.CfnEventSourceMapping>(each, type))
    .filter((each) => names.includes(each.functionName) && each.eventSourceArn === eventSourceArn)
    .map((each) => new AttachedStream(each, target));
}

/** The mapping of a stream or a topic to an attached function. */
export class AttachedStream {
  constructor(
    private readonly mapping: lambda.CfnEventSourceMapping,
    private readonly target: Target,
  ) {}

  /** Reports why its batches can't come back. */
  public check(scope: IConstruct, attachment: Attachment | undefined, faults: Faults): void {
    const { mapping } = this;
    const { path } = mapping.node;
    checkStack(mapping, scope, faults);
    // Only these two kinds of sources have a position, and DocumentDB's changes have no destination.
    if (mapping.startingPosition === undefined || mapping.documentDbEventSourceConfig)
      faults.note(`${path} must be of a Kinesis stream, a DynamoDB stream or a Kafka topic: attachQueue is for queues`);
    if (mapping.destinationConfig !== undefined) faults.note(`${path} has an on-failure destination already`);
    if (mapping.maximumRetryAttempts === -1 && !(Number(mapping.maximumRecordAgeInSeconds ?? -1) > 0))
      faults.note(
        `${path} must limit its retryAttempts or its maxRecordAge: otherwise it retries until the records expire, and its ` +
          'shard waits meanwhile',
      );
    if (this.isPartial && attachment?.hasOtherSuccesses)
      faults.note(
        'it must have no on-success destination: its retry queue takes its place, because only success records say which ' +
          'records of a batch have failed',
      );
  }

  /** Sends the batches to the bucket, and notices of them to the function's retry queue. */
  public attach(attachment: Attachment, records: Records, senders: Senders): void {
    const { mapping, target } = this;
    mapping.destinationConfig = { onFailure: { destination: records.bucket.bucketArn } };
    if (!this.isOfKafka) {
      // Otherwise, all records of a batch would come back for one that is bad.
      mapping.bisectBatchOnFunctionError ??= true;
      if (mapping.maximumRecordAgeInSeconds === undefined) mapping.maximumRetryAttempts ??= ATTEMPTS;
    }
    if (this.isPartial) attachment.sendSuccesses();
    records.notifyOfStream(mapping, attachment.consumed.queue);
    if (target.attached !== target.base)
      this.warn(
        'stream-qualifier',
        "AWS documents that a stream's record names its function without alias or version, so the retry may run $LATEST",
      );
    const { role } = target.base;
    // Its attachment warns about it.
    if (role === undefined) return;
    const permission = senders.allowPut(role, records);
    mapping.node.addDependency(permission);
    const byHand = grantedByHand([permission]);
    if (byHand)
      this.warn(
        'permission',
        `its role can't be changed here, and Lambda puts what failed into the bucket with it: ${byHand}`,
      );
  }

  /** Whether the function says which records of a batch have failed. */
  private get isPartial(): boolean {
    return (this.mapping.functionResponseTypes ?? []).includes(PARTIAL);
  }

  /** Kafka's mappings have no such settings, except in provisioned mode. Lambda itself then limits their retries. */
  private get isOfKafka(): boolean {
    return this.mapping.topics !== undefined;
  }

  private warn(topic: string, what: string): void {
    Annotations.of(this.mapping).addWarningV2(`comeback:${topic}`, `${this.mapping.node.path}: ${what}`);
  }
}
