import { App, aws_lambda as lambda, Stack, StackProps } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AsyncRetryProps } from '../lib';
import { propertyOf, SETTINGS } from '../lib/contract';

/** All that an alarm may need: the ledger, and the handler's flags. */
export const EVERYTHING_ON: AsyncRetryProps = Object.fromEntries(
  Object.entries(SETTINGS)
    .filter(([, { scope, type }]) => scope === 'handler' && type === 'flag')
    .map(([name]) => [propertyOf(name), true])
    .concat([['ledger', true]]),
);

/** The warnings of synthesis, without the one that all stacks have which name nobody who may look at dead letters. */
export function warningsIn(stack: Stack): string[] {
  return allWarningsIn(stack).filter((text) => !text.includes('comeback:dead-letters-unreadable'));
}

export function allWarningsIn(stack: Stack): string[] {
  return Annotations.fromStack(stack)
    .findWarning('*', Match.anyValue())
    .map(({ entry }) => String(entry.data));
}

/** A stack with retries, and with functions to attach. */
export class TestStack extends Stack {
  public readonly retry: AsyncRetry;

  constructor(props: AsyncRetryProps = {}, stackProps: StackProps = {}) {
    super(new App(), 'Test', stackProps);
    this.retry = new AsyncRetry(this, 'Retry', props);
  }

  /** A new function of this app. */
  public function(id: string, props: Partial<lambda.FunctionProps> = {}): lambda.Function {
    return functionIn(this, id, props);
  }

  public get template(): Template {
    return Template.fromStack(this);
  }

  public get warnings(): string[] {
    return warningsIn(this);
  }

  /** The properties of all resources of a type. */
  public all(type: string): any[] {
    return Object.values(this.template.findResources(type)).map(({ Properties }) => Properties);
  }

  /** The JSON of a variable of the handler, with logical ids in place of references. */
  public json(variable: string): any {
    const value = this.only('AWS::Lambda::Function', /^RetryHandler/).Environment.Variables[variable];
    const parts = value['Fn::Join'][1].map((part: any) => (typeof part === 'string' ? part : idOf(part)));
    return JSON.parse(parts.join(''));
  }

  /** The permissions of a role or a user, by its logical id. */
  public statementsOf(pattern: RegExp): any[] {
    return this.all('AWS::IAM::Policy')
      .filter(({ Roles, Users }) => pattern.test(JSON.stringify(Roles ?? Users)))
      .flatMap(({ PolicyDocument }) => PolicyDocument.Statement);
  }

  /** What a role or a user may do with a resource: the actions of each permission. */
  public actionsOf(pattern: RegExp, resource: RegExp = /./): any[] {
    const found = this.statementsOf(pattern).filter(({ Resource }) => resource.test(JSON.stringify(Resource)));
    return found.map(({ Action }) => Action);
  }

  /** The properties of the only resource of a type whose logical id matches. */
  public only(type: string, id = /./): any {
    const found = Object.entries(this.template.findResources(type)).filter(([logicalId]) => id.test(logicalId));
    if (found.length !== 1) throw new Error(`expected one ${type} like ${id}, got ${found.map(([each]) => each)}`);
    return found[0][1].Properties;
  }
}

/** A stack with retries and one attached function, Orders. */
export function withOrders(props: AsyncRetryProps = {}): TestStack {
  const stack = new TestStack(props);
  stack.retry.attach(stack.function('Orders'));
  return stack;
}

/** A function in any stack. */
export function functionIn(stack: Stack, id: string, props: Partial<lambda.FunctionProps> = {}): lambda.Function {
  return new lambda.Function(stack, id, {
    runtime: lambda.Runtime.PYTHON_3_13,
    handler: 'index.handler',
    code: lambda.Code.fromInline('def handler(event, context): pass'),
    ...props,
  });
}

/** The logical id in a reference, without the hashes of the CDK and of this package. */
export function idOf(reference: any): string {
  return (reference.Ref ?? reference['Fn::GetAtt'][0]).slice(0, -8).replace(/[0-9a-f]{8}$/, '');
}

/** An alias of a function's current version. */
export function aliasOf(of: lambda.Function, aliasName = 'live'): lambda.Alias {
  return new lambda.Alias(Stack.of(of), `Alias-${aliasName}`, { aliasName, version: of.currentVersion });
}

/** A stack of functions and a stack of retries. */
export function twoStacks(app = new App()): { app: App; functions: Stack; retries: Stack } {
  return { app, functions: new Stack(app, 'Functions'), retries: new Stack(app, 'Retries') };
}

/** The message of the error that `build` throws. */
export function errorOf(build: () => unknown): string {
  try {
    build();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('expected an error, got none');
}
