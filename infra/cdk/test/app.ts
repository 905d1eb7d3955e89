import { App, aws_lambda as lambda, Stack, StackProps } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import { AsyncRetry, AsyncRetryProps } from '../lib';

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
    return Annotations.fromStack(this)
      .findWarning('*', Match.anyValue())
      .map(({ entry }) => String(entry.data));
  }

  /** The permissions of a role or a user, by its logical id. */
  public statementsOf(pattern: RegExp): any[] {
    return Object.values(this.template.findResources('AWS::IAM::Policy'))
      .filter(({ Properties }) => pattern.test(JSON.stringify(Properties.Roles ?? Properties.Users)))
      .flatMap(({ Properties }) => Properties.PolicyDocument.Statement);
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

/** The message of the error that `build` throws. */
export function errorOf(build: () => unknown): string {
  try {
    build();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('expected an error, got none');
}
