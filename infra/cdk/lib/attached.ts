import type { Duration } from 'aws-cdk-lib';
import type { AttachedQueue } from './attached-queue';
import type { AttachedRule } from './attached-rule';
import type { Attachment } from './attachment';
import { effectivePolicy } from './effective-policy';
import type { RetryPolicy } from './retry-policy';
import { Retried, Target } from './target';

/** What is attached to an `AsyncRetry` so far. */
export class Attached {
  public readonly attachments: Attachment[] = [];
  public readonly queues: AttachedQueue[] = [];
  public readonly rules: AttachedRule[] = [];
  /** What rules and schedules deliver to, attached or not. */
  private readonly receivers: Retried[] = [];
  private readonly watchers: ((target: Retried) => void)[] = [];

  /** `general` is the policy of all functions and queues. */
  constructor(private readonly general: RetryPolicy) {}

  /** Adds an attachment of a function, of which there may be several. */
  public add(attachment: Attachment): void {
    this.tellIfNew(attachment.target.retried, () => this.attachments.push(attachment));
  }

  public addQueue(attached: AttachedQueue): void {
    this.tellIfNew(attached.source, () => this.queues.push(attached));
  }

  public addReceiver(receiver: Retried): void {
    this.tellIfNew(receiver, () => this.receivers.push(receiver));
  }

  /** The attachments of a target's function, whatever their qualifiers. */
  public of(target: Target): Attachment[] {
    return this.attachments.filter((each) => each.target.isSameFunction(target));
  }

  /** The functions, each once, even if several aliases or versions are attached. */
  public get functions(): Retried[] {
    return this.targets.filter((each) => each.function);
  }

  /** The functions and queues, each once. */
  public get targets(): Retried[] {
    const attached = [
      ...this.attachments.map(({ target }) => target.retried),
      ...this.queues.map(({ source }) => source),
    ];
    return [...new Map([...attached, ...this.receivers].map((each) => [each.arn, each])).values()];
  }

  /** Calls a function with each target, including those that are attached later. */
  public forEachTarget(watch: (target: Retried) => void): void {
    this.targets.forEach(watch);
    this.watchers.push(watch);
  }

  private tellIfNew(target: Retried, add: () => void): void {
    const isNew = !this.targets.some(({ arn }) => arn === target.arn);
    add();
    if (isNew) this.watchers.forEach((watch) => watch(target));
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
