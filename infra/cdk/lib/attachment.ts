import { Annotations, aws_lambda as lambda, CfnDeletionPolicy, CfnResource, Stack } from 'aws-cdk-lib';
import { Construct, IDependable } from 'constructs';
import type { Records } from './records';
import type { RetryPolicy } from './retry-policy';
import type { ConsumedQueue } from './retry-queues';
import { grantedByHand, Senders } from './senders';
import { CONFIG_ID, destinationsOf, ownId, Target } from './target';

export interface AttachmentProps {
  readonly target: Target;
  /** The function's own policy. */
  readonly policy: RetryPolicy;
  /** The bucket for its failure records, if they go there instead of the queue. */
  readonly records?: Records;
  /** The queue for its failures. No failure may arrive before the mapping exists. */
  readonly consumed: ConsumedQueue;
  readonly senders: Senders;
}

/**
 * The settings of one attached function. Settings in the function's own stack don't depend on the stack of the retries,
 * so that the two stacks may be different.
 */
export class Attachment extends Construct {
  public readonly target: Target;
  public readonly policy: RetryPolicy;
  public readonly consumed: ConsumedQueue;
  private readonly records?: Records;
  private readonly config: lambda.CfnEventInvokeConfig;

  constructor(scope: Construct, props: AttachmentProps) {
    const { target, consumed, records } = props;
    super(scope, `Attached-${ownId(target.attached)}`);
    this.target = target;
    this.policy = props.policy;
    this.consumed = consumed;
    this.records = records;
    const permission = this.allowSend(props.senders);
    this.config = this.sendFailures();
    // Lambda refuses a destination if the function's role may not send to it. SQS enforces the queue's policy.
    this.config.node.addDependency(...permission, consumed.queue.closure, consumed.mapping);
    if (records) this.config.node.addDependency(records);
    // The config names an alias without a reference, so CloudFormation doesn't know the dependency.
    const alias = target.attached === target.base ? undefined : target.attached.node.defaultChild;
    if (alias) this.config.node.addDependency(alias);
    target.allowLoop(this);
    if (target.resource?.deadLetterConfig) {
      this.warn(
        'dead-letter-queue',
        'it has a dead-letter queue of its own, to which Lambda also sends each failure, whether its event comes back or not',
      );
    }
    this.warnOfReplacedVersion();
  }

  /** Other settings in the app that contradict this attachment. `configs` are all event invoke configs of the app. */
  public contradictions(configs: lambda.CfnEventInvokeConfig[]): string[] {
    const { target, config } = this;
    const others = configs
      .filter((each) => each !== config && target.isConfiguredBy(each))
      .map(
        (each) =>
          `${target.path} has a second event invoke config, ${each.node.path}: configure its asynchronous invocations on the function itself, before attach()`,
      );
    return [...others, ...target.forbiddenLoop];
  }

  /** Sends success records to the retry queue, too: they say which records of a stream's batch have failed. */
  public sendSuccesses(): void {
    const { config, consumed } = this;
    config.destinationConfig = { ...destinationsOf(config), onSuccess: { destination: consumed.queue.queueArn } };
  }

  /** Whether its success records go elsewhere. */
  public get hasOtherSuccesses(): boolean {
    const { onSuccess } = destinationsOf(this.config) as lambda.CfnEventInvokeConfig.DestinationConfigProperty;
    const destination = (onSuccess as lambda.CfnEventInvokeConfig.OnSuccessProperty | undefined)?.destination;
    return destination !== undefined && destination !== this.consumed.queue.queueArn;
  }

  private allowSend(senders: Senders): IDependable[] {
    const { role } = this.target.base;
    if (role === undefined) {
      senders.allowUnknown(this.consumed.queue);
      this.warn(
        'role',
        'its role is not known, so its retry queue is open to all roles of this account, and Lambda refuses the destination unless ' +
          'the role may already send to it: import the function by Function.fromFunctionAttributes, with its role',
      );
      return [];
    }
    // Also with a bucket, so that nothing is lost while the destination changes.
    const policies = [senders.allow(role, this.consumed.queue)];
    if (this.records) policies.push(senders.allowPut(role, this.records));
    const byHand = grantedByHand(policies);
    if (byHand) {
      this.warn(
        'permission',
        `its role can't be changed here, and Lambda refuses the destination unless the role may already send to it: ${byHand}`,
      );
    }
    return policies;
  }

  /** Sets the destination in the qualifier's only event invoke config, and keeps the other properties. */
  private sendFailures(): lambda.CfnEventInvokeConfig {
    const { ownConfig, configured } = this.target;
    const onFailure = { destination: this.records?.bucket.bucketArn ?? this.consumed.queue.queueArn };
    if (Stack.of(configured) === Stack.of(this)) {
      const config = ownConfig ?? this.createConfig(configured);
      config.maximumRetryAttempts = 0;
      config.destinationConfig = { ...destinationsOf(config), onFailure };
      return config;
    }
    const config = this.createConfig(this);
    if (ownConfig) {
      config.maximumEventAgeInSeconds = ownConfig.maximumEventAgeInSeconds;
      configured.node.tryRemoveChild(CONFIG_ID);
      this.warn(
        'moved',
        'its event invoke config moves into the stack of the retries. If it is already deployed, Lambda retries failures twice ' +
          'during the move, and then drops them',
      );
    }
    config.destinationConfig = { ...(ownConfig && destinationsOf(ownConfig)), onFailure };
    return config;
  }

  /** Creates the config where the CDK would create it, so that its logical id stays the same. */
  private createConfig(scope: Construct): lambda.CfnEventInvokeConfig {
    const { base, qualifier } = this.target;
    return new lambda.CfnEventInvokeConfig(new Construct(scope, CONFIG_ID), 'Resource', {
      functionName: base.functionName,
      qualifier,
      maximumRetryAttempts: 0,
    });
  }

  /** Warns if deployments replace the attached version, because waiting events name the version that failed. */
  private warnOfReplacedVersion(): void {
    const { attached, currentVersion } = this.target;
    if (attached !== currentVersion) return;
    const version = attached.node.defaultChild as CfnResource;
    if (Stack.of(version) !== Stack.of(this)) {
      this.warn(
        'version',
        `each change of its function makes a new version, which ${Stack.of(version).stackName} can't deploy while ${Stack.of(this).stackName} ` +
          'imports the old one: attach an alias of it',
      );
    } else if (version.cfnOptions.deletionPolicy !== CfnDeletionPolicy.RETAIN) {
      this.warn(
        'version',
        'each change of its function makes a new version and deletes the old one, although waiting events name it: ' +
          'attach an alias of it, or retain it with currentVersionOptions',
      );
    }
  }

  private warn(topic: string, what: string): void {
    Annotations.of(this).addWarningV2(`comeback:${topic}`, `${this.target.path}: ${what}`);
  }
}
