import { ArnFormat, aws_events as events, Stack, Token } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import type { Faults } from './faults';
import { EVENT_BRIDGE, RetryQueue } from './queues';
import { changed, checkStack, Receiver } from './receiver';
import { isOfType } from './target';

/** What gives a target something else than the event. The dead letter has the event as it was before. */
const TRANSFORMS = ['input', 'inputPath', 'inputTransformer'] as const;

type RuleTarget = events.CfnRule.TargetProperty;

/** A rule of EventBridge and its target, to which it could not deliver some events. */
export class AttachedRule {
  /** The rule's resource; an imported rule has none. */
  private readonly resource?: events.CfnRule;

  /** `isMovedFrom` tells whether the retry queue also takes what SQS moves from the target. */
  constructor(
    private readonly rule: events.IRule,
    private readonly receiver: Receiver,
    private readonly isMovedFrom: () => boolean,
  ) {
    const { defaultChild } = rule.node;
    if (isOfType<events.CfnRule>(defaultChild, events.CfnRule.CFN_RESOURCE_TYPE_NAME)) this.resource = defaultChild;
  }

  /** Reports why its undelivered events can't come back. */
  public check(scope: IConstruct, faults: Faults): void {
    const { resource, receiver } = this;
    if (resource === undefined) {
      faults.note(
        "it is imported, and its targets can't be changed here: attach it where it is defined, or run comeback attach --rule NAME",
      );
      return;
    }
    checkStack(resource, scope, faults);
    const ours = this.ours(resource);
    if (ours.length === 0) faults.note(`${receiver.path} must be one of its targets: add it first`);
    this.transformed(ours).forEach((each) => faults.note(each));
    for (const { id } of ours.filter(({ deadLetterConfig }) => deadLetterConfig !== undefined)) {
      faults.note(`its ${id} has a dead-letter queue already: leave that out, as the retry queue takes its place`);
    }
  }

  /** Makes a queue the target's dead-letter queue. */
  public sendTo(queue: RetryQueue): void {
    const { resource } = this;
    if (resource === undefined) return;
    const deadLetterConfig = { arn: queue.queueArn };
    resource.targets = changed(resource.targets as RuleTarget[] | undefined, (targets) =>
      targets.map((each) => (this.isOurs(each) ? { ...each, deadLetterConfig } : each)),
    );
    queue.allowService(EVENT_BRIDGE, this.knownArn ?? resource.attrArn);
    if (this.knownArn) resource.node.addDependency(queue.closure);
  }

  /** Other settings in the app that contradict this. */
  public contradictions(): string[] {
    const { rule, resource, receiver } = this;
    if (resource === undefined) return [];
    const nameless =
      this.isMovedFrom() && this.knownArn === undefined
        ? [
            `must have a ruleName, or ${receiver.path} must not be attached: SQS moves what its consumers could not process to the ` +
              'same retry queue, so the rule needs the queue, the queue its retry queue, and that the ARN of the rule',
          ]
        : [];
    return [...nameless, ...this.transformed(this.ours(resource))].map((each) => `${rule.node.path}: ${each}`);
  }

  /** The ARN, if it is known before the rule exists: only CloudFormation knows the names that it generates. */
  private get knownArn(): string | undefined {
    const { resource } = this;
    const stack = Stack.of(this.rule);
    if (resource === undefined || stack.resolve(resource.name) === undefined) return undefined;
    const { name, eventBusName: bus = 'default' } = resource;
    // A bus may be named by its ARN.
    const busName = Token.isUnresolved(bus) ? bus : bus.split('/').slice(-1)[0];
    const resourceName = busName === 'default' ? name : `${busName}/${name}`;
    const arnFormat = ArnFormat.SLASH_RESOURCE_NAME;
    return stack.formatArn({ service: 'events', resource: 'rule', resourceName, arnFormat });
  }

  /** The rule's targets that deliver to the receiver, so far. */
  private ours(resource: events.CfnRule): RuleTarget[] {
    const targets: RuleTarget[] = Stack.of(this.rule).resolve(resource.targets) ?? [];
    return targets.filter((each) => this.isOurs(each));
  }

  private isOurs({ arn }: RuleTarget): boolean {
    return JSON.stringify(arn) === JSON.stringify(Stack.of(this.rule).resolve(this.receiver.arn));
  }

  private transformed(targets: RuleTarget[]): string[] {
    return targets.flatMap((target) =>
      TRANSFORMS.filter((property) => target[property] !== undefined).map(
        (property) =>
          `its ${target.id} must have no ${property}: its dead letters have the event from before that, so a retry would give ` +
          `${this.receiver.path} something else, got ${JSON.stringify(target[property])}`,
      ),
    );
  }
}
