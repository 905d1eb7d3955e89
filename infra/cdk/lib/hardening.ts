import {
  Annotations,
  aws_codedeploy as codedeploy,
  aws_ec2 as ec2,
  aws_iam as iam,
  aws_kms as kms,
  aws_lambda as lambda,
  Stack,
  Token,
} from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import type { Faults } from './faults';
import { checkWhole } from './checks';

/** Options that follow an organization's rules for running and deploying the handler. */
export interface HardeningProps {
  /**
   * The handler's network. From there it must reach SQS and Lambda, with a ledger DynamoDB, with probes CloudWatch,
   * and with records S3: through VPC endpoints or a NAT gateway.
   *
   * @default - no VPC
   */
  readonly vpc?: ec2.IVpc;

  /**
   * The subnets of the handler, with `vpc`.
   *
   * @default - the private subnets
   */
  readonly vpcSubnets?: ec2.SubnetSelection;

  /**
   * The security groups of the handler, with `vpc`. It only sends requests, to port 443.
   *
   * @default - one that allows all outgoing traffic
   */
  readonly securityGroups?: ec2.ISecurityGroup[];

  /**
   * How many invocations of the handler may run at once, for all queues together. Lambda reserves this concurrency in
   * the account.
   * @default - limited only by the account's concurrency
   */
  readonly reservedConcurrency?: number;

  /**
   * Provisioned pollers of each retry queue, instead of `maxConcurrency`: a minimum of 2 to 200, and a maximum of 2 to
   * 2,000. They receive more messages a second, and cost money by the hour.
   *
   * @default - Lambda's own pollers
   */
  readonly pollers?: lambda.ProvisionedPollerConfig;

  /**
   * Your own key for the handler's log. Unless it is imported, its policy gets the permission for CloudWatch Logs.
   *
   * @default - CloudWatch's own key
   */
  readonly logEncryptionKey?: kms.IKey;

  /** Your own key for the handler's variables.
   *
   * @default - Lambda's own key
   */
  readonly environmentEncryptionKey?: kms.IKey;

  /** The code signing configuration of the handler. First sign the package's code, or the code that `source` builds.
   *
   * @default - none
   */
  readonly codeSigningConfig?: lambda.ICodeSigningConfig;

  /**
   * The permissions boundary of all roles that the construct creates: the handler's, and with `deploymentConfig`
   * CodeDeploy's.
   *
   * @default - none
   */
  readonly permissionsBoundary?: iam.IManagedPolicy;

  /**
   * How a new version of the handler replaces the previous one, such as
   * `LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES`. CodeDeploy rolls it back if it fails.
   * @default - all at once, without versions
   */
  readonly deploymentConfig?: codedeploy.ILambdaDeploymentConfig;
}

/** The limits of pollers for one queue. */
const POLLERS_MIN = 2;
const MINIMUM_POLLERS_MAX = 200;
const MAXIMUM_POLLERS_MAX = 2000;

/** The actions that connect a function to a VPC. EC2 doesn't support resource-level permissions for them. */
export const USE_VPC = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
];

/** Reports values that Lambda would refuse, or that would throttle the handler. */
export function checkHardening(
  props: HardeningProps & { readonly maxConcurrency?: number },
  maxConcurrency: number,
  faults: Faults,
): void {
  const { reservedConcurrency, pollers } = props;
  if (pollers) {
    const { minimumPollers = POLLERS_MIN, maximumPollers } = pollers;
    checkWhole('pollers.minimumPollers', minimumPollers, POLLERS_MIN, MINIMUM_POLLERS_MAX, faults);
    checkWhole('pollers.maximumPollers', maximumPollers, minimumPollers, MAXIMUM_POLLERS_MAX, faults);
    if (props.maxConcurrency !== undefined) faults.note('maxConcurrency and pollers exclude each other');
  } else if (reservedConcurrency !== undefined && !Token.isUnresolved([reservedConcurrency, maxConcurrency])) {
    if (reservedConcurrency < maxConcurrency)
      faults.add('reservedConcurrency', `at least maxConcurrency, ${maxConcurrency}`, reservedConcurrency);
  }
}

/** Lets CloudWatch Logs use a key for the log groups of this account and region. */
export function allowLogsToUse(scope: IConstruct, key: kms.IKey): void {
  const { account, region, partition } = Stack.of(scope);
  const { statementAdded } = key.addToResourcePolicy(
    new iam.PolicyStatement({
      principals: [new iam.ServicePrincipal(`logs.${region}.amazonaws.com`)],
      actions: ['kms:Encrypt', 'kms:Decrypt', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:Describe*'],
      resources: ['*'],
      conditions: {
        ArnLike: { 'kms:EncryptionContext:aws:logs:arn': `arn:${partition}:logs:${region}:${account}:log-group:*` },
      },
    }),
  );
  if (!statementAdded) {
    Annotations.of(scope).addWarningV2(
      'comeback:log-key',
      `the policy of ${key.node.path} can't be changed here: it must let logs.${region}.amazonaws.com use the key for the handler's log`,
    );
  }
}
