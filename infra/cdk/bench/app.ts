// An app of ten functions, optionally with retries: measures the time that AsyncRetry adds to a synthesis.
import { App, aws_lambda as lambda, Stack } from 'aws-cdk-lib';

const app = new App();
const stack = new Stack(app, 'Bench');
const functions = Array.from(
  { length: 10 },
  (_, index) =>
    new lambda.Function(stack, `Function${index}`, {
      runtime: lambda.Runtime.PYTHON_3_13,
      handler: 'index.handler',
      code: lambda.Code.fromInline('def handler(event, context): pass'),
    }),
);

if (process.argv.includes('with-retries')) {
  // Loading the package is part of the cost.
  const { AsyncRetry } = require('../lib') as typeof import('../lib');
  const retry = new AsyncRetry(stack, 'Retry', { ledger: true });
  functions.forEach((each) => retry.attach(each));
  retry.alarms();
  retry.dashboard();
}

app.synth();
