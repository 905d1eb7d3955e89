import {
  aws_iam as iam,
  aws_lambda as lambda,
  aws_logs as logs,
  aws_sqs as sqs,
  Duration,
  RemovalPolicy,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { tagPart } from './tags';

/** The properties of the retry handler. */
export interface HandlerProps {
  readonly architecture: lambda.Architecture;
  readonly code: lambda.Code;
  readonly environment: { [name: string]: string };
  readonly logRetention?: logs.RetentionDays;
  readonly memorySize?: number;
  readonly timeout: Duration;
  readonly tracing?: lambda.Tracing;
}

/** AWS recommends six times the function's timeout, so that no batch is delivered again while it is handled. */
const VISIBILITY_PER_TIMEOUT = 6;

/** The handler needs some 20 MB. */
export const MEMORY_SIZE = 128;

/** The largest batch of the handler. A larger one would need a batching window. */
const BATCH_SIZE = 10;

/** Any window, even of one second, can delay a queue with few messages by up to 20 s. */
const BATCHING_WINDOW = Duration.seconds(0);

/**
 * The actions of a mapping and its function on a queue. The handler reads how many messages are in flight, and when
 * there are too many, it sends waiting messages again, with a delay.
 */
const CONSUME = [
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibility',
  'sqs:GetQueueAttributes',
  'sqs:SendMessage',
];

/** The actions that reading and writing with a key need. */
export const KEY_ACTIONS = ['kms:Decrypt', 'kms:GenerateDataKey'];

/** The action that re-invokes a function. */
export const INVOKE = ['lambda:InvokeFunction'];

/** The function that decides about each failed event. Its role has only the permissions that it needs. */
export class RetryHandler extends lambda.Function {
  /** The visibility timeout of its queues. */
  public readonly visibilityTimeout: Duration;
  /** The ARN of the handler's role. */
  public readonly roleArn: string;

  constructor(scope: Construct, id: string, props: HandlerProps) {
    const logGroup = new logs.LogGroup(scope, 'Log', {
      retention: props.logRetention ?? logs.RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    const role = new iam.Role(scope, 'HandlerRole', { assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com') });
    logGroup.grantWrite(role);
    super(scope, id, {
      description: 'Brings failed asynchronous events back to their functions',
      runtime: lambda.Runtime.PROVIDED_AL2023,
      handler: 'bootstrap',
      architecture: props.architecture,
      code: props.code,
      environment: props.environment,
      memorySize: props.memorySize ?? MEMORY_SIZE,
      timeout: props.timeout,
      tracing: props.tracing,
      role,
      logGroup,
      // The loop from function to queue to function is intended, and Comeback limits it.
      recursiveLoop: lambda.RecursiveLoop.ALLOW,
    });
    tagPart(scope, this, 'handler');
    this.roleArn = role.roleArn;
    this.visibilityTimeout = Duration.seconds(props.timeout.toSeconds() * VISIBILITY_PER_TIMEOUT);
  }

  /** Maps a queue to the handler, and grants what the handler needs on it. */
  public consume(queue: sqs.IQueue, maxConcurrency: number): lambda.EventSourceMapping {
    this.allow(CONSUME, queue.queueArn);
    return new lambda.EventSourceMapping(queue, 'Mapping', {
      target: this,
      eventSourceArn: queue.queueArn,
      batchSize: BATCH_SIZE,
      maxBatchingWindow: BATCHING_WINDOW,
      reportBatchItemFailures: true,
      maxConcurrency,
    });
  }

  /** Allows the handler these actions on these resources. */
  public allow(actions: string[], ...resources: string[]): void {
    this.addToRolePolicy(new iam.PolicyStatement({ actions, resources }));
  }
}
