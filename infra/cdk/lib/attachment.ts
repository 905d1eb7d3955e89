import { Annotations, aws_iam as iam, aws_kms as kms, aws_lambda as lambda, Token } from 'aws-cdk-lib';
import { Construct, IDependable } from 'constructs';
import { checkTransparency, makeTransparent } from './envelope-proxy';
import { Faults } from './faults';
import { KEY_ACTIONS } from './handler';
import { RetryPolicy } from './retry-policy';
import { RetryQueue } from './retry-queue';
import { ownId, Target } from './target';

/** What a function is attached to, and how. */
export interface AttachmentProps {
  readonly target: Target;
  /** The function's own policy. */
  readonly policy: RetryPolicy;
  readonly transparent: boolean;
  readonly queue: RetryQueue;
  readonly encryptionKey?: kms.IKey;
  /** Who takes failures from the queue: nothing fails into it before. */
  readonly consumer: IDependable;
  readonly source?: string;
}

/** Notes why a function can't be attached as it is. */
export function checkAttachable(target: Target, transparent: boolean, faults: Faults): void {
  if (target.resource?.recursiveLoop === lambda.RecursiveLoop.TERMINATE) {
    faults.note('recursiveLoop must be Allow, or not set: Lambda would stop its retries after about 16, got Terminate');
  }
  for (const config of target.configsBesides()) {
    if (Token.isUnresolved(config.destinationConfig)) {
      faults.note(`its event invoke config at ${config.node.path} can't be read`);
    } else if (destinationsOf(config).onFailure) {
      faults.note(`its on-failure destination is another one already, by ${config.node.path}`);
    }
    if (config.maximumRetryAttempts) {
      faults.add('retryAttempts', 'not set: Lambda\'s own retries would come before the first failure is known', config.maximumRetryAttempts);
    }
  }
  if (transparent) checkTransparency(target, faults);
}

/**
 * What is set on the side of one function. All of it lives in the stack of the retries, but for what is a
 * property of the function itself and needs nothing from here: so that the function may live in a stack of its own.
 */
export class Attachment extends Construct {
  public readonly target: Target;
  public readonly policy: RetryPolicy;
  private readonly config: lambda.CfnEventInvokeConfig;

  constructor(scope: Construct, props: AttachmentProps) {
    const { target } = props;
    super(scope, `Attached-${ownId(target.attached)}`);
    this.target = target;
    this.policy = props.policy;
    const permission = this.letSend(props);
    this.config = this.sendFailures(props.queue);
    // Lambda refuses a destination that the function's role may not send to.
    this.config.node.addDependency(props.consumer, ...permission);
    this.allowLoop();
    if (props.transparent && !makeTransparent(target, props.source)) {
      this.warn('transparent', 'its envelopes are not taken off, as a layer can\'t be added to it here: add the layer and '
        + 'AWS_LAMBDA_EXEC_WRAPPER=/opt/comeback-exec where the function is defined');
    }
  }

  /** What was set elsewhere since, and takes back what was set here. */
  public contradictions(): string[] {
    const { target } = this;
    const others = target.configsBesides(this.config).map((config) =>
      `${target.path} has a second event invoke config, ${config.node.path}: configure asynchronous invocations before attach(), which takes it over`);
    const terminates = target.resource?.recursiveLoop !== undefined && target.resource.recursiveLoop !== lambda.RecursiveLoop.ALLOW;
    return terminates
      ? [...others, `${target.path} must keep recursiveLoop Allow, got ${target.resource?.recursiveLoop}`]
      : others;
  }

  private letSend({ target, queue, encryptionKey }: AttachmentProps): IDependable[] {
    const { role } = target.base;
    if (role === undefined) {
      this.warn('role', 'its role is not known, so it can\'t send its failures: import it with Function.fromFunctionAttributes and its role');
      return [];
    }
    queue.letSend(role.roleArn);
    const policy = new iam.Policy(this, 'SendFailures', {
      statements: [
        new iam.PolicyStatement({ actions: ['sqs:SendMessage'], resources: [queue.queueArn] }),
        ...encryptionKey ? [new iam.PolicyStatement({
          actions: KEY_ACTIONS,
          resources: [encryptionKey.keyArn],
        })] : [],
      ],
    });
    role.attachInlinePolicy(policy);
    return [policy];
  }

  /** One function and qualifier has one event invoke config: what another one says beside is kept. */
  private sendFailures(queue: RetryQueue): lambda.CfnEventInvokeConfig {
    const { base, qualifier } = this.target;
    const [before] = this.target.configsBesides();
    before?.node.scope?.node.tryRemoveChild(before.node.id);
    return new lambda.CfnEventInvokeConfig(this, 'EventInvokeConfig', {
      functionName: base.functionName,
      qualifier,
      maximumRetryAttempts: 0,
      maximumEventAgeInSeconds: before?.maximumEventAgeInSeconds,
      destinationConfig: { ...(before && destinationsOf(before)), onFailure: { destination: queue.queueArn } },
    });
  }

  private allowLoop(): void {
    const { resource, base } = this.target;
    if (resource) {
      resource.recursiveLoop = lambda.RecursiveLoop.ALLOW;
    } else {
      this.warn('recursion', 'its RecursiveLoop can\'t be set from here, and Lambda would stop its retries after about 16: '
        + `run aws lambda put-function-recursion-config --recursive-loop Allow --function-name ${base.functionName}`);
    }
  }

  private warn(topic: string, what: string): void {
    Annotations.of(this).addWarningV2(`comeback:${topic}`, `${this.target.path}: ${what}`);
  }
}

function destinationsOf(config: lambda.CfnEventInvokeConfig): lambda.CfnEventInvokeConfig.DestinationConfigProperty {
  return (config.destinationConfig ?? {}) as lambda.CfnEventInvokeConfig.DestinationConfigProperty;
}
