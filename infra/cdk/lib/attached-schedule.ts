import { Annotations, aws_iam as iam, aws_scheduler as scheduler, Stack, Token } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import type { Faults } from './faults';
import type { RetryQueue } from './queues';
import { changed, checkStack, Receiver } from './receiver';
import { grantedByHand, Senders } from './senders';
import { isOfType } from './target';

type ScheduleTarget = scheduler.CfnSchedule.TargetProperty;

/** A schedule of EventBridge Scheduler, which could not deliver its input to its target at some times. */
export class AttachedSchedule {
  /** The schedule's resource; an imported schedule has none. */
  private readonly resource?: scheduler.CfnSchedule;

  constructor(
    private readonly schedule: scheduler.ISchedule,
    private readonly receiver: Receiver,
  ) {
    const { defaultChild } = schedule.node;
    const type = scheduler.CfnSchedule.CFN_RESOURCE_TYPE_NAME;
    if (isOfType<scheduler.CfnSchedule>(defaultChild, type)) this.resource = defaultChild;
  }

  /** Reports why its undelivered input can't come back. */
  public check(scope: IConstruct, faults: Faults): void {
    const { resource, receiver } = this;
    if (resource === undefined) {
      faults.note(
        "it is imported, and its target can't be changed here: attach it where it is defined, or run comeback attach --schedule NAME",
      );
      return;
    }
    checkStack(resource, scope, faults);
    const { arn, roleArn, deadLetterConfig } = this.targetOf(resource);
    const stack = Stack.of(resource);
    if (JSON.stringify(arn) !== JSON.stringify(stack.resolve(receiver.arn)))
      faults.note(`its target must be ${receiver.path}, got ${JSON.stringify(arn)}`);
    if (deadLetterConfig !== undefined)
      faults.note('it has a dead-letter queue already: leave that out, as the retry queue takes its place');
    if (this.roleOf(resource) === undefined)
      faults.note(
        `its role is not known, got ${JSON.stringify(roleArn)}: Scheduler sends to the retry queue with it, and the queue's ` +
          'policy names who may send. Define the role in this app, or import it by Role.fromRoleArn',
      );
  }

  /** Makes a queue the schedule's dead-letter queue. */
  public sendTo(queue: RetryQueue, senders: Senders): void {
    const { resource } = this;
    const role = resource && this.roleOf(resource);
    if (resource === undefined || role === undefined) return;
    resource.target = changed(resource.target as ScheduleTarget, (target) => ({
      ...target,
      deadLetterConfig: { arn: queue.queueArn },
    }));
    const permission = senders.allow(role, queue);
    resource.node.addDependency(permission, queue.closure);
    const byHand = grantedByHand([permission]);
    if (byHand)
      Annotations.of(senders).addWarningV2(
        'comeback:permission',
        `${this.schedule.node.path}: its role can't be changed here, and Scheduler sends to the retry queue with it: ${byHand}`,
      );
  }

  private targetOf(resource: scheduler.CfnSchedule): ScheduleTarget {
    return Stack.of(resource).resolve(resource.target);
  }

  /** The role of the target, if it is one of this app. */
  private roleOf({ target, node }: scheduler.CfnSchedule): iam.IRole | undefined {
    if (Token.isUnresolved(target)) return undefined;
    const { roleArn } = target as ScheduleTarget;
    const roles = node.root.node.findAll().filter((each): each is iam.Role => 'assumeRoleAction' in each);
    // An imported role that may not be changed wraps one that may, which comes before it.
    return roles.filter((each) => each.roleArn === roleArn).pop();
  }
}
