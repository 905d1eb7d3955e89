import { aws_lambda as lambda, Duration } from 'aws-cdk-lib';
import type { AttachedQueue } from './attached-queue';
import type { Attachment } from './attachment';
import { effectivePolicy } from './effective-policy';
import type { RetryPolicy } from './retry-policy';
import { Retried, Target } from './target';

/** What is attached to an `AsyncRetry` so far. */
export class Attached {
  public readonly attachments: Attachment[] = [];
  public readonly queues: AttachedQueue[] = [];
  private readonly watchers: ((target: Retried) => void)[] = [];

  /** `general` is the policy of all functions and queues. */
  constructor(private readonly general: RetryPolicy) {}

  /** Adds an attachment of a function, of which there may be several. */
  public add(attachment: Attachment): void {
    const isNew = this.of(attachment.target).length === 0;
    this.attachments.push(attachment);
    if (isNew) this.watchers.forEach((watch) => watch(attachment.target.retried));
  }

  public addQueue(attached: AttachedQueue): void {
    this.queues.push(attached);
    this.watchers.forEach((watch) => watch(attached.source));
  }

  /** The attachments of a target's function, whatever their qualifiers. */
  public of(target: Target): Attachment[] {
    return this.attachments.filter((each) => each.target.isSameFunction(target));
  }

  /** Each function once, even if several aliases or versions are attached. */
  public get functions(): lambda.IFunction[] {
    return [...new Map(this.attachments.map(({ target: { base } }) => [base.functionArn, base])).values()];
  }

  /** The functions and queues, each once. */
  public get targets(): Retried[] {
    return [...this.functions.map((each) => new Target(each).retried), ...this.queues.map(({ source }) => source)];
  }

  /** Calls a function with each target, including those that are attached later. */
  public forEachTarget(watch: (target: Retried) => void): void {
    this.targets.forEach(watch);
    this.watchers.push(watch);
  }

  public maxAgeOf({ arn }: Retried): Duration {
    const attached =
      this.attachments.find(({ target }) => target.base.functionArn === arn) ??
      this.queues.find(({ source }) => source.arn === arn);
    return effectivePolicy(this.general, attached?.policy).maxAge;
  }

  /** The maximum ages by which failure records are kept: those of all functions, and of their errors. */
  public get agesOfFunctions(): Duration[] {
    const policies = [undefined, ...this.attachments.map(({ policy }) => policy)];
    return policies.flatMap((own) => {
      const { maxAge, errors = [] } = effectivePolicy(this.general, own);
      return [maxAge, ...[...errors, ...(this.general.errors ?? [])].flatMap((error) => error.maxAge ?? [])];
    });
  }
}
