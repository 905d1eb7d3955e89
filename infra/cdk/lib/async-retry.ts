import {
  Annotations,
  aws_cloudwatch as cloudwatch,
  aws_dynamodb as dynamodb,
  aws_events as events,
  aws_iam as iam,
  aws_lambda as lambda,
  aws_s3 as s3,
  aws_scheduler as scheduler,
  aws_sqs as sqs,
  IResource,
  Lazy,
  Stage,
  Token,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { AlarmsProps, RetryAlarms } from './alarms';
import { checkAttachable } from './attachable';
import { Attached } from './attached';
import { AttachedQueue, Source } from './attached-queue';
import { AttachedRule } from './attached-rule';
import { AttachedSchedule } from './attached-schedule';
import { streamsOf } from './attached-stream';
import { Attachment } from './attachment';
import { checkLength, jsonOf, ownPolicies, queueTargets } from './bindings';
import { handlerCode } from './code';
import { RetryDashboard, RetryDashboardProps } from './dashboard';
import { effectivePolicy } from './effective-policy';
import { Faults } from './faults';
import { INVOKE, KEY_ACTIONS, RetryHandler } from './handler';
import { createLedger } from './ledger';
import { MetricMethods } from './metric-methods';
import { metricOf, RetryMetricOptions } from './metrics';
import {
  grantOperating,
  grantReading,
  grantRedriving,
  OperatedSystem,
  principalArnOf,
  warnUnlessGranted,
} from './operators';
import {
  AsyncRetryProps,
  AttachOptions,
  AttachQueueOptions,
  checkProps,
  HANDLER_TIMEOUT,
  MAX_CONCURRENCY,
} from './props';
import {
  DeadLetterQueue,
  EVENT_BRIDGE,
  letServiceUse,
  REDRIVE,
  retentionOf,
  RetryQueue,
  warnOfOwnQueue,
} from './queues';
import { Receiver } from './receiver';
import { daysToKeep, Records } from './records';
import { RetryQueues } from './retry-queues';
import { Senders } from './senders';
import { isEventInvokeConfig, Target } from './target';
import { AlarmSeverity } from './triggers';
import { generalVariables } from './variables';

/**
 * Retries failed asynchronous events of the attached functions, and messages that the consumers of attached queues
 * could not process, with exponential backoff and jitter, until they succeed or are dead-lettered with the reason.
 */
export class AsyncRetry extends MetricMethods {
  /** The retry handler. Settings without a property can be set as its environment variables. */
  public readonly handler: lambda.Function;

  /** The queue of events that were given up. */
  public readonly deadLetterQueue: sqs.IQueue;

  /**
   * The ARN of the retry queue to which a redrive sends all dead letters. If there are several functions or queues
   * with a retry queue each, `grantRedrive` creates it.
   */
  public readonly redriveQueueArn: string;

  /** The table of handled failures, if `ledger` is on. */
  public readonly ledger?: dynamodb.ITable;

  /** The bucket of failure records, if `records` is on or `recordBucket` is set. */
  public readonly recordBucket?: s3.IBucket;

  private readonly props: AsyncRetryProps;
  private readonly retryHandler: RetryHandler;
  private readonly queues: RetryQueues;
  private readonly records?: Records;
  private readonly senders: Senders;
  private readonly attached: Attached;
  private readonly called = new Set<string>();
  private retryAlarms?: RetryAlarms;

  constructor(scope: Construct, id: string, props: AsyncRetryProps = {}) {
    super(scope, id);
    const {
      architecture = lambda.Architecture.ARM_64,
      encryptionKey,
      deletionProtection,
      centralDeadLetterQueue,
    } = props;
    this.props = props;
    checkProps(this, props);
    this.attached = new Attached(props);
    if (props.permissionsBoundary) iam.PermissionsBoundary.of(this).apply(props.permissionsBoundary);

    this.deadLetterQueue =
      props.deadLetterQueue ?? new DeadLetterQueue(this, 'DeadLetterQueue', { encryptionKey, deletionProtection });
    if (props.deadLetterQueue) warnOfOwnQueue(this, props.deadLetterQueue, true);
    if (centralDeadLetterQueue) warnOfOwnQueue(this, centralDeadLetterQueue, false);
    const handler = new RetryHandler(this, 'Handler', {
      ...props,
      architecture,
      code: handlerCode(architecture, props.source),
      environment: {
        DEAD_LETTER_QUEUE_URL: (centralDeadLetterQueue ?? this.deadLetterQueue).queueUrl,
        ...generalVariables(props),
        QUEUE_TARGETS: Lazy.string({ produce: () => jsonOf(this, queueTargets(this.attached, this.queues)) }),
        POLICIES: Lazy.string({ produce: () => jsonOf(this, ownPolicies(props, this.attached)) }),
      },
      timeout: props.handlerTimeout ?? HANDLER_TIMEOUT,
    });
    this.handler = this.retryHandler = handler;
    handler.allow(['sqs:SendMessage'], (centralDeadLetterQueue ?? this.deadLetterQueue).queueArn);
    // The queue may belong to another AsyncRetry.
    if (this.deadLetterQueue instanceof DeadLetterQueue) this.deadLetterQueue.allowSend(handler.roleArn);
    encryptionKey?.grant(handler, ...KEY_ACTIONS);
    // A user's dead-letter queue may have a key of its own.
    for (const own of [props.deadLetterQueue, centralDeadLetterQueue])
      own?.encryptionMasterKey?.grant(handler, ...KEY_ACTIONS);
    if (props.ledger) this.ledger = createLedger(this, handler, props);
    if (props.records || props.recordBucket) {
      const days = () => this.daysOfRecords();
      this.records = new Records(this, { handler, bucket: props.recordBucket, encryptionKey, days });
      this.recordBucket = this.records.bucket;
    }

    this.queues = new RetryQueues(this, {
      handler,
      deadLetterQueue: this.deadLetterQueue,
      isShared: props.sharedQueue ?? false,
      maxConcurrency: props.maxConcurrency ?? MAX_CONCURRENCY,
      pollers: props.pollers,
      deletionProtection,
      encryptionKey,
    });
    this.queues.forEach(() => this.checkConcurrency());
    this.redriveQueueArn = Lazy.string({ produce: () => this.queueForRedrive().queueArn });
    this.senders = new Senders(this, encryptionKey, this.records);
    this.node.addValidation({ validate: () => this.contradictions() });
  }

  /** The retry queues that exist so far. */
  public get retryQueues(): sqs.Queue[] {
    return this.queues.all.map(({ queue }) => queue);
  }

  /**
   * Retries the failed asynchronous events of a function, an alias or a version. Attach the one that callers invoke:
   * Lambda configures each of them separately. If a setting can't be changed on an imported function, a warning at
   * synthesis says what to do.
   */
  public attach(target: lambda.IFunction, options: AttachOptions = {}): void {
    const { records = false, ...policy } = options;
    const { handler, attached } = this;
    const added = new Target(target);
    const to = { scope: this, handler, options: this.props, attached, hasBucket: this.records !== undefined };
    checkAttachable(to, added, policy, records);

    const known = attached.of(added)[0];
    const consumed = known ? known.consumed : this.queues.add(added.retried);
    const attachment = new Attachment(this, {
      target: added,
      policy,
      records: records ? this.records : undefined,
      consumed,
      senders: this.senders,
    });
    attached.add(attachment);
    // The handler invokes the function that the record names, which may be an alias or a version.
    this.allowInvoke(added.base.functionArn, added.ownArns);
    if (known) return;
    this.records?.notify(consumed.queue, consumed.owner?.name);
    this.checkVariables(`attach ${added.path}`);
  }

  /**
   * Retries the messages that the consumers of a standard queue could not process, functions or not: SQS moves them to
   * a retry queue, and the handler sends them back, with the same body and attributes. The queue must belong to this
   * app and must not have a dead-letter queue.
   */
  public attachQueue(queue: sqs.IQueue, options: AttachQueueOptions = {}): void {
    const { maxReceiveCount = 1, consumers = [], ...policy } = options;
    const source = new Source(queue);
    const faults = new Faults();
    if (this.attached.queues.some((each) => each.source.construct === queue)) faults.note('it is attached already');
    else source.check(this, effectivePolicy(this.props, policy), options, faults);
    faults.throwIfAny(`AsyncRetry ${this.node.path} can't attach ${queue.node.path}`);

    // SQS leaves a message that it moves encrypted with the key of its source.
    this.retryHandler.allowSend(source);
    const attached = new AttachedQueue(this, {
      source,
      policy,
      maxReceiveCount,
      consumers,
      retryQueue: this.queues.add(source).queue,
    });
    this.attached.addQueue(attached);
    this.retryAlarms?.watchConsumers(consumers);
    this.checkVariables(`attach ${queue.node.path}`);
  }

  /**
   * Delivers events that EventBridge could not deliver to one target of a rule: a function, an alias, a version or a
   * standard queue, attached or not. It must be a target of the rule already, without an input of its own.
   */
  public attachRule(rule: events.IRule, target: IResource): void {
    const { receiver, faults } = this.receiverOf(target);
    const isMoved = () => this.attached.queues.some(({ source }) => source.arn === receiver?.retried.arn);
    const attached = receiver && new AttachedRule(rule, receiver, isMoved);
    attached?.check(this, faults);
    faults.throwIfAny(`AsyncRetry ${this.node.path} can't attach ${rule.node.path}`);
    if (attached === undefined || receiver === undefined) return;
    this.letEventBridgeSend();
    attached.sendTo(this.queueFor(receiver, rule.node.path));
    this.attached.rules.push(attached);
  }

  /**
   * Delivers what EventBridge Scheduler could not deliver to the target of a schedule: a function, an alias, a version or
   * a standard queue, attached or not. The schedule's role is allowed to send to the retry queue.
   */
  public attachSchedule(schedule: scheduler.ISchedule, target: IResource): void {
    const { receiver, faults } = this.receiverOf(target);
    const attached = receiver && new AttachedSchedule(schedule, receiver);
    attached?.check(this, faults);
    faults.throwIfAny(`AsyncRetry ${this.node.path} can't attach ${schedule.node.path}`);
    if (attached && receiver) attached.sendTo(this.queueFor(receiver, schedule.node.path), this.senders);
  }

  /**
   * Retries the batches of a Kinesis stream, a DynamoDB stream or a Kafka topic that an attached function could not
   * process: they come back as events of this function, without the order of the stream. The function needs a mapping of
   * the source, and the construct a bucket of records.
   */
  public attachStream(target: lambda.IFunction, eventSourceArn: string): void {
    const wanted = new Target(target);
    const { records } = this;
    const attachment = this.attached.of(wanted).find((each) => each.target.isSame(wanted));
    const streams = streamsOf(this, wanted, eventSourceArn);
    const faults = new Faults();
    if (attachment === undefined) faults.note('attach the function first, because its batches come back as its events');
    if (records === undefined)
      faults.note('set records to true, or recordBucket: no other destination gets what is in a batch');
    if (streams.length === 0) faults.note('the function must have a mapping of it, got none');
    for (const each of streams) each.check(this, attachment, faults);
    faults.throwIfAny(`AsyncRetry ${this.node.path} can't attach a stream of ${wanted.path}`);
    if (attachment === undefined || records === undefined) return;
    this.letEventBridgeSend();
    for (const each of streams) each.attach(attachment, records, this.senders);
  }

  /** The queue for the failed events of an attached function. Functions may share one. */
  public retryQueueOf(target: lambda.IFunction): sqs.Queue {
    const wanted = new Target(target);
    const [known] = this.attached.of(wanted);
    if (known) return known.consumed.queue;
    throw new Error(`AsyncRetry ${this.node.path} has no retry queue of ${wanted.path}: attach it first`);
  }

  /**
   * Creates an alarm for each condition that needs a person, for all functions, including those that are attached
   * later. Each alarm's description says what to do. Returns the alarms that exist so far.
   */
  public alarms(props: AlarmsProps = {}): cloudwatch.Alarm[] {
    this.checkFirst('alarms()');
    const alarms = new RetryAlarms(this, props, this.props);
    this.queues.forEach(({ queue }) => alarms.watchQueue(queue));
    this.attached.forEachTarget((each) => alarms.watchTarget(each, this.attached.maxAgeOf(each)));
    this.attached.queues.forEach(({ consumers }) => alarms.watchConsumers(consumers));
    this.retryAlarms = alarms;
    // A ticket is enough, because HandlerErrors pages for the same failures.
    const { deploymentErrors } = this.retryHandler;
    if (deploymentErrors) alarms.act(deploymentErrors, AlarmSeverity.TICKET);
    return alarms.all;
  }

  /** Creates a dashboard of all functions, including those that are attached later. */
  public dashboard(props: RetryDashboardProps = {}): cloudwatch.Dashboard {
    this.checkFirst('dashboard()');
    const dashboard = new RetryDashboard(this, props, this.props);
    this.queues.forEach(({ queue, owner }) => dashboard.showQueue(queue, owner));
    this.attached.forEachTarget((each) => dashboard.show(each, this.attached.maxAgeOf(each)));
    return dashboard.dashboard;
  }

  /**
   * Lets a role or a user look at dead letters, delete them, and send them back with SQS's redrive, which nobody else
   * may start. The redrive needs `redriveQueueArn` as its custom destination, because SQS doesn't know where dead
   * letters came from. Import a role of IAM Identity Center with `mutable: false`, and give it the same permissions
   * there.
   */
  public grantRedrive(grantee: iam.IGrantable): iam.Grant {
    const principalArn = principalArnOf(this, grantee, 'grantRedrive');
    const grant = grantRedriving(this.operatedSystem(), grantee, principalArn);
    this.checkVariables('have a queue for redrives');
    return warnUnlessGranted(
      this,
      grant,
      'redrive',
      `${principalArn} can't be given permissions here: give it ${REDRIVE.join(', ')} on the dead-letter ` +
        'queue, and sqs:SendMessage on the retry queues',
    );
  }

  /**
   * Lets a role or a user see the data of `comeback status`, `doctor` and `trace`: settings, counts, waiting events,
   * metrics and logs. Readers can't receive messages, but the logs of functions may have payloads.
   */
  public grantRead(grantee: iam.IGrantable): iam.Grant {
    return this.warnUnlessOperator('grantRead', grantee, grantReading(this.operatedSystem(), grantee));
  }

  /**
   * Lets a role or a user retry waiting events now, cancel them, pause functions, and send dead letters back one by
   * one. It includes all permissions of `grantRead`. Import a role of IAM Identity Center with `mutable: false`, and
   * give it the same permissions there.
   */
  public grantOperate(grantee: iam.IGrantable): iam.Grant {
    const principalArn = principalArnOf(this, grantee, 'grantOperate');
    const grant = grantOperating(this.operatedSystem(), grantee, principalArn);
    return this.warnUnlessOperator('grantOperate', grantee, grant);
  }

  /** @internal */
  protected _metric(name: string, options: RetryMetricOptions): cloudwatch.IMetric {
    const { target, queue, ...others } = options;
    // The handler's metrics name functions without alias or version.
    const arn = queue ? new Source(queue).arn : target && new Target(target).base.functionArn;
    const all = this.attached.targets.filter((each) => arn === undefined || each.arn === arn);
    if (all.length === 0) {
      throw new Error(
        `AsyncRetry ${this.node.path} has no metric ${name} of ${(queue ?? target)?.node.path ?? 'its functions'}: attach first`,
      );
    }
    return metricOf(
      name,
      all.map((each) => each.name),
      others,
    );
  }

  /** Lets EventBridge use the key of the retry queues. */
  private letEventBridgeSend(): void {
    const { encryptionKey, recordBucket } = this.props;
    // Without a bucket of the user's, nothing else needs it.
    if (encryptionKey && !recordBucket && !this.called.has(EVENT_BRIDGE))
      letServiceUse(this, encryptionKey, EVENT_BRIDGE);
    this.called.add(EVENT_BRIDGE);
  }

  /** What a rule or a schedule delivers to, and the faults that were found in it. */
  private receiverOf(target: IResource): { receiver?: Receiver; faults: Faults } {
    const faults = new Faults();
    const receiver = Receiver.of(target, this, faults);
    if (receiver?.retried.arn === this.handler.functionArn) faults.note('its target is the retry handler itself');
    return { receiver, faults };
  }

  /** Returns the retry queue of what a rule or a schedule delivers to, to which the handler may deliver again. */
  private queueFor(receiver: Receiver, path: string): RetryQueue {
    const { retried } = receiver;
    const { queue } = this.queues.add(retried);
    if (receiver.source) this.retryHandler.allowSend(receiver.source);
    else this.allowInvoke(retried.arn, receiver.invoked);
    this.attached.addReceiver(retried);
    this.checkVariables(`attach ${path}`);
    return queue;
  }

  /** Lets the handler invoke a function, which a failure may name with a version or an alias of it. */
  private allowInvoke(functionArn: string, attached: string[]): void {
    const { onlyAttachedQualifiers } = this.props;
    this.retryHandler.allowOnce(INVOKE, onlyAttachedQualifiers ? attached : [functionArn, `${functionArn}:*`]);
  }

  private warnUnlessOperator(call: string, { grantPrincipal }: iam.IGrantable, grant: iam.Grant): iam.Grant {
    return warnUnlessGranted(
      this,
      grant,
      call,
      `${grantPrincipal} can't be given permissions here: give it those of ${call}, which docs/deploy/cdk-operations.md lists`,
    );
  }

  /** The parts of the system that grants for people need. */
  private operatedSystem(): OperatedSystem {
    return {
      retry: this,
      options: this.props,
      queues: this.queues,
      records: this.records,
      forEachTarget: (watch) => this.attached.forEachTarget(watch),
    };
  }

  /** How long records are kept, in days, by the policies of all functions so far. */
  private daysOfRecords(): number {
    const { centralDeadLetterQueue: central } = this.props;
    const retentions = [this.deadLetterQueue, ...(central ? [central] : [])].map(retentionOf);
    return daysToKeep(this.attached.agesOfFunctions, retentions);
  }

  private checkVariables(plan: string): void {
    const { props: options, attached, queues, records } = this;
    checkLength(this, { options, attached, queues, records }, plan);
  }

  /** Warns if the queues together could use up the handler's reserved concurrency. */
  private checkConcurrency(): void {
    const { maxConcurrency = MAX_CONCURRENCY, reservedConcurrency = Infinity, pollers } = this.props;
    if (pollers || Token.isUnresolved([maxConcurrency, reservedConcurrency])) return;
    if (this.queues.all.length * maxConcurrency > reservedConcurrency) {
      Annotations.of(this).addWarningV2(
        'comeback:concurrency',
        `reservedConcurrency, ${reservedConcurrency}, is less than the maxConcurrency of all retry queues together, so ` +
          'the handler is throttled when several functions are down',
      );
    }
  }

  private queueForRedrive(): RetryQueue {
    const queue = this.queues.forRedrive;
    if (queue) return queue;
    throw new Error(
      `AsyncRetry ${this.node.path} has no redriveQueueArn: ` +
        (this.queues.all.length === 0 ? 'attach a function first' : 'call grantRedrive for those who may redrive'),
    );
  }

  private contradictions(): string[] {
    const all = (Stage.of(this) ?? this).node.findAll();
    const configs = all.filter(isEventInvokeConfig);
    const recordless =
      this.records && this.attached.attachments.length === 0 && this.attached.queues.length > 0
        ? [`${this.node.path} must have no records: it retries queues only, whose messages have no failure records`]
        : [];
    return [
      ...recordless,
      ...this.attached.attachments.flatMap((each) => each.contradictions(configs)),
      ...this.attached.queues.flatMap((each) => each.contradictions(all)),
      ...this.attached.rules.flatMap((each) => each.contradictions()),
    ];
  }

  private checkFirst(call: string): void {
    if (this.called.has(call)) throw new Error(`AsyncRetry ${this.node.path}: ${call} was called before`);
    this.called.add(call);
  }
}
