import { aws_iam as iam, aws_kms as kms, Stack } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { KEY_ACTIONS } from './handler';
import { RetryQueue } from './retry-queue';
import { ownId } from './target';

/** The policy of one role, and the queues that the role may send to. */
interface Sender {
  readonly policy: iam.Policy;
  readonly queues: Set<RetryQueue>;
}

/** The roles of the attached functions. Each role has one policy, however many functions share it. */
export class Senders extends Construct {
  private readonly known = new Map<string, Sender>();

  constructor(
    scope: Construct,
    private readonly key?: kms.IKey,
  ) {
    super(scope, 'Senders');
  }

  /** Lets a role send to a queue. */
  public allow(role: iam.IRole, queue: RetryQueue): iam.Policy {
    const { policy, queues } = this.known.get(role.roleArn) ?? this.add(role);
    if (!queues.has(queue)) {
      queues.add(queue);
      queue.allowSend(role.roleArn);
      policy.addStatements(new iam.PolicyStatement({ actions: ['sqs:SendMessage'], resources: [queue.queueArn] }));
    }
    return policy;
  }

  /** Exempts every role of this account, because the function's role is unknown. The role also needs the permission. */
  public allowUnknown(queue: RetryQueue): void {
    const { account, partition } = Stack.of(this);
    queue.allowSend(`arn:${partition}:iam::${account}:role/*`);
  }

  private add(role: iam.IRole): Sender {
    const policy = new iam.Policy(this, ownId(role));
    if (this.key) policy.addStatements(new iam.PolicyStatement({ actions: KEY_ACTIONS, resources: [this.key.keyArn] }));
    role.attachInlinePolicy(policy);
    const added = { policy, queues: new Set<RetryQueue>() };
    this.known.set(role.roleArn, added);
    return added;
  }
}
