import { aws_lambda as lambda, CfnResource, Stack, Token } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import { Faults } from './faults';

/** The qualifier of a function that is invoked without one. */
const LATEST = '$LATEST';

/** A function, an alias or a version whose failures are to be retried, and what is known of it. */
export class Target {
  /** The function itself, without alias or version. */
  public readonly base: lambda.IFunction;
  /** What is invoked of it. */
  public readonly qualifier: string;
  /** The function's resource; an imported function has none. */
  public readonly resource?: lambda.CfnFunction;

  constructor(public readonly attached: lambda.IFunction) {
    this.base = unqualified(attached);
    this.qualifier = qualifierOf(attached);
    const resource = this.base.node.defaultChild;
    this.resource = isOfType<lambda.CfnFunction>(resource, lambda.CfnFunction.CFN_RESOURCE_TYPE_NAME) ? resource : undefined;
  }

  /** The path by which an error names it. */
  public get path(): string {
    return this.attached.node.path;
  }

  /** Whether both are the same function, whatever is invoked of it. */
  public isSameFunction(other: Target): boolean {
    return this.base === other.base || this.base.functionArn === other.base.functionArn;
  }

  /** Whether both are the same function with the same qualifier, which Lambda configures once. */
  public isSame(other: Target): boolean {
    return this.isSameFunction(other) && this.qualifier === other.qualifier;
  }

  /** Notes where it does not live with what is to retry it: neither a destination nor a template reaches further. */
  public checkHome(scope: IConstruct, faults: Faults): void {
    const home = Stack.of(scope);
    for (const part of ['account', 'region'] as const) {
      const [here, there] = [home[part], this.base.env[part]];
      if (![here, there].some((value) => Token.isUnresolved(value)) && here !== there) {
        faults.note(`it must be in the ${part} of its retries, ${here}, and is in ${there}`);
      }
    }
    const arn = this.base.functionArn;
    if (!Token.isUnresolved(arn) && arn.split(':').length > FUNCTION_ARN_PARTS) {
      faults.note(`its ARN must be without a qualifier, got ${arn}: import the alias with Alias.fromAliasAttributes`);
    }
  }

  /** The event invoke configs that others made for it. */
  public configsBesides(own?: lambda.CfnEventInvokeConfig): lambda.CfnEventInvokeConfig[] {
    return this.base.node.root.node.findAll().filter((each): each is lambda.CfnEventInvokeConfig =>
      isOfType<lambda.CfnEventInvokeConfig>(each, lambda.CfnEventInvokeConfig.CFN_RESOURCE_TYPE_NAME)
      && each !== own && this.isConfiguredBy(each));
  }

  private isConfiguredBy(config: lambda.CfnEventInvokeConfig): boolean {
    const name = (value: string, stack: Stack) => JSON.stringify([stack.resolve(value)]);
    const [theirs, ours] = [Stack.of(config), Stack.of(this.base)];
    return config.qualifier === this.qualifier
      && (config.functionName === this.base.functionName
        || (theirs === ours && name(config.functionName, theirs) === name(this.base.functionName, ours)));
  }
}

/** `arn:aws:lambda:us-east-1:123456789012:function:orders`. */
const FUNCTION_ARN_PARTS = 7;

/** Whether a construct is a resource of this type; by its type, as an app may have several copies of the CDK. */
function isOfType<T extends CfnResource>(construct: IConstruct | undefined, type: string): construct is T {
  return construct !== undefined && CfnResource.isCfnResource(construct) && construct.cfnResourceType === type;
}

/** An id for what is made for a construct: it stays the same when others come and go. */
export function ownId({ node }: IConstruct): string {
  return `${node.id}-${node.addr.slice(-8)}`;
}

function unqualified(target: lambda.IFunction): lambda.IFunction {
  return 'lambda' in target ? (target as lambda.IVersion).lambda : target;
}

function qualifierOf(target: lambda.IFunction): string {
  if ('aliasName' in target) return (target as lambda.IAlias).aliasName;
  if ('version' in target && 'lambda' in target) return (target as lambda.IVersion).version;
  return LATEST;
}
