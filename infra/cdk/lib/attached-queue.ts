import { Annotations, ArnFormat, aws_lambda as lambda, aws_sqs as sqs, Duration, Stack, Token } from 'aws-cdk-lib';
import { Construct, IConstruct } from 'constructs';
import { Faults } from './faults';
import type { AttachQueueOptions } from './props';
import { ClosedQueue, resourceOf, RetryQueue } from './queues';
import { checkWhole } from './checks';
import { checkPolicy } from './policy-checks';
import { RetryPolicy } from './retry-policy';
import { FUNCTIONS_ONLY } from './settings';
import { checkHome, isOfType, ownId, Retried, Target } from './target';

/** With more, SQS's own repetitions without a backoff would come first for too long. */
const RECEIVES_MAX = 10;

/** A failure that is seen later than this is worth a warning. */
const SEEN_LATE = Duration.hours(1);

/** A queue whose messages are retried. */
export class Source implements Retried {
  public readonly name: string;
  public readonly arn: string;
  /** The queue's resource; an imported queue has none. */
  public readonly resource?: sqs.CfnQueue;
  /** The ARN, if it is known before the queue exists: only CloudFormation knows the names that it generates. */
  public readonly knownArn?: string;

  constructor(public readonly construct: sqs.IQueue) {
    this.resource = resourceOf(construct);
    const stack = Stack.of(construct);
    const written = this.resource?.queueName;
    // The CDK writes a token for a name that CloudFormation generates.
    const name = stack.resolve(written) === undefined ? undefined : written;
    this.name = `sqs:${name ?? construct.queueName}`;
    this.knownArn = name && stack.formatArn({ service: 'sqs', resource: name, arnFormat: ArnFormat.NO_RESOURCE_NAME });
    this.arn = this.knownArn ?? construct.queueArn;
  }

  /** Reports why its messages can't be retried. */
  public check(scope: IConstruct, policy: RetryPolicy, options: AttachQueueOptions, faults: Faults): void {
    const { construct: queue, resource, knownArn } = this;
    if (queue instanceof ClosedQueue) faults.note('it is a retry queue or a dead-letter queue itself');
    if (queue.fifo) {
      faults.note(
        'it is a FIFO queue: a backoff would break its order, and SQS moves its messages only to a FIFO queue',
      );
    }
    if (resource === undefined) {
      faults.note(
        "it is imported, and its redrive policy can't be set here: attach it where it is defined, or run comeback attach --queue NAME",
      );
    } else if (resource.redrivePolicy !== undefined) {
      faults.note(
        'it has a dead-letter queue already: leave that out, as the retry queue takes its place. You can keep it for what is given up, as deadLetterQueue of this AsyncRetry',
      );
    }
    if (
      resource &&
      Stack.of(resource) !== Stack.of(scope) &&
      (knownArn === undefined || Token.isUnresolved(resource.queueName))
    ) {
      faults.note(
        'it is in another stack, so it must have a queueName: otherwise each stack would need the other first',
      );
    }
    checkHome('it', queue, scope, faults);
    checkWhole('maxReceiveCount', options.maxReceiveCount, 1, RECEIVES_MAX, faults);
    checkPolicy(policy, faults);
    for (const property of FUNCTIONS_ONLY) {
      if (options[property] !== undefined) {
        faults.note(`${property} must not be set: SQS doesn't say why a consumer failed, and invokes nothing`);
      }
    }
    for (const each of options.consumers ?? []) {
      const consumer = new Target(each);
      consumer.checkLoop(faults, `${consumer.path}: `);
    }
  }
}

export interface AttachedQueueProps {
  readonly source: Source;
  readonly policy: RetryPolicy;
  readonly maxReceiveCount: number;
  readonly consumers: lambda.IFunction[];
  readonly retryQueue: RetryQueue;
}

/** The settings of one attached queue. */
export class AttachedQueue extends Construct {
  public readonly source: Source;
  public readonly policy: RetryPolicy;
  public readonly consumers: lambda.IFunction[];
  private readonly retryQueue: RetryQueue;

  constructor(scope: Construct, props: AttachedQueueProps) {
    const { source, retryQueue, maxReceiveCount, consumers } = props;
    super(scope, `Attached-${ownId(source.construct)}`);
    this.source = source;
    this.policy = props.policy;
    this.consumers = consumers;
    this.retryQueue = retryQueue;
    // Neither queue can be created after the other, so the retry queue knows the source only by a name that was chosen.
    retryQueue.allowMoves(source.knownArn);
    if (source.knownArn === undefined) {
      this.warn(
        'redrive-allow',
        'CloudFormation generates its name, so its retry queue takes messages that SQS moves from any queue of the ' +
          'account. The handler gives up those of other queues. With a queueName, SQS refuses them; CloudFormation ' +
          'replaces a queue whose name you change',
      );
    }
    if (source.resource) {
      source.resource.redrivePolicy = { deadLetterTargetArn: retryQueue.queueArn, maxReceiveCount };
      source.resource.node.addDependency(retryQueue.closure);
      this.warnIfSeenLate(source.resource, maxReceiveCount);
    }
    for (const each of consumers) new Target(each).allowLoop(this);
  }

  /** Other settings in the app that contradict this attachment. `all` are all constructs of the app. */
  public contradictions(all: IConstruct[]): string[] {
    const { source, retryQueue, consumers } = this;
    const stack = Stack.of(source.construct);
    const written = JSON.stringify(stack.resolve(source.resource?.redrivePolicy));
    const isKept = written?.includes(JSON.stringify(stack.resolve(retryQueue.queueArn)));
    const moved = isKept ? [] : [`${source.construct.node.path} must keep its retry queue as dead-letter queue`];
    const stopped = this.consumersIn(all)
      .filter((each) => new Target(each).resource?.recursiveLoop !== lambda.RecursiveLoop.ALLOW)
      .map(
        ({ node: { path } }) =>
          `${path} consumes ${source.construct.node.path}: name it in consumers, because Lambda would stop it at a message that came back about 16 times`,
      );
    return [...moved, ...stopped, ...consumers.flatMap((each) => new Target(each).forbiddenLoop)];
  }

  /** The functions of the app with a mapping of the queue. */
  private consumersIn(all: IConstruct[]): lambda.IFunction[] {
    const { queueArn } = this.source.construct;
    const type = lambda.CfnEventSourceMapping.CFN_RESOURCE_TYPE_NAME;
    const names = all
      .filter((each) => isOfType<lambda.CfnEventSourceMapping>(each, type))
      .filter(({ eventSourceArn }) => eventSourceArn === queueArn)
      .map(({ functionName }) => functionName);
    const functions = all.filter((each): each is lambda.Function => 'permissionsNode' in each);
    return functions.filter(({ functionName }) => names.includes(functionName));
  }

  /** SQS moves a message only when it would be received once more. */
  private warnIfSeenLate({ visibilityTimeout }: sqs.CfnQueue, maxReceiveCount: number): void {
    if (visibilityTimeout === undefined || Token.isUnresolved([visibilityTimeout, maxReceiveCount])) return;
    const late = Duration.seconds(visibilityTimeout * maxReceiveCount);
    if (late.toSeconds() < SEEN_LATE.toSeconds()) return;
    this.warn(
      'seen-late',
      `SQS moves a message only after ${maxReceiveCount} visibility timeouts, so a failure is seen ${late.toHumanString()} ` +
        'late: use little more than a consumer needs for a message',
    );
  }

  private warn(topic: string, what: string): void {
    Annotations.of(this).addWarningV2(`comeback:${topic}`, `${this.source.construct.node.path}: ${what}`);
  }
}
