import { aws_iam as iam, aws_kms as kms, Stack } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { KEY_ACTIONS } from './handler';
import { RetryQueue } from './retry-queue';
import { ownId } from './target';

/** The roles of the attached functions. Each role has one policy, however many functions share it. */
export class Senders extends Construct {
  private readonly policies = new Map<string, iam.Policy>();

  constructor(
    scope: Construct,
    private readonly queues: RetryQueue[],
    private readonly key?: kms.IKey,
  ) {
    super(scope, 'Senders');
  }

  /** Lets a role send to all queues, so that a function that moves to another queue always has the permission. */
  public allow(role: iam.IRole): iam.Policy {
    const known = this.policies.get(role.roleArn);
    if (known) return known;
    const policy = new iam.Policy(this, ownId(role), {
      statements: [
        new iam.PolicyStatement({
          actions: ['sqs:SendMessage'],
          resources: this.queues.map((queue) => queue.queueArn),
        }),
        ...(this.key ? [new iam.PolicyStatement({ actions: KEY_ACTIONS, resources: [this.key.keyArn] })] : []),
      ],
    });
    role.attachInlinePolicy(policy);
    this.policies.set(role.roleArn, policy);
    this.queues.forEach((queue) => queue.letSend(role.roleArn));
    return policy;
  }

  /** Lets every role of this account send, for a function with an unknown role, which also needs the permission. */
  public allowUnknown(): void {
    const { account, partition } = Stack.of(this);
    this.queues.forEach((queue) => queue.letSend(`arn:${partition}:iam::${account}:role/*`));
  }
}
