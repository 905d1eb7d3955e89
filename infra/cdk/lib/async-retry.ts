import {
  Annotations,
  aws_cloudwatch as cloudwatch,
  aws_dynamodb as dynamodb,
  aws_iam as iam,
  aws_lambda as lambda,
  aws_s3 as s3,
  aws_sqs as sqs,
  Duration,
  Lazy,
  Stack,
  Stage,
  Token,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { AlarmsProps, RetryAlarms } from './alarms';
import { AttachedQueue, Source } from './attached-queue';
import { Attachment, checkAttachable, Senders } from './attachment';
import { handlerCode } from './code';
import { RetryDashboard, RetryDashboardProps } from './dashboard';
import { DeadLetterQueue, REDRIVE, retentionOf, RetryQueue, warnOfOwnQueue } from './queues';
import { Faults } from './faults';
import { estimatedLength, INVOKE, KEY_ACTIONS, RetryHandler, VARIABLES_MAX } from './handler';
import { createLedger } from './ledger';
import { metricOf, RetryMetricOptions } from './metrics';
import { grantOperating, grantReading, OperatedSystem } from './operators';
import {
  AsyncRetryProps,
  AttachOptions,
  AttachQueueOptions,
  checkProps,
  HANDLER_TIMEOUT,
  MAX_CONCURRENCY,
  SHARING_MAX,
} from './props';
import { daysToKeep, Records } from './records';
import {
  checkPolicy,
  effectivePolicy,
  errorsOf,
  generalVariables,
  RetryPolicy,
  Variables,
  variables,
} from './retry-policy';
import { RetryQueues } from './retry-queues';
import { isEventInvokeConfig, Retried, Target } from './target';
import { AlarmSeverity } from './triggers';

/**
 * Retries failed asynchronous events of the attached functions, and messages that the consumers of attached queues
 * could not process, with exponential backoff and jitter, until they succeed or are dead-lettered with the reason.
 */
export class AsyncRetry extends Construct {
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
  private readonly attachments: Attachment[] = [];
  private readonly attachedQueues: AttachedQueue[] = [];
  private readonly called = new Set<string>();
  private readonly watchers: ((attached: Retried) => void)[] = [];
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
        QUEUE_TARGETS: Lazy.string({ produce: () => this.json(this.queueTargets()) }),
        POLICIES: Lazy.string({ produce: () => this.json(this.ownPolicies()) }),
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
    const attached = new Target(target);
    this.checkAttach(attached, policy, records);

    const known = this.attachments.find((each) => each.target.isSameFunction(attached));
    const consumed = known ? known.consumed : this.queues.add(retriedBy(attached));
    const attachment = new Attachment(this, {
      target: attached,
      policy,
      records: records ? this.records : undefined,
      consumed,
      senders: this.senders,
    });
    this.attachments.push(attachment);
    if (this.props.onlyAttachedQualifiers) this.retryHandler.allow(INVOKE, ...attached.ownArns);
    if (known) return;
    // The handler invokes the function that the record names, which may be an alias or a version.
    const { functionArn } = attached.base;
    if (!this.props.onlyAttachedQualifiers) this.retryHandler.allow(INVOKE, functionArn, `${functionArn}:*`);
    this.watchers.forEach((watch) => watch(retriedBy(attached)));
    this.records?.notify(consumed.queue, consumed.owner?.name);
    this.checkVariables(`attach ${attached.path}`);
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
    if (this.attachedQueues.some((each) => each.source.construct === queue)) faults.note('it is attached already');
    else source.check(this, effectivePolicy(this.props, policy), options, faults);
    faults.throwIfAny(`AsyncRetry ${this.node.path} can't attach ${queue.node.path}`);

    this.retryHandler.allow(['sqs:SendMessage'], source.arn);
    // SQS leaves a message that it moves encrypted with the key of its source.
    const granted = queue.encryptionMasterKey?.grant(this.retryHandler, ...KEY_ACTIONS);
    if (granted?.success === false) {
      Annotations.of(this).addWarningV2(
        'comeback:source-key',
        `${queue.node.path}: let the handler's role ${KEY_ACTIONS.join(', ')} with its key, which is only known by an alias`,
      );
    }
    const attached = new AttachedQueue(this, {
      source,
      policy,
      maxReceiveCount,
      consumers,
      retryQueue: this.queues.add(source).queue,
    });
    this.attachedQueues.push(attached);
    this.watchers.forEach((watch) => watch(source));
    this.retryAlarms?.watchConsumers(consumers);
    this.checkVariables(`attach ${queue.node.path}`);
  }

  /** The queue for the failed events of an attached function. Functions may share one. */
  public retryQueueOf(target: lambda.IFunction): sqs.Queue {
    const attached = new Target(target);
    const known = this.attachments.find((each) => each.target.isSameFunction(attached));
    if (known) return known.consumed.queue;
    throw new Error(`AsyncRetry ${this.node.path} has no retry queue of ${attached.path}: attach it first`);
  }

  /**
   * Creates an alarm for each condition that needs a person, for all functions, including those that are attached
   * later. Each alarm's description says what to do. Returns the alarms that exist so far.
   */
  public alarms(props: AlarmsProps = {}): cloudwatch.Alarm[] {
    this.checkFirst('alarms()');
    const alarms = new RetryAlarms(this, props, this.props);
    this.queues.forEach(({ queue }) => alarms.watchQueue(queue));
    this.forEachTarget((each) => alarms.watchTarget(each, this.maxAgeOf(each)));
    this.attachedQueues.forEach(({ consumers }) => alarms.watchConsumers(consumers));
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
    this.forEachTarget((each) => dashboard.show(each, this.maxAgeOf(each)));
    return dashboard.dashboard;
  }

  /**
   * Lets a role or a user look at dead letters, delete them, and send them back with SQS's redrive, which nobody else
   * may start. The redrive needs `redriveQueueArn` as its custom destination, because SQS doesn't know where dead
   * letters came from. Import a role of IAM Identity Center with `mutable: false`, and give it the same permissions
   * there.
   */
  public grantRedrive(grantee: iam.IGrantable): iam.Grant {
    const principalArn = this.principalArnOf(grantee, 'grantRedrive');
    if (this.deadLetterQueue instanceof DeadLetterQueue) this.deadLetterQueue.allowReceive(principalArn);
    for (const key of [this.props.encryptionKey, this.props.deadLetterQueue?.encryptionMasterKey])
      key?.grant(grantee, ...KEY_ACTIONS);
    this.records?.grantRead(grantee, principalArn);
    const ofDeadLetters = iam.Grant.addToPrincipal({
      grantee,
      actions: REDRIVE,
      resourceArns: [this.deadLetterQueue.queueArn],
    });
    const grant = this.queues
      .grantRedrive({ grantee, principalArn })
      .reduce((all, each) => all.combine(each), ofDeadLetters);
    this.checkVariables('have a queue for redrives');
    if (!grant.success) {
      Annotations.of(this).addWarningV2(
        'comeback:redrive',
        `${principalArn} can't be given permissions here: give it ${REDRIVE.join(', ')} on the dead-letter ` +
          'queue, and sqs:SendMessage on the retry queues',
      );
    }
    return grant;
  }

  /**
   * Lets a role or a user see the data of `comeback status`, `doctor` and `trace`: settings, counts, waiting events,
   * metrics and logs. Readers can't receive messages, but the logs of functions may have payloads.
   */
  public grantRead(grantee: iam.IGrantable): iam.Grant {
    return this.warnUnlessGranted('grantRead', grantee, grantReading(this.operatedSystem(), grantee));
  }

  /**
   * Lets a role or a user retry waiting events now, cancel them, pause functions, and send dead letters back one by
   * one. It includes all permissions of `grantRead`. Import a role of IAM Identity Center with `mutable: false`, and
   * give it the same permissions there.
   */
  public grantOperate(grantee: iam.IGrantable): iam.Grant {
    const principalArn = this.principalArnOf(grantee, 'grantOperate');
    return this.warnUnlessGranted(
      'grantOperate',
      grantee,
      grantOperating(this.operatedSystem(), grantee, principalArn),
    );
  }

  // generated: methods, by infra/contract/generate.py
  /** Events that were put back until they are due. By default the sum. */
  public metricWaited(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('Waited', options);
  }

  /** Retries that Lambda accepted. By default the sum. */
  public metricInvoked(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('Invoked', options);
  }

  /** How long after its due time each retry was accepted, in milliseconds. By default the 99th percentile. */
  public metricInvokeLateness(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('InvokeLateness', options);
  }

  /** The time since the first failure, of each event that was handled, in seconds. By default the maximum. */
  public metricEventAge(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('EventAge', options);
  }

  /** Events that were given up, by `Target` and `Reason`. By default the sum. */
  public metricDeadLettered(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('DeadLettered', options);
  }

  /** Given-up events whose dead letter can't be sent. By default the sum. */
  public metricDeadLettersNotSent(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('DeadLettersNotSent', options);
  }

  /**
   * Retries, and reads of records in buckets, that AWS throttled or answered with a server error (5xx). By default the
   * sum.
   */
  public metricThrottled(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('Throttled', options);
  }

  /**
   * Retries, and reads of records in buckets, that AWS refuses until somebody changes something. By default the sum.
   */
  public metricConfigurationFaults(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('ConfigurationFaults', options);
  }

  /** Failures that were delivered again and dropped; needs a ledger. By default the sum. */
  public metricDuplicates(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('Duplicates', options);
  }

  /** Events for which the ledger could not be used. By default the sum. */
  public metricLedgerFaults(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('LedgerFaults', options);
  }

  /** 1 while the target is down, 0 otherwise, whenever its circuit is read; needs probes. By default the maximum. */
  public metricCircuitOpen(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('CircuitOpen', options);
  }

  /** Retries that test whether the target has recovered; needs probes. By default the sum. */
  public metricProbes(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('Probes', options);
  }

  /** Waiting events brought forward when the target recovered; needs probes and a register. By default the sum. */
  public metricBroughtForward(options: RetryMetricOptions = {}): cloudwatch.IMetric {
    return this.metric('BroughtForward', options);
  }
  // end: methods

  private metric(name: string, options: RetryMetricOptions): cloudwatch.IMetric {
    const { target, queue, ...others } = options;
    // The handler's metrics name functions without alias or version.
    const arn = queue ? new Source(queue).arn : target && new Target(target).base.functionArn;
    const all = this.retried().filter((each) => arn === undefined || each.arn === arn);
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

  private checkAttach(target: Target, policy: RetryPolicy, records: boolean): void {
    const faults = new Faults();
    const ofFunction = this.attachments.filter((each) => each.target.isSameFunction(target));
    const written = (own: RetryPolicy) => JSON.stringify(Stack.of(this).resolve(variables(own)));
    if (ofFunction.some((each) => each.target.isSame(target))) {
      faults.note('it is attached already');
    } else if (target.base === this.handler) {
      faults.note('it is the retry handler itself');
    } else {
      if (ofFunction.some((each) => written(each.policy) !== written(policy))) {
        faults.note(
          "its policy must be that of the function's other attachments: the handler knows functions only by name, without alias or version",
        );
      }
      if (this.props.sharedQueue && this.functions().length >= SHARING_MAX && ofFunction.length === 0) {
        faults.note(
          `${SHARING_MAX} functions share the queue, and its policy has no room for more roles: make another AsyncRetry`,
        );
      }
      target.checkHome(this, faults);
      const effective = effectivePolicy(this.props, policy);
      checkPolicy(effective, faults);
      checkAttachable(target, effective, faults);
      if (effective.transparent && !this.props.ledger) {
        faults.note(
          'transparent needs the ledger, which notes what an envelope would say: set ledger of the AsyncRetry to true, or ' +
            'let the function read the envelope and leave transparent out',
        );
      }
      if (records && !this.records) {
        faults.note(
          'records needs a bucket: set records of the AsyncRetry to true, or recordBucket to a bucket of your own',
        );
      }
    }
    faults.throwIfAny(`AsyncRetry ${this.node.path} can't attach ${target.path}`);
  }

  /** The ARN of a principal for the queues' policies. SQS never checks them with the principal of an account. */
  private principalArnOf({ grantPrincipal }: iam.IGrantable, call: string): string {
    const principal = grantPrincipal as Partial<iam.IRole & iam.IUser & iam.ArnPrincipal>;
    const principalArn = principal.roleArn ?? principal.userArn ?? principal.arn;
    if (principalArn !== undefined && !(grantPrincipal instanceof iam.AccountPrincipal)) return principalArn;
    throw new Error(
      `AsyncRetry ${this.node.path}: ${call} must be given a role, a user or something with a role, got ${principal}`,
    );
  }

  /** Warns if a principal did not get all permissions of a grant. */
  private warnUnlessGranted(call: string, { grantPrincipal }: iam.IGrantable, grant: iam.Grant): iam.Grant {
    if (!grant.success) {
      Annotations.of(this).addWarningV2(
        `comeback:${call}`,
        `${grantPrincipal} can't be given permissions here: give it those of ${call}, which docs/deploy/cdk-operations.md lists`,
      );
    }
    return grant;
  }

  /** The parts of the system that grants for people need. */
  private operatedSystem(): OperatedSystem {
    return {
      retry: this,
      options: this.props,
      queues: this.queues,
      records: this.records,
      forEachTarget: (watch) => this.forEachTarget(watch),
    };
  }

  /** Each function once, even if several aliases or versions are attached. */
  private functions(): lambda.IFunction[] {
    return [...new Map(this.attachments.map(({ target: { base } }) => [base.functionArn, base])).values()];
  }

  /** What is attached, each function once. */
  private retried(): Retried[] {
    return [
      ...this.functions().map((each) => retriedBy(new Target(each))),
      ...this.attachedQueues.map(({ source }) => source),
    ];
  }

  private forEachTarget(watch: (attached: Retried) => void): void {
    this.retried().forEach(watch);
    this.watchers.push(watch);
  }

  private maxAgeOf({ arn }: Retried): Duration {
    const attached =
      this.attachments.find(({ target }) => target.base.functionArn === arn) ??
      this.attachedQueues.find(({ source }) => source.arn === arn);
    return effectivePolicy(this.props, attached?.policy).maxAge;
  }

  /** How long records are kept, in days, by the policies of all functions so far. */
  private daysOfRecords(): number {
    const policies = [undefined, ...this.attachments.map(({ policy }) => policy)];
    const ages = policies.flatMap((own) => {
      const { maxAge, errors = [] } = effectivePolicy(this.props, own);
      return [maxAge, ...[...errors, ...(this.props.errors ?? [])].flatMap((error) => error.maxAge ?? [])];
    });
    const { centralDeadLetterQueue: central } = this.props;
    return daysToKeep(ages, [this.deadLetterQueue, ...(central ? [central] : [])].map(retentionOf));
  }

  /** The JSON of an environment variable, or undefined to leave out an empty one. */
  private json(value: object): string | undefined {
    return Object.keys(value).length > 0 ? Stack.of(this).toJsonString(value) : undefined;
  }

  /** The targets that messages of each queue may name, by the names of the queues. */
  private queueTargets(): { [queue: string]: string[] } {
    const all = this.retried();
    if (all.length === 0) return {};
    const targets = this.queues.all.map(({ queue, owner }) => [queue.queueName, owner ? [owner] : all] as const);
    return Object.fromEntries(targets.map(([queue, each]) => [queue, each.map(({ name }) => name)]));
  }

  /** The policies of the targets that have one, by name, and the errors of all functions. */
  private ownPolicies(): { [name: string]: Variables } {
    const all = [
      ['*', errorsOf(this.props)] as const,
      ...this.attachments.map(({ target, policy }) => [target.base.functionName, variables(policy)] as const),
      ...this.attachedQueues.map(({ source, policy }) => [source.name, variables(policy)] as const),
    ];
    return Object.fromEntries(all.filter(([, values]) => Object.keys(values).length > 0));
  }

  /** Checks the length of the variables at synthesis, because Lambda would refuse them only during the deployment. */
  private checkVariables(plan: string): void {
    const bucket = this.records && { RECORD_BUCKETS: this.records.bucket.bucketName };
    const written = [generalVariables(this.props), bucket ?? {}, this.queueTargets(), this.ownPolicies()];
    const targets = this.attachments.map(({ target }) => target);
    const length = estimatedLength(written, targets, [
      ...this.queues.all.map(({ queue }) => queue),
      ...this.attachedQueues.map(({ source }) => source.construct),
    ]);
    if (length <= VARIABLES_MAX) return;
    const sharing = this.props.sharedQueue ? '' : 'let the functions share a queue (sharedQueue), ';
    throw new Error(
      `AsyncRetry ${this.node.path} can't ${plan}: the handler's variables would have about ${length} characters, ` +
        `and Lambda takes ${VARIABLES_MAX}: ${sharing}make another AsyncRetry for some functions, or give fewer of them policies of their own`,
    );
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
      this.records && this.attachments.length === 0 && this.attachedQueues.length > 0
        ? [`${this.node.path} must have no records: it retries queues only, whose messages have no failure records`]
        : [];
    return [
      ...recordless,
      ...this.attachments.flatMap((each) => each.contradictions(configs)),
      ...this.attachedQueues.flatMap((each) => each.contradictions(all)),
    ];
  }

  private checkFirst(call: string): void {
    if (this.called.has(call)) throw new Error(`AsyncRetry ${this.node.path}: ${call} was called before`);
    this.called.add(call);
  }
}

/** What is retried where a function, an alias or a version is attached. */
function retriedBy({ base }: Target): Retried {
  return { name: base.functionName, arn: base.functionArn, construct: base, function: base };
}
