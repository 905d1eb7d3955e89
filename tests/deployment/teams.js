// An application of a large organization: three stacks and a nested one, with aliases, versions, an imported function
// with a stream, a rule, a VPC, a key, a ledger, and deployments by CodeDeploy. cdk-nag checks it here, other tools check
// its templates.
const { createRequire } = require('node:module');
const { readFileSync } = require('node:fs');
const load = createRequire(require.resolve('../../infra/cdk/package.json'));
const {
  App,
  aws_cloudwatch_actions: actions,
  aws_codedeploy: codedeploy,
  aws_ec2: ec2,
  aws_events: events,
  aws_iam: iam,
  aws_kms: kms,
  aws_lambda: lambda,
  aws_logs: logs,
  aws_sns: sns,
  NestedStack,
  RemovalPolicy,
  Stack,
} = load('aws-cdk-lib');
const { AwsSolutionsChecks, HIPAASecurityChecks, NIST80053R5Checks, PCIDSS321Checks } = load('cdk-nag');
const { AsyncRetry } = load('comeback-cdk');

const env = { account: '123456789012', region: 'eu-west-1' };
/** The prefix lists of DynamoDB and S3 in this region. */
const [DYNAMODB, S3] = ['pl-6fa54006', 'pl-6da54004'];
const app = new App();

/** The network, the key and the topics, which a platform team owns. */
class Platform extends Stack {
  key = new kms.Key(this, 'Key', { enableKeyRotation: true });
  vpc = new ec2.Vpc(this, 'Vpc', {
    maxAzs: 2,
    natGateways: 0,
    subnetConfiguration: [{ name: 'Functions', subnetType: ec2.SubnetType.PRIVATE_ISOLATED }],
    restrictDefaultSecurityGroup: false,
  });
  callers = this.group('Callers', 'Functions that call AWS');
  pages = this.topic('Pages');
  tickets = this.topic('Tickets');

  constructor(scope, id) {
    super(scope, id, { env });
    const log = new logs.LogGroup(this, 'Flows', { encryptionKey: this.key, retention: logs.RetentionDays.ONE_YEAR });
    this.key.grantEncryptDecrypt(new iam.ServicePrincipal(`logs.${env.region}.amazonaws.com`));
    this.vpc.addFlowLog('FlowLog', { destination: ec2.FlowLogDestination.toCloudWatchLogs(log) });
    const endpoints = this.group('Endpoints', 'Endpoints of AWS');
    this.callers.connections.allowTo(endpoints, ec2.Port.HTTPS);
    for (const each of [DYNAMODB, S3]) this.callers.addEgressRule(ec2.Peer.prefixList(each), ec2.Port.HTTPS);
    this.vpc.addGatewayEndpoint('DynamoDb', { service: ec2.GatewayVpcEndpointAwsService.DYNAMODB });
    this.vpc.addGatewayEndpoint('S3', { service: ec2.GatewayVpcEndpointAwsService.S3 });
    for (const [name, service] of Object.entries({
      Sqs: ec2.InterfaceVpcEndpointAwsService.SQS,
      Lambda: ec2.InterfaceVpcEndpointAwsService.LAMBDA,
      CloudWatch: ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
    }))
      this.vpc.addInterfaceEndpoint(name, { service, open: false, securityGroups: [endpoints] });
  }

  group(id, description) {
    return new ec2.SecurityGroup(this, id, { vpc: this.vpc, description, allowAllOutbound: false });
  }

  topic(id) {
    const topic = new sns.Topic(this, id, { masterKey: this.key, enforceSSL: true });
    const alarms = new iam.ServicePrincipal('cloudwatch.amazonaws.com');
    topic.grantPublish(alarms);
    this.key.grantEncryptDecrypt(alarms);
    return topic;
  }
}

/** A function of one of the teams. */
function functionOf(scope, id, { key, vpc, callers }) {
  return new lambda.Function(scope, id, {
    runtime: lambda.Runtime.PYTHON_3_14,
    architecture: lambda.Architecture.ARM_64,
    handler: 'app.handler',
    code: lambda.Code.fromAsset(`${__dirname}/../../infra/example/orders`),
    tracing: lambda.Tracing.ACTIVE,
    environmentEncryption: key,
    reservedConcurrentExecutions: 10,
    vpc,
    vpcSubnets: { subnetType: ec2.SubnetType.PRIVATE_ISOLATED },
    securityGroups: [callers],
    logGroup: new logs.LogGroup(scope, `${id}Log`, {
      encryptionKey: key,
      retention: logs.RetentionDays.ONE_YEAR,
      removalPolicy: RemovalPolicy.DESTROY,
    }),
  });
}

/** The functions: one behind an alias that CodeDeploy moves, one by its version, and one in a nested stack. */
class Functions extends Stack {
  constructor(scope, id, platform) {
    super(scope, id, { env });
    this.orders = new lambda.Alias(this, 'Live', {
      aliasName: 'live',
      version: functionOf(this, 'Orders', platform).currentVersion,
    });
    new codedeploy.LambdaDeploymentGroup(this, 'OrdersDeployment', {
      alias: this.orders,
      deploymentConfig: codedeploy.LambdaDeploymentConfig.LINEAR_10PERCENT_EVERY_1MINUTE,
    });
    this.invoices = functionOf(this, 'Invoices', platform).currentVersion;
    this.payments = functionOf(new NestedStack(this, 'Payments'), 'Payments', platform);
  }
}

/** The retries of all teams. */
class Retries extends Stack {
  constructor(scope, id, { key, vpc, callers, pages, tickets }, { orders, invoices, payments }) {
    super(scope, id, { env });
    this.retry = new AsyncRetry(this, 'Retry', {
      ledger: true,
      register: true,
      probe: true,
      records: true,
      onlyAttachedQualifiers: true,
      deletionProtection: true,
      encryptionKey: key,
      logEncryptionKey: key,
      environmentEncryptionKey: key,
      logRetention: logs.RetentionDays.ONE_YEAR,
      tracing: lambda.Tracing.ACTIVE,
      reservedConcurrency: 50,
      vpc,
      vpcSubnets: { subnetType: ec2.SubnetType.PRIVATE_ISOLATED },
      securityGroups: [callers],
      permissionsBoundary: iam.ManagedPolicy.fromManagedPolicyName(this, 'Boundary', 'teams'),
      deploymentConfig: codedeploy.LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES,
    });
    const legacy = lambda.Function.fromFunctionAttributes(this, 'Legacy', {
      functionArn: `arn:aws:lambda:${env.region}:${env.account}:function:legacy`,
      role: iam.Role.fromRoleName(this, 'LegacyRole', 'legacy'),
      sameEnvironment: true,
    });
    for (const each of [orders, invoices, payments, legacy]) this.retry.attach(each, { records: each !== payments });
    const targets = [{ bind: () => ({ arn: orders.functionArn }) }];
    const placed = new events.Rule(this, 'Placed', { eventPattern: { source: ['shop'] }, targets });
    this.retry.attachRule(placed, orders);
    const eventSourceArn = `arn:aws:kinesis:${env.region}:${env.account}:stream/clicks`;
    const startingPosition = lambda.StartingPosition.LATEST;
    new lambda.EventSourceMapping(this, 'Clicks', { target: legacy, eventSourceArn, startingPosition });
    this.retry.attachStream(legacy, eventSourceArn);
    this.retry.alarms({ actions: [new actions.SnsAction(pages)], ticketActions: [new actions.SnsAction(tickets)] });
    this.retry.dashboard();
    this.operator = new iam.Role(this, 'Operator', { assumedBy: new iam.AccountRootPrincipal() });
    this.retry.grantOperate(this.operator);
    this.retry.grantRedrive(this.operator);
  }
}

/** What the judges of cdk-nag may find outside of the retries, where, and why. */
const ANSWERS = [
  ['AwsSolutions-IAM4', 'functions', "AWS's own policies for logs, networks and CodeDeploy"],
  ['AwsSolutions-IAM5', 'functions', 'the actions of X-Ray have no resources that a policy could name'],
  ['IAMNoInlinePolicy', '(platform|functions)', 'each policy is for one role, and is deleted with it'],
  ['LambdaDLQ', 'functions', 'failures go to the retry queues'],
  ['VPCDefaultSecurityGroupClosed', 'platform', 'nothing is in it, and CDK would need a function to close it'],
].map(([rule, stack]) => new RegExp(`${rule}[^ ]* ${stack}/`));

/** What the pages of the package answer for the retries and their operators. */
const PAGE = readFileSync(`${__dirname}/../../docs/deploy/cdk-operations.md`, 'utf8');
const FINDINGS = readFileSync(`${__dirname}/../../infra/FINDINGS.md`, 'utf8').split('\n## Intended\n')[1];
ANSWERS.push(
  ...[...PAGE.matchAll(/'(AwsSolutions-\w+)/g), ...FINDINGS.matchAll(/^\| `(\w+)` \| (?!checkov)/gm)].map(
    ([, rule]) => new RegExp(`${rule}[^ ]* retries/`),
  ),
);

const platform = new Platform(app, 'platform');
const functions = new Functions(app, 'functions', platform);
new Retries(app, 'retries', platform, functions);

const findings = [AwsSolutionsChecks, NIST80053R5Checks, HIPAASecurityChecks, PCIDSS321Checks]
  .flatMap((Pack) => new Pack(app).validateScope(app).violations)
  .flatMap(({ ruleName, violatingResources }) => violatingResources.map((each) => `${ruleName} ${each.constructPath}`));
const unanswered = findings.filter((each) => !ANSWERS.some((answer) => answer.test(each)));
const unneeded = ANSWERS.filter((answer) => !findings.some((each) => answer.test(each)));
if (unanswered.length > 0 || unneeded.length > 0) {
  console.error('findings without an answer, and answers without a finding:', unanswered, unneeded);
  process.exitCode = 1;
}
app.synth();
