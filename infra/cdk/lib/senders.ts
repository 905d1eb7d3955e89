import { aws_iam as iam, aws_kms as kms, Stack } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { KEY_ACTIONS } from './handler';
import type { RetryQueue } from './queues';
import type { Records } from './records';
import { ownId } from './target';

/** The policies of one role, and the queues that it may send to. */
interface Sender {
  readonly policy: iam.Policy;
  readonly queues: Set<RetryQueue>;
  /** The policy for the bucket of records, if it may put them there. */
  putting?: iam.Policy;
}

/**
 * The roles of the attached functions. Each role has one policy for queues and one for a bucket, however many functions
 * share it.
 */
export class Senders extends Construct {
  private readonly known = new Map<string, Sender>();

  constructor(
    scope: Construct,
    private readonly key?: kms.IKey,
    private readonly records?: Records,
  ) {
    super(scope, 'Senders');
  }

  /** Lets a role send to a queue. */
  public allow(role: iam.IRole, queue: RetryQueue): iam.Policy {
    const { policy, queues } = this.of(role);
    if (!queues.has(queue)) {
      queues.add(queue);
      queue.allowSend(role.roleArn);
      policy.addStatements(new iam.PolicyStatement({ actions: ['sqs:SendMessage'], resources: [queue.queueArn] }));
    }
    return policy;
  }

  /**
   * Lets a role put records into the bucket. This is a policy of its own, because CloudFormation deletes one
   * that is not needed any more only after the destination has changed.
   */
  public allowPut(role: iam.IRole, records: Records): iam.Policy {
    const sender = this.of(role);
    if (sender.putting === undefined) {
      sender.putting = new iam.Policy(this, `Records-${ownId(role)}`, { statements: records.statements() });
      role.attachInlinePolicy(sender.putting);
    }
    return sender.putting;
  }

  /** Exempts every role of this account, because the function's role is unknown. The role also needs the permission. */
  public allowUnknown(queue: RetryQueue): void {
    const { account, partition } = Stack.of(this);
    const anyRole = `arn:${partition}:iam::${account}:role/*`;
    queue.allowSend(anyRole);
    this.records?.exempt(anyRole);
  }

  private of(role: iam.IRole): Sender {
    const known = this.known.get(role.roleArn);
    if (known) return known;
    // A role whose function uses the bucket no more may still put a record, so this is for all.
    this.records?.exempt(role.roleArn);
    const policy = new iam.Policy(this, ownId(role));
    if (this.key) policy.addStatements(new iam.PolicyStatement({ actions: KEY_ACTIONS, resources: [this.key.keyArn] }));
    role.attachInlinePolicy(policy);
    const added: Sender = { policy, queues: new Set() };
    this.known.set(role.roleArn, added);
    return added;
  }
}

/** What to give a role by hand, if some of its policies can't be attached here. */
export function grantedByHand(policies: iam.Policy[]): string | undefined {
  const missing = policies.flatMap((policy) => {
    const stack = Stack.of(policy);
    const { roles } = policy.node.defaultChild as iam.CfnPolicy;
    return stack.resolve(roles) === undefined ? [JSON.stringify(stack.resolve(policy.document))] : [];
  });
  return missing.length > 0 ? `give it ${missing.join(' and ')}` : undefined;
}
