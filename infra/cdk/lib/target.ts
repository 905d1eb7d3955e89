import { Annotations, aws_lambda as lambda, aws_sqs as sqs, CfnResource, Stack, Token } from 'aws-cdk-lib';
import { Construct, IConstruct } from 'constructs';
import { Faults } from './faults';

/** The qualifier of an unqualified function. */
const LATEST = '$LATEST';

/** The number of parts of `arn:aws:lambda:us-east-1:123456789012:function:orders`. */
const FUNCTION_ARN_PARTS = 7;

/** A function, an alias or a version whose failures are retried. */
export class Target {
  /** The function itself, without alias or version. */
  public readonly base: lambda.IFunction;
  /** The qualifier by which it is invoked. */
  public readonly qualifier: string;
  /** The function's resource; an imported function has none. */
  public readonly resource?: lambda.CfnFunction;

  constructor(public readonly attached: lambda.IFunction) {
    this.base = unqualified(attached);
    this.qualifier = qualifierOf(attached);
    // Not the function's own node, because the resource of a singleton function is below another node.
    const resource = this.base.permissionsNode.defaultChild;
    this.resource = isOfType<lambda.CfnFunction>(resource, lambda.CfnFunction.CFN_RESOURCE_TYPE_NAME)
      ? resource
      : undefined;
  }

  /** What is retried: the function, without alias or version. */
  public get retried(): Retried {
    const { base } = this;
    return { name: base.functionName, arn: base.functionArn, construct: base, function: base };
  }

  /** The ARNs by which failure records may name this qualifier. */
  public get ownArns(): string[] {
    const { functionArn } = this.base;
    return [...(this.qualifier === LATEST ? [functionArn] : []), `${functionArn}:${this.qualifier}`];
  }

  /** The construct path, which identifies the target in errors. */
  public get path(): string {
    return this.attached.node.path;
  }

  /** The function's name, unless CloudFormation generates it. */
  public get knownName(): string | undefined {
    // If it was imported by name, `functionName` is a token, because the CDK takes it from an ARN with a token.
    const name = this.resource ? this.resource.functionName : this.base.functionArn.split(':')[FUNCTION_ARN_PARTS - 1];
    return Token.isUnresolved(name) ? undefined : name;
  }

  /** Whether both are the same function, whatever their qualifiers. */
  public isSameFunction(other: Target): boolean {
    return (
      this.base.functionArn === other.base.functionArn ||
      (this.knownName !== undefined && this.knownName === other.knownName)
    );
  }

  /** Whether both are the same function with the same qualifier, which Lambda configures once. */
  public isSame(other: Target): boolean {
    return this.isSameFunction(other) && this.qualifier === other.qualifier;
  }

  /** The version that the CDK publishes with each change of the function, if the app uses it. */
  public get currentVersion(): lambda.Version | undefined {
    return this.base.node.tryFindChild('CurrentVersion') as lambda.Version | undefined;
  }

  /** The construct below which the CDK puts its event invoke config. */
  public get configured(): Construct {
    return (this.qualifier === LATEST ? this.base : this.attached) as unknown as Construct;
  }

  /** The event invoke config that the construct was created with. */
  public get ownConfig(): lambda.CfnEventInvokeConfig | undefined {
    const config = this.configured.node.tryFindChild(CONFIG_ID)?.node.defaultChild;
    return isEventInvokeConfig(config) ? config : undefined;
  }

  /** Whether an event invoke config is one of this function and qualifier. */
  public isConfiguredBy(config: lambda.CfnEventInvokeConfig): boolean {
    if (config === this.ownConfig) return true;
    const stack = Stack.of(config);
    const isHere = stack.account === this.base.env.account && stack.region === this.base.env.region;
    const resolved = (value: string) => JSON.stringify(stack.resolve(value));
    const isOneOf = (value: string, candidates: string[]) =>
      candidates.includes(value) ||
      (stack === Stack.of(this.base) && candidates.map(resolved).includes(resolved(value)));
    const { functionArn, functionName } = this.base;
    return (
      (isOneOf(config.functionName, [functionName, functionArn]) ||
        (isHere && config.functionName === this.knownName)) &&
      isOneOf(config.qualifier, [this.qualifier])
    );
  }

  /** Reports a function that Lambda would stop after about 16 retries. */
  public checkLoop(faults: Faults, whose = ''): void {
    if (this.resource?.recursiveLoop === lambda.RecursiveLoop.TERMINATE) {
      faults.note(
        `${whose}recursiveLoop must be Allow, or not set: Lambda would stop its retries after about 16, got Terminate`,
      );
    }
  }

  /** Lets Lambda invoke the function in a loop, or warns in a scope how to. */
  public allowLoop(scope: IConstruct): void {
    const { resource, knownName = 'NAME' } = this;
    if (resource) {
      resource.recursiveLoop = lambda.RecursiveLoop.ALLOW;
    } else {
      Annotations.of(scope).addWarningV2(
        'comeback:recursion',
        `${this.path}: its RecursiveLoop can't be set from here, and Lambda would stop its retries after about 16: ` +
          `run aws lambda put-function-recursion-config --recursive-loop Allow --function-name ${knownName}`,
      );
    }
  }

  /** What has changed since `allowLoop`. */
  public get forbiddenLoop(): string[] {
    const loop = this.resource?.recursiveLoop;
    const isAllowed = loop === undefined || loop === lambda.RecursiveLoop.ALLOW;
    return isAllowed ? [] : [`${this.path} must keep recursiveLoop Allow, got ${loop}`];
  }

  /** Reports a target in another account or region than its retries, because destinations can't cross these. */
  public checkHome(scope: IConstruct, faults: Faults): void {
    checkHome('it', this.base, scope, faults);
    const [here, there] = [Stack.of(scope), Stack.of(this.base)].map(({ account, region }) =>
      Token.isUnresolved(account + region),
    );
    if (this.resource && here !== there)
      faults.note('its stack and that of its retries must both have an env, or neither');
    const arn = this.base.functionArn;
    if (arn.split(':').length > FUNCTION_ARN_PARTS) {
      faults.note(`its ARN must be without a qualifier, got ${arn}: import the alias with Alias.fromAliasAttributes`);
    }
  }
}

/** What is retried: a function, or a queue whose consumers failed to process its messages. */
export interface Retried {
  /** Its name in settings and metrics: `orders`, or `sqs:imports`. */
  readonly name: string;
  readonly arn: string;
  readonly construct: lambda.IFunction | sqs.IQueue;
  /** The function, if it is one. */
  readonly function?: lambda.IFunction;
}

/** The id under which the CDK finds a function's own event invoke config. */
export const CONFIG_ID = 'EventInvokeConfig';

/** Whether a construct is the resource of an event invoke config. */
export function isEventInvokeConfig(construct: IConstruct | undefined): construct is lambda.CfnEventInvokeConfig {
  return isOfType(construct, lambda.CfnEventInvokeConfig.CFN_RESOURCE_TYPE_NAME);
}

/** The destinations of an event invoke config. */
export function destinationsOf(
  config: lambda.CfnEventInvokeConfig,
): lambda.CfnEventInvokeConfig.DestinationConfigProperty {
  return (config.destinationConfig ?? {}) as lambda.CfnEventInvokeConfig.DestinationConfigProperty;
}

/** Reports a resource in another account or region than a scope, if both are known. */
export function checkHome(
  what: string,
  { env }: lambda.IFunction | { readonly env: lambda.IFunction['env'] },
  scope: IConstruct,
  faults: Faults,
): void {
  const home = Stack.of(scope);
  for (const part of ['account', 'region'] as const) {
    const [here, there] = [home[part], env[part]];
    if (![here, there].some((value) => Token.isUnresolved(value)) && here !== there) {
      faults.note(`${what} must be in the ${part} of its retries, ${here}, and is in ${there}`);
    }
  }
}

/** An id for resources that belong to a construct. It doesn't change when other constructs are added or removed. */
export function ownId({ node }: IConstruct): string {
  return `${node.id}-${node.addr.slice(-8)}`;
}

/** Whether a construct is a resource of this type. `instanceof` would fail with several copies of the CDK. */
export function isOfType<T extends CfnResource>(construct: IConstruct | undefined, type: string): construct is T {
  return construct !== undefined && CfnResource.isCfnResource(construct) && construct.cfnResourceType === type;
}

function unqualified(target: lambda.IFunction): lambda.IFunction {
  return 'lambda' in target ? (target as lambda.IVersion).lambda : target;
}

function qualifierOf(target: lambda.IFunction): string {
  if ('aliasName' in target) return (target as lambda.IAlias).aliasName;
  return 'lambda' in target ? (target as lambda.IVersion).version : LATEST;
}
