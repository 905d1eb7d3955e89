// CDK's systems of systems.toml, with an attached function. It reads their options as JSON, by Terraform's names, and
// prints their templates, or what is wrong with the options: node systems.js
const { createRequire } = require('node:module');
const { readFileSync } = require('node:fs');
const load = createRequire(require.resolve('../../infra/cdk/package.json'));
const {
  App,
  aws_ec2: ec2,
  aws_events: events,
  aws_iam: iam,
  aws_kms: kms,
  aws_lambda: lambda,
  aws_s3: s3,
  aws_scheduler: scheduler,
  aws_sqs: sqs,
  Duration,
  Stack,
} = load('aws-cdk-lib');
const { Template } = load('aws-cdk-lib/assertions');
const { AsyncRetry } = load('comeback-cdk');

const { account, region, function: target, systems } = JSON.parse(readFileSync(0, 'utf8'));

const keyIn = (stack, arn) => kms.Key.fromKeyArn(stack, `Key${arn.slice(-1)}`, arn);

/** The properties for options that CDK takes as resources. All others have the same names and values. */
const PROPERTIES = {
  kms_key_arn: (arn, stack) => ({ encryptionKey: keyIn(stack, arn) }),
  log_kms_key_arn: (arn, stack) => ({ logEncryptionKey: keyIn(stack, arn) }),
  environment_kms_key_arn: (arn, stack) => ({ environmentEncryptionKey: keyIn(stack, arn) }),
  permissions_boundary_arn: (arn, stack) => ({
    permissionsBoundary: iam.ManagedPolicy.fromManagedPolicyArn(stack, 'Boundary', arn),
  }),
  code_signing_config_arn: (arn, stack) => ({
    codeSigningConfig: lambda.CodeSigningConfig.fromCodeSigningConfigArn(stack, 'Signing', arn),
  }),
  central_dead_letter_queue_arn: (queueArn, stack, { central_kms_key_arn: keyArn }) => ({
    centralDeadLetterQueue: sqs.Queue.fromQueueAttributes(stack, 'Central', { queueArn, keyArn }),
  }),
  central_kms_key_arn: () => ({}),
  subnet_ids: (privateSubnetIds, stack) => ({
    vpc: ec2.Vpc.fromVpcAttributes(stack, 'Vpc', {
      vpcId: 'vpc-1',
      availabilityZones: privateSubnetIds.map((_, nth) => `us-east-1${'ab'[nth]}`),
      privateSubnetIds,
    }),
  }),
  security_group_ids: (ids, stack) => ({
    securityGroups: ids.map((id) => ec2.SecurityGroup.fromSecurityGroupId(stack, id, id)),
  }),
  pollers: ({ minimum, maximum }) => ({ pollers: { minimumPollers: minimum, maximumPollers: maximum } }),
  log_retention_days: (logRetention) => ({ logRetention }),
  records_bucket: ({ name, kms_key_arn: key }, stack) => ({
    recordBucket: s3.Bucket.fromBucketAttributes(stack, 'Bucket', {
      bucketName: name,
      encryptionKey: key && keyIn(stack, key),
    }),
  }),
  redrive_principals: () => ({}),
  operator_principals: () => ({}),
  rules: () => ({}),
  schedules: () => ({}),
};

const DAILY = { expressionString: 'rate(1 day)' };

const propertyOf = (name) => name.replace(/_./g, ([, initial]) => initial.toUpperCase());

/** An option's value, as CDK takes it. */
function asCdk(value) {
  const [, count, unit] = /^(\d+)([smhd])$/.exec(value) ?? [];
  return unit ? Duration.seconds(count * { s: 1, m: 60, h: 3600, d: 86400 }[unit]) : value;
}

function templateOf(options) {
  const stack = new Stack(new App(), 'stack', { env: { account, region } });
  const roleOf = (arn) => iam.Role.fromRoleArn(stack, arn.split('/')[1], arn);
  const props = Object.entries(options).map(([name, value]) =>
    name in PROPERTIES ? PROPERTIES[name](value, stack, options) : { [propertyOf(name)]: asCdk(value) },
  );
  const retry = new AsyncRetry(stack, 'Retry', Object.assign({}, ...props));
  const orders = lambda.Function.fromFunctionAttributes(stack, 'Orders', {
    functionArn: target.arn,
    role: roleOf(target.role_arn),
  });
  retry.attach(orders, options.records || options.records_bucket ? { records: true } : {});
  for (const [id, { rule }] of Object.entries(options.rules ?? {})) {
    const ruleName = rule.arn.split('/').pop();
    const targets = [{ bind: () => ({ arn: target.arn }) }];
    retry.attachRule(
      new events.Rule(stack, `Rule-${id}`, { ruleName, eventPattern: { source: ['shop'] }, targets }),
      orders,
    );
  }
  for (const [id, { schedule }] of Object.entries(options.schedules ?? {})) {
    const role = roleOf(schedule.target[0].role_arn);
    const toOrders = { bind: () => ({ arn: target.arn, role }) };
    retry.attachSchedule(
      new scheduler.Schedule(stack, `Schedule-${id}`, { schedule: DAILY, target: toOrders }),
      orders,
    );
  }
  for (const arn of options.redrive_principals ?? []) retry.grantRedrive(roleOf(arn));
  for (const arn of options.operator_principals ?? []) retry.grantOperate(roleOf(arn));
  return Template.fromStack(stack).toJSON();
}

/** A template, or the message of the error. */
function madeOf(options) {
  try {
    return templateOf(options);
  } catch (error) {
    return error.message;
  }
}

const made = Object.entries(systems).map(([name, options]) => [name, madeOf(options)]);
process.stdout.write(JSON.stringify(Object.fromEntries(made)));
