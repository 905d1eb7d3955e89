import {
  Annotations,
  aws_cloudwatch as cloudwatch,
  aws_codedeploy as codedeploy,
  aws_iam as iam,
  aws_lambda as lambda,
  aws_logs as logs,
  aws_sqs as sqs,
  Duration,
  RemovalPolicy,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { allowLogsToUse, HardeningProps, USE_VPC } from './hardening';
import { tagPart } from './tags';

export interface HandlerProps extends HardeningProps {
  readonly architecture: lambda.Architecture;
  readonly code: lambda.Code;
  readonly environment: { [name: string]: string };
  readonly logRetention?: logs.RetentionDays;
  readonly memorySize?: number;
  readonly timeout: Duration;
  readonly tracing?: lambda.Tracing;
}

/** As AWS recommends, so that SQS doesn't deliver a batch again while it is being handled. */
const VISIBILITY_PER_TIMEOUT = 6;

/** Lambda's minimum. The handler needs about 20 MB. */
export const MEMORY_SIZE = 128;

/** The largest batch of the handler. A larger one would need a batching window. */
const BATCH_SIZE = 10;

/** Any window, even of one second, can delay messages of a quiet queue by up to 20 s. */
const BATCHING_WINDOW = Duration.seconds(0);

/**
 * The actions of a mapping and its function on a queue. The handler reads the number of messages in flight, and if
 * there are too many, it sends waiting messages again, with a delay.
 */
const CONSUME = [
  'sqs:ReceiveMessage',
  'sqs:DeleteMessage',
  'sqs:ChangeMessageVisibility',
  'sqs:GetQueueAttributes',
  'sqs:SendMessage',
];

/** The actions on a key that reading and writing messages need. */
export const KEY_ACTIONS = ['kms:Decrypt', 'kms:GenerateDataKey'];

export const INVOKE = ['lambda:InvokeFunction'];

/** The function that decides what to do with each failed event. Its role has only the permissions that it needs. */
export class RetryHandler extends lambda.Function {
  /** The visibility timeout of the retry queues. */
  public readonly visibilityTimeout: Duration;
  public readonly roleArn: string;
  private readonly statements = new Statements((statement) => {
    this.addToRolePolicy(statement);
    return statement;
  });
  /** The functions and queues of the user's that it may use. */
  private readonly allowed = new Set<string>();
  /** The alarm that makes CodeDeploy roll a deployment back. */
  public deploymentErrors?: cloudwatch.Alarm;
  /** The function or alias that the mappings invoke. */
  private readonly invoked: lambda.IFunction;

  constructor(scope: Construct, id: string, props: HandlerProps) {
    const logGroup = new logs.LogGroup(scope, 'Log', {
      retention: props.logRetention ?? logs.RetentionDays.ONE_MONTH,
      encryptionKey: props.logEncryptionKey,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    if (props.logEncryptionKey) allowLogsToUse(scope, props.logEncryptionKey);
    const role = new iam.Role(scope, 'HandlerRole', { assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com') });
    logGroup.grantWrite(role);
    // Lambda checks these permissions when the function is created.
    if (props.vpc) role.addToPrincipalPolicy(new iam.PolicyStatement({ actions: USE_VPC, resources: ['*'] }));
    super(scope, id, {
      description: 'Brings failed asynchronous events back to their functions',
      runtime: lambda.Runtime.PROVIDED_AL2023,
      handler: 'bootstrap',
      architecture: props.architecture,
      code: props.code,
      environment: props.environment,
      memorySize: props.memorySize ?? MEMORY_SIZE,
      timeout: props.timeout,
      tracing: props.tracing,
      role,
      logGroup,
      // The loop from function to queue to function is intended, and Comeback limits it.
      recursiveLoop: lambda.RecursiveLoop.ALLOW,
      vpc: props.vpc,
      vpcSubnets: props.vpcSubnets,
      securityGroups: props.securityGroups,
      reservedConcurrentExecutions: props.reservedConcurrency,
      environmentEncryption: props.environmentEncryptionKey,
      codeSigningConfig: props.codeSigningConfig,
    });
    props.environmentEncryptionKey?.grantDecrypt(role);
    this.invoked = props.deploymentConfig ? this.deployedBy(props.deploymentConfig) : this;
    tagPart(scope, this, 'handler');
    this.roleArn = role.roleArn;
    this.visibilityTimeout = Duration.seconds(props.timeout.toSeconds() * VISIBILITY_PER_TIMEOUT);
  }

  /** Maps a queue to the handler, and grants the handler its permissions on the queue. */
  public consume(queue: sqs.IQueue, { maxConcurrency, pollers }: Polling): lambda.EventSourceMapping {
    this.allow(CONSUME, queue.queueArn);
    return new lambda.EventSourceMapping(queue, 'Mapping', {
      target: this.invoked,
      eventSourceArn: queue.queueArn,
      batchSize: BATCH_SIZE,
      maxBatchingWindow: BATCHING_WINDOW,
      reportBatchItemFailures: true,
      // Lambda refuses both together.
      ...(pollers ? { provisionedPollerConfig: pollers } : { maxConcurrency }),
    });
  }

  /** Allows the handler these actions on these resources. */
  public allow(actions: string[], ...resources: string[]): void {
    this.statements.allow(actions, resources);
  }

  /** Allows the handler what it is not allowed so far. Returns whether there was something. */
  public allowOnce(actions: string[], resources: string[]): boolean {
    const missing = resources.filter((each) => !this.allowed.has(each));
    missing.forEach((each) => this.allowed.add(each));
    if (missing.length > 0) this.allow(actions, ...missing);
    return missing.length > 0;
  }

  /** Lets the handler send to a queue of the user's, and use its key. */
  public allowSend({ arn, construct: queue }: { readonly arn: string; readonly construct: sqs.IQueue }): void {
    if (!this.allowOnce(['sqs:SendMessage'], [arn])) return;
    const granted = queue.encryptionMasterKey?.grant(this, ...KEY_ACTIONS);
    if (granted?.success === false) {
      Annotations.of(this).addWarningV2(
        'comeback:source-key',
        `${queue.node.path}: let the handler's role ${KEY_ACTIONS.join(', ')} with its key, which is only known by an alias`,
      );
    }
  }

  /** Creates an alias that CodeDeploy moves to each new version, and back if that version fails. */
  private deployedBy(deploymentConfig: codedeploy.ILambdaDeploymentConfig): lambda.Alias {
    const alias = new lambda.Alias(this, 'Live', { aliasName: 'live', version: this.currentVersion });
    this.deploymentErrors = new cloudwatch.Alarm(this, 'DeploymentErrors', {
      metric: alias.metricErrors({ period: Duration.minutes(1) }),
      threshold: 0,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: 1,
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      alarmDescription:
        'The retry handler fails. If a deployment is going on, CodeDeploy rolls it back. Runbook: ' +
        'docs/runbook.md#deploymenterrors',
    });
    new codedeploy.LambdaDeploymentGroup(this, 'Deployment', {
      alias,
      deploymentConfig,
      alarms: [this.deploymentErrors],
    });
    return alias;
  }
}

/** How a queue is polled. */
export interface Polling {
  readonly maxConcurrency: number;
  readonly pollers?: lambda.ProvisionedPollerConfig;
}

/**
 * The most resources in a statement. If a policy is full, CDK moves whole statements to another one, so each must fit
 * into a managed policy, 6,144 characters.
 */
const RESOURCES_MAX = 24;

/** The conditions of a statement: operator, key and values. */
export type Conditions = { [operator: string]: { [key: string]: string[] } };

/** Merges permissions with the same actions and conditions into one statement, so that policies stay short. */
export class Statements {
  private readonly known = new Map<string, iam.PolicyStatement>();

  /** `add` adds a statement to a policy, and returns it. */
  constructor(private readonly add: (statement: iam.PolicyStatement) => iam.PolicyStatement | undefined) {}

  /** Allows these actions on these resources. */
  public allow(actions: string[], resources: string[], conditions: Conditions = {}): void {
    const key = JSON.stringify([actions, conditions]);
    const known = this.known.get(key);
    if (known && !known.frozen && known.resources.length + resources.length <= RESOURCES_MAX) {
      known.addResources(...resources);
      return;
    }
    const added = this.add(new iam.PolicyStatement({ actions, resources, conditions }));
    if (added) this.known.set(key, added);
  }
}
