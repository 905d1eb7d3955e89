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
import { checkWhole } from './retry-policy';

/** How the handler runs and is deployed where an organization has rules for that. */
export interface HardeningProps {
  /**
   * The network of the handler. It must reach SQS, Lambda and, with a ledger, DynamoDB, and with probes CloudWatch:
   * by endpoints in the VPC, or through a NAT gateway.
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
   * How many invocations of the handler may run at once, for all queues together. The account keeps as many free.
   *
   * @default - as many as the account has
   */
  readonly reservedConcurrency?: number;

  /**
   * Pollers that are always there, instead of `maxConcurrency`, for each retry queue: 2 to 200 at least, and 2 to 2,000
   * at most. They receive more messages a second, and cost money by the hour.
   *
   * @default - Lambda's own pollers
   */
  readonly pollers?: lambda.ProvisionedPollerConfig;

  /**
   * A key of your own for the handler's log. Its policy gets the permission for CloudWatch Logs, unless it is imported.
   *
   * @default - CloudWatch's own key
   */
  readonly logEncryptionKey?: kms.IKey;

  /**
   * A key of your own for the handler's variables.
   *
   * @default - Lambda's own key
   */
  readonly environmentEncryptionKey?: kms.IKey;

  /**
   * The code signing configuration of the handler. Sign what the package contains, or what `source` builds, first.
   *
   * @default - none
   */
  readonly codeSigningConfig?: lambda.ICodeSigningConfig;

  /**
   * The boundary of all roles that the construct makes: that of the handler, and with `deploymentConfig` of CodeDeploy.
   *
   * @default - none
   */
  readonly permissionsBoundary?: iam.IManagedPolicy;

  /**
   * How a new version of the handler takes over from the one before, such as
   * `LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES`. CodeDeploy rolls it back if it fails.
   *
   * @default - at once, without versions
   */
  readonly deploymentConfig?: codedeploy.ILambdaDeploymentConfig;
}

/** The limits of pollers for one queue. */
const POLLERS_MIN = 2;
const MINIMUM_POLLERS_MAX = 200;
const MAXIMUM_POLLERS_MAX = 2000;

/** The actions by which Lambda connects a function to a VPC. EC2 has no resources that a policy could name for them. */
export const USE_VPC = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
];

/** Notes what Lambda would refuse, or what would throttle the handler. */
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
export function letLogsUse(scope: IConstruct, key: kms.IKey): void {
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
