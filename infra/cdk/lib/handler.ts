import {
  aws_iam as iam,
  aws_lambda as lambda,
  aws_logs as logs,
  aws_sqs as sqs,
  Duration,
  RemovalPolicy,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';

/** What the retry handler is made with. */
export interface HandlerProps {
  readonly architecture: lambda.Architecture;
  readonly code: lambda.Code;
  readonly environment: { [name: string]: string };
  readonly logRetention?: logs.RetentionDays;
  readonly memorySize?: number;
  readonly timeout: Duration;
  readonly tracing?: lambda.Tracing;
}

/** SQS advises six times the function's timeout, so that no batch is delivered again while it is at work. */
const VISIBILITY_PER_TIMEOUT = 6;

/** It needs some 20 MB. */
const MEMORY_SIZE = 128;

/** How many messages the handler is given at most. More would need a batching window. */
const BATCH_SIZE = 10;

/** Any window, of one second even, can delay a quiet queue by up to 20 s. */
const BATCHING_WINDOW = Duration.seconds(0);

/** What is done with the messages of a queue. */
export const CONSUME = [
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibility',
  'sqs:GetQueueAttributes',
];

/** What is needed to read and to write with a key. */
export const KEY_ACTIONS = ['kms:Decrypt', 'kms:GenerateDataKey'];

/** What brings an event back. */
export const INVOKE = ['lambda:InvokeFunction'];

/** The function that decides about each failed event. Its role may do what it needs, and nothing else. */
export class RetryHandler extends lambda.Function {
  /** How long a batch is hidden from others. */
  public readonly visibilityTimeout: Duration;
  /** Whom the handler is for others. */
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
      // The loop from function to queue to function is meant, and has a bound of its own.
      recursiveLoop: lambda.RecursiveLoop.ALLOW,
    });
    this.roleArn = role.roleArn;
    this.visibilityTimeout = Duration.seconds(props.timeout.toSeconds() * VISIBILITY_PER_TIMEOUT);
  }

  /** Has the handler fed by a queue, and lets it do there what it has to do. */
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

  /** Lets the handler do something, and only with these. */
  public allow(actions: string[], ...resources: string[]): void {
    this.addToRolePolicy(new iam.PolicyStatement({ actions, resources }));
  }
}
