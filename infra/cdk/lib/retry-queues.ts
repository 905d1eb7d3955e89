import { aws_iam as iam, aws_lambda as lambda, aws_sqs as sqs } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { ClosedQueueProps, RetryQueue } from './queues';
import { Polling, RetryHandler } from './handler';
import { ownId, Retried } from './target';

/** A retry queue, and the mapping that receives from it. */
export interface ConsumedQueue {
  readonly queue: RetryQueue;
  readonly mapping: lambda.EventSourceMapping;
  /** The only function that its messages may name, or queue that they go back to. Without one, all that is attached. */
  readonly owner?: Retried;
}

export interface RetryQueuesProps extends ClosedQueueProps, Polling {
  readonly handler: RetryHandler;
  readonly deadLetterQueue: sqs.IQueue;
  readonly isShared: boolean;
}

/** A principal that may redrive. */
interface Redriver {
  readonly grantee: iam.IGrantable;
  readonly principalArn: string;
}

/**
 * The retry queues of one handler: one for each function, or one for all, and one for each attached queue. SQS's
 * redrive sends all dead letters to one queue, so redrives have a separate queue if there are several.
 */
export class RetryQueues {
  public readonly all: ConsumedQueue[] = [];
  private readonly redrivers: Redriver[] = [];
  private readonly watchers: ((added: ConsumedQueue) => void)[] = [];

  constructor(
    private readonly scope: Construct,
    private readonly props: RetryQueuesProps,
  ) {
    if (props.isShared) this.create('RetryQueue');
  }

  /** Returns the retry queue of a target, and creates it unless it has one, or all functions share one. */
  public add(attached: Retried): ConsumedQueue {
    if (this.props.isShared && attached.function) return this.all[0];
    const known = this.all.find(({ owner }) => owner?.arn === attached.arn);
    if (known) return known;
    const added = this.create(`RetryQueue-${ownId(attached.construct)}`, attached);
    this.createForRedrive();
    return added;
  }

  /** Lets a principal send to all queues, including those that are added later. */
  public grantRedrive(redriver: Redriver): iam.Grant[] {
    this.redrivers.push(redriver);
    const grants = this.all.map(({ queue }) => allowSend(queue, redriver));
    this.createForRedrive();
    return grants;
  }

  /** The queue that accepts all dead letters, if there is one so far. */
  public get forRedrive(): RetryQueue | undefined {
    const common = this.all.find(({ owner }) => owner === undefined);
    return (common ?? (this.all.length === 1 ? this.all[0] : undefined))?.queue;
  }

  /** Calls a function with every queue, including those that are added later. */
  public forEach(watch: (queue: ConsumedQueue) => void): void {
    this.all.forEach(watch);
    this.watchers.push(watch);
  }

  private createForRedrive(): void {
    if (this.redrivers.length > 0 && this.all.length > 1 && this.forRedrive === undefined) this.create('RedriveQueue');
  }

  private create(id: string, owner?: Retried): ConsumedQueue {
    const { handler } = this.props;
    const queue = new RetryQueue(this.scope, id, {
      ...this.props,
      handlerRoleArn: handler.roleArn,
      visibilityTimeout: handler.visibilityTimeout,
    });
    const created = { queue, mapping: handler.consume(queue, this.props), owner };
    this.all.push(created);
    this.redrivers.forEach((each) => allowSend(queue, each));
    this.watchers.forEach((watch) => watch(created));
    return created;
  }
}

/** SQS moves messages with the permissions of the principal that starts the redrive. */
function allowSend(queue: RetryQueue, { grantee, principalArn }: Redriver): iam.Grant {
  queue.allowSend(principalArn);
  return iam.Grant.addToPrincipal({ grantee, actions: ['sqs:SendMessage'], resourceArns: [queue.queueArn] });
}
