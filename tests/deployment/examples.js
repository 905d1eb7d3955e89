// Applications of CDK that deployed.py deploys: node examples.js NAME
const { createRequire } = require('node:module');
const load = createRequire(require.resolve('../../infra/cdk/package.json'));
const {
  App,
  aws_cloudwatch_actions: actions,
  aws_iam: iam,
  aws_kms: kms,
  aws_lambda: lambda,
  aws_logs: logs,
  aws_sns: sns,
  aws_sqs: sqs,
  Duration,
  RemovalPolicy,
  Stack,
} = load('aws-cdk-lib');
const { AsyncRetry, Jitter } = load('comeback-cdk');

const stack = new Stack(new App(), 'comeback-cdk-example');

/** The example's function. */
function functionOf(id) {
  return new lambda.Function(stack, id, {
    runtime: lambda.Runtime.PYTHON_3_13,
    architecture: lambda.Architecture.ARM_64,
    handler: 'app.handler',
    timeout: Duration.seconds(10),
    logGroup: new logs.LogGroup(stack, `${id}Log`, {
      retention: logs.RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    }),
    code: lambda.Code.fromAsset(`${__dirname}/../../infra/example/orders`),
  });
}

const operator = new iam.Role(stack, 'Operator', { assumedBy: new iam.AccountRootPrincipal() });

const APPLICATIONS = {
  /** The example with every option of both packages switched on. sam.py does the same for SAM's example. */
  everything(more = {}, ofOrders = {}) {
    const key = new kms.Key(stack, 'Key');
    const retry = new AsyncRetry(stack, 'Comeback', {
      baseBackoff: Duration.seconds(2),
      maxBackoff: Duration.hours(3),
      maxAge: Duration.days(7),
      maxAttempts: 50,
      jitter: Jitter.EQUAL,
      nonRetryableErrors: ['ValidationError', '*NotFound'],
      ledger: true,
      register: true,
      probe: true,
      encryptionKey: key,
      logEncryptionKey: key,
      environmentEncryptionKey: key,
      reservedConcurrency: 25,
      permissionsBoundary: iam.ManagedPolicy.fromAwsManagedPolicyName('PowerUserAccess'),
      maxConcurrency: 20,
      // The limit is so low that waits are kept as delays.
      inFlightMax: 1,
      logRetention: logs.RetentionDays.ONE_WEEK,
      tracing: lambda.Tracing.ACTIVE,
      ...more,
    });
    retry.attach(functionOf('Orders'), { maxAge: Duration.days(14), maxAttempts: 2, ...ofOrders });
    retry.alarms({
      actions: [new actions.SnsAction(new sns.Topic(stack, 'Alarms'))],
      ticketActions: [new actions.SnsAction(new sns.Topic(stack, 'Tickets'))],
      settings: {
        Lateness: { threshold: 60_000, period: Duration.minutes(15), evaluationPeriods: 3, datapointsToAlarm: 2 },
        HandlerThrottles: { enabled: false },
      },
    });
    retry.dashboard();
    retry.grantRedrive(operator);
    retry.grantOperate(operator);
  },

  /** The same with records in a bucket. */
  recorded() {
    APPLICATIONS.everything({ records: true }, { records: true });
  },

  /** Two functions and a queue with a retry queue each, and a queue for redrives. */
  several() {
    const retry = new AsyncRetry(stack, 'Comeback', { maxAttempts: 5 });
    retry.grantRedrive(operator);
    for (const id of ['Orders', 'Payments']) retry.attach(functionOf(id));
    // CloudFormation generates its name.
    retry.attachQueue(new sqs.Queue(stack, 'Imports'));
  },
};

APPLICATIONS[process.argv[2]]();
