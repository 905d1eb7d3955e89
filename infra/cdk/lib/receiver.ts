import { aws_lambda as lambda, aws_sqs as sqs, IResolvable, IResource, Lazy, Stack } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import { Source } from './attached-queue';
import type { Faults } from './faults';
import { ClosedQueue } from './queues';
import { checkHome, Retried, Target } from './target';

/** What a rule or a schedule delivers events to: a function, an alias or a version of it, or a queue. */
export class Receiver {
  public readonly retried: Retried;
  /** The ARN by which it is named as a target. */
  public readonly arn: string;
  /** The ARNs that the handler must be able to invoke, if it is a function. */
  public readonly invoked: string[];
  /** The queue, if it is one. */
  public readonly source?: Source;

  private constructor(
    public readonly path: string,
    receiver: Target | Source,
  ) {
    if (receiver instanceof Target) {
      this.retried = receiver.retried;
      this.arn = receiver.attached.functionArn;
      this.invoked = receiver.ownArns;
    } else {
      this.retried = receiver;
      this.arn = receiver.construct.queueArn;
      this.invoked = [];
      this.source = receiver;
    }
  }

  /** Returns what a resource receives as, or reports why nothing can be delivered to it again. */
  public static of(resource: IResource, scope: IConstruct, faults: Faults): Receiver | undefined {
    const { path } = resource.node;
    // `instanceof` would fail with several copies of the CDK.
    if ('functionArn' in resource) {
      const target = new Target(resource as lambda.IFunction);
      target.checkHome(scope, faults);
      return new Receiver(path, target);
    }
    if ('queueArn' in resource) {
      const queue = resource as sqs.IQueue;
      checkHome('its target', queue, scope, faults);
      if (queue.fifo) faults.note(`its target ${path} is a FIFO queue: a backoff would break its order`);
      if (queue instanceof ClosedQueue)
        faults.note(`its target ${path} is a retry queue or a dead-letter queue itself`);
      return new Receiver(path, new Source(queue));
    }
    faults.note(
      `its target must be a function or a standard queue, got ${path}: the handler can deliver to nothing else`,
    );
    return undefined;
  }
}

/** Reports a rule or a schedule whose dead-letter queue can't be in its stack. */
export function checkStack(delivering: IConstruct, scope: IConstruct, faults: Faults): void {
  const [there, here] = [delivering, scope].map((each) => Stack.of(each));
  if (there !== here)
    faults.note(
      `it must be in the stack of its retries, ${here.stackName}, and is in ${there.stackName}: it names its retry queue, ` +
        'whose policy names it, so each stack would need the other first',
    );
}

/** A property of a resource with a change that is made at synthesis, so that what is set later has it, too. */
export function changed<T>(property: T | IResolvable | undefined, change: (resolved: T) => T): IResolvable {
  return Lazy.uncachedAny({ produce: (context) => change(context.resolve(property) as T) });
}
