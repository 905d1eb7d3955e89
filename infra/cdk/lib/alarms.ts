import {
  aws_cloudwatch as cloudwatch,
  aws_lambda as lambda,
  aws_sqs as sqs,
  Duration,
  Stack,
  Stage,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { Faults } from './faults';
import { countMetricLines, RetrySystem } from './metrics';
import type { AsyncRetryProps } from './props';
import { checkKnown, checkWhole } from './checks';
import { ownId, Retried, Target } from './target';
import {
  ALARMS,
  AlarmSeverity,
  ofConsumer,
  ofDeadLetters,
  ofHandler,
  ofQueue,
  ofRegion,
  ofTarget,
  Trigger,
  Triggers,
} from './triggers';

/** Overrides of an alarm's defaults. */
export interface AlarmSettings {
  /** Whether the alarm exists.
   *
   * @default true
   */
  readonly enabled?: boolean;

  /** Which actions the alarm has: those of a page or of a ticket.
   *
   * @default - as docs/deploy/cdk-operations.md lists
   */
  readonly severity?: AlarmSeverity;

  /** The alarm goes off above this value, in the unit that docs/deploy/cdk-operations.md names.
   *
   * @default - as docs/deploy/cdk-operations.md lists
   */
  readonly threshold?: number;

  /**
   * The length of a period: 10 or 30 seconds, or whole minutes up to a day.
   *
   * @default Duration.minutes(5)
   */
  readonly period?: Duration;

  /** How many periods the alarm evaluates.
   *
   * @default - as docs/deploy/cdk-operations.md lists
   */
  readonly evaluationPeriods?: number;

  /** How many of these periods must be above the threshold.
   *
   * @default - as docs/deploy/cdk-operations.md lists; all of them if you set `evaluationPeriods`
   */
  readonly datapointsToAlarm?: number;
}

/** Options of the alarms of an `AsyncRetry`. */
export interface AlarmsProps {
  /**
   * The scope of the alarms: another stack of this account and region, if there are too many for one. A CloudFormation
   * stack has at most 500 resources, and each function with its own queue has eight or more alarms.
   *
   * @default - in the `AsyncRetry`
   */
  readonly scope?: Construct;

  /** The actions when an alarm goes off and when it is over, such as `new SnsAction(topic)`.
   *
   * @default - nothing; the console shows the alarms
   */
  readonly actions?: cloudwatch.IAlarmAction[];

  /** The actions of alarms that can wait for a working day.
   * @default - the same as `actions`
   */
  readonly ticketActions?: cloudwatch.IAlarmAction[];

  /**
   * Settings of single alarms by their names, such as `{ Lateness: { threshold: 60000 }, Backlog: { enabled: false } }`.
   *
   * @default - all alarms, as docs/deploy/cdk-operations.md lists them
   */
  readonly settings?: { readonly [alarm: string]: AlarmSettings };
}

/** Each section of this page is about one alarm. */
const RUNBOOK = 'docs/runbook.md';

/** CloudWatch's limits: high resolutions, or whole minutes; and how far an alarm looks back. */
const HIGH_RESOLUTIONS = [10, 30];
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const LOOKS_BACK_MAX = [
  { periodMin: HOUR, max: 7 * DAY },
  { periodMin: 0, max: DAY },
];

/** The alarms of an `AsyncRetry` and of its functions. */
export class RetryAlarms extends Construct {
  public readonly all: cloudwatch.Alarm[] = [];

  constructor(
    private readonly retry: RetrySystem,
    private readonly props: AlarmsProps,
    private readonly options: AsyncRetryProps,
  ) {
    super(props.scope ?? retry, props.scope ? `Alarms-${ownId(retry)}` : 'Alarms');
    const faults = new Faults();
    for (const [name, settings] of Object.entries(props.settings ?? {})) checkSettings(name, settings, faults);
    faults.throwIfAny(`the alarms of AsyncRetry ${retry.node.path}`);
    const { deadLetterQueue } = retry;
    const { account, region } = Stack.of(this);
    this.addOnce(
      ofRegion(options),
      (other) => Stack.of(other.retry).account === account && Stack.of(other.retry).region === region,
    );
    this.addOnce(
      ofDeadLetters(deadLetterQueue, options),
      (other) => other.retry.deadLetterQueue.queueArn === deadLetterQueue.queueArn,
    );
    this.add(this, ofHandler(retry.handler, options));
    if (this.node.tryFindChild('HandlerSilent')) countMetricLines(this, retry.handler);
  }

  /**
   * Adds the alarms on one retry queue. One alarm on several queues would cost as much, because CloudWatch bills it by
   * the queue, and it would not name the queue.
   */
  public watchQueue(queue: sqs.IQueue): void {
    this.add(new Construct(this, queue.node.id), ofQueue(queue, this.options));
  }

  /** Adds the alarms on the metrics of one function or queue. */
  public watchTarget(target: Retried, maxAge: Duration): void {
    this.add(new Construct(this, ownId(target.construct)), ofTarget(target, this.options, maxAge));
  }

  /** Adds the alarm of functions that consume a queue. Each may consume several. */
  public watchConsumers(consumers: lambda.IFunction[]): void {
    for (const { base } of consumers.map((each) => new Target(each))) {
      const id = `Consumer-${ownId(base)}`;
      const isWatched = [id, ownId(base)].some((each) => this.node.tryFindChild(each));
      if (!isWatched) this.add(new Construct(this, id), ofConsumer(base, this.options));
    }
  }

  /** Adds the actions of a severity to an alarm. */
  public act(alarm: cloudwatch.Alarm, severity: AlarmSeverity): void {
    const actions = this.actionsOf(severity);
    alarm.addAlarmAction(...actions);
    alarm.addOkAction(...actions);
  }

  /** Adds alarms, unless another `AsyncRetry` has the same alarm with the same settings and actions. */
  private addOnce(triggers: Triggers, isSame: (other: RetryAlarms) => boolean): void {
    const all = (Stage.of(this) ?? this.node.root).node.findAll().filter((each) => each instanceof RetryAlarms);
    const others = all.filter((each) => each !== this && isSame(each));
    const missing = Object.entries(triggers).filter(
      ([name, trigger]) => !others.some((other) => other.covers(this, name, trigger)),
    );
    this.add(this, Object.fromEntries(missing));
  }

  /** Whether this one has an alarm with the same settings and at least the other's actions. */
  private covers(other: RetryAlarms, name: string, { severity }: Trigger): boolean {
    const [ours, theirs] = [this, other].map(({ props }) => props.settings?.[name]);
    const [done, wanted] = [this, other].map((each) => each.actionsOf(ours?.severity ?? severity));
    return (
      this.node.tryFindChild(name) !== undefined &&
      JSON.stringify(ours) === JSON.stringify(theirs) &&
      wanted.every((one) => done.some((another) => isSameAction(one, another)))
    );
  }

  private actionsOf(severity: AlarmSeverity): cloudwatch.IAlarmAction[] {
    const { actions = [], ticketActions = actions } = this.props;
    return severity === AlarmSeverity.PAGE ? actions : ticketActions;
  }

  private add(scope: Construct, triggers: Triggers): void {
    for (const [name, trigger] of Object.entries(triggers)) this.alarm(scope, name, trigger);
  }

  private alarm(scope: Construct, name: string, trigger: Trigger): void {
    const settings = this.props.settings?.[name] ?? {};
    if (settings.enabled === false) return;
    const { period, evaluationPeriods, severity = trigger.severity } = settings;
    const alarm = new cloudwatch.Alarm(scope, name, {
      metric: period ? trigger.metric.with({ period }) : trigger.metric,
      threshold: settings.threshold ?? trigger.above,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: evaluationPeriods ?? trigger.periods,
      datapointsToAlarm: settings.datapointsToAlarm ?? (evaluationPeriods ? undefined : trigger.periodsAbove),
      // Most of these metrics count faults, and have no data while there are none.
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      alarmDescription: `${trigger.description} Runbook: ${RUNBOOK}#${name.toLowerCase()}`,
    });
    this.act(alarm, severity);
    this.all.push(alarm);
  }
}

/** Reports an unknown alarm name, and periods that CloudWatch would refuse. */
function checkSettings(name: string, settings: AlarmSettings, faults: Faults): void {
  if (!ALARMS.includes(name)) {
    faults.add('settings', `of ${ALARMS.join(', ')}`, name);
    return;
  }
  const { period, evaluationPeriods, datapointsToAlarm } = settings;
  checkWhole(`${name}.evaluationPeriods`, evaluationPeriods, 1, DAY, faults);
  checkWhole(`${name}.datapointsToAlarm`, datapointsToAlarm, 1, evaluationPeriods ?? DAY, faults);
  if (!period || !checkKnown(`${name}.period`, period, faults)) return;
  const seconds = period.toSeconds({ integral: false });
  if (!HIGH_RESOLUTIONS.includes(seconds) && (seconds % MINUTE !== 0 || seconds < MINUTE || seconds > DAY))
    faults.add(`${name}.period`, '10s, 30s, or whole minutes up to 1d', period.toHumanString());
  const { max } = LOOKS_BACK_MAX.find(({ periodMin }) => seconds >= periodMin) ?? { max: DAY };
  if (seconds * (evaluationPeriods ?? 1) > max)
    faults.add(
      `${name}.evaluationPeriods`,
      `at most ${max / seconds} periods of ${period.toHumanString()}`,
      evaluationPeriods,
    );
}

/** Whether two actions do the same. Each `new SnsAction(topic)` is a new object. */
function isSameAction(one: cloudwatch.IAlarmAction, other: cloudwatch.IAlarmAction): boolean {
  const [ours, theirs] = [one, other].map((action) => Object.entries(action).flat());
  return (
    one === other ||
    (one.constructor === other.constructor &&
      ours.length > 0 &&
      ours.length === theirs.length &&
      ours.every((part, index) => part === theirs[index]))
  );
}
