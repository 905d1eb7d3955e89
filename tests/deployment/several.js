// Two functions and a queue with a retry queue each, and a queue for redrives. several.py tests it.
const { createRequire } = require('node:module');
const load = createRequire(require.resolve('../../infra/cdk/package.json'));
const {
  App,
  aws_iam: iam,
  aws_lambda: lambda,
  aws_logs: logs,
  aws_sqs: sqs,
  Duration,
  RemovalPolicy,
  Stack,
} = load('aws-cdk-lib');
const { AsyncRetry } = load('comeback-cdk');

const stack = new Stack(new App(), 'comeback-cdk-example');
const retry = new AsyncRetry(stack, 'Retry', { maxAttempts: 5 });
retry.grantRedrive(new iam.Role(stack, 'Operator', { assumedBy: new iam.AccountRootPrincipal() }));
for (const id of ['Orders', 'Payments']) {
  retry.attach(
    new lambda.Function(stack, id, {
      runtime: lambda.Runtime.PYTHON_3_13,
      architecture: lambda.Architecture.ARM_64,
      handler: 'app.handler',
      logGroup: new logs.LogGroup(stack, `${id}Log`, { removalPolicy: RemovalPolicy.DESTROY }),
      code: lambda.Code.fromAsset(`${__dirname}/../../infra/example/orders`),
    }),
  );
}
retry.attachQueue(new sqs.Queue(stack, 'Imports', { queueName: 'imports', visibilityTimeout: Duration.seconds(1) }));
