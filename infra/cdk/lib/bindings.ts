import { aws_sqs as sqs, CfnResource, Stack, Token } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import type { Attached } from './attached';
import type { AsyncRetryProps } from './props';
import type { Records } from './records';
import type { RetryQueues } from './retry-queues';
import { Target } from './target';
import { errorsOf, generalVariables, Variables, variables } from './variables';

/** Lambda's limit for all variables of a function, including their names. */
const VARIABLES_MAX = 4096;

/** The limits of Lambda and SQS for names. CloudFormation's generated names may be this long. */
const FUNCTION_NAME_MAX = 64;
const QUEUE_NAME_MAX = 80;

/** CloudFormation generates names from the names of stack and resource and 12 random characters, with hyphens. */
const GENERATED_LENGTH = 14;

/** The length of the other variables: the dead-letter queue's URL, the ledger's name, and short settings. */
const OTHERS_LENGTH = 288;

/** The targets that messages of each queue may name, by the names of the queues. */
export function queueTargets({ targets }: Attached, queues: RetryQueues): { [queue: string]: string[] } {
  if (targets.length === 0) return {};
  const ofQueues = queues.all.map(({ queue, owner }) => [queue.queueName, owner ? [owner] : targets] as const);
  return Object.fromEntries(ofQueues.map(([queue, each]) => [queue, each.map(({ name }) => name)]));
}

/** The policies of the targets that have one, by name, and the errors of all functions. */
export function ownPolicies(
  options: AsyncRetryProps,
  { attachments, queues }: Attached,
): { [name: string]: Variables } {
  const all = [
    ['*', errorsOf(options)] as const,
    ...attachments.map(({ target, policy }) => [target.base.functionName, variables(policy)] as const),
    ...queues.map(({ source, policy }) => [source.name, variables(policy)] as const),
  ];
  return Object.fromEntries(all.filter(([, values]) => Object.keys(values).length > 0));
}

/** The JSON of an environment variable, or undefined to leave out an empty one. */
export function jsonOf(scope: IConstruct, value: object): string | undefined {
  return Object.keys(value).length > 0 ? Stack.of(scope).toJsonString(value) : undefined;
}

/** What the handler's variables are about. */
export interface Bound {
  readonly options: AsyncRetryProps;
  readonly attached: Attached;
  readonly queues: RetryQueues;
  readonly records?: Records;
}

/** Checks the length of the variables at synthesis, because Lambda would refuse them only during the deployment. */
export function checkLength(scope: IConstruct, { options, attached, queues, records }: Bound, plan: string): void {
  const bucket = records && { RECORD_BUCKETS: records.bucket.bucketName };
  const written = [
    generalVariables(options),
    bucket ?? {},
    queueTargets(attached, queues),
    ownPolicies(options, attached),
  ];
  const functions = attached.targets.flatMap((each) => (each.function ? [new Target(each.function)] : []));
  const length = estimatedLength(written, functions, [
    ...queues.all.map(({ queue }) => queue),
    ...attached.targets.filter((each) => !each.function).map(({ construct }) => construct as sqs.IQueue),
  ]);
  if (length <= VARIABLES_MAX) return;
  const sharing = options.sharedQueue ? '' : 'let the functions share a queue (sharedQueue), ';
  throw new Error(
    `AsyncRetry ${scope.node.path} can't ${plan}: the handler's variables would have about ${length} characters, ` +
      `and Lambda takes ${VARIABLES_MAX}: ${sharing}make another AsyncRetry for some functions, or give fewer of them policies of their own`,
  );
}

/**
 * Estimates the length of the handler's variables. Each name that CloudFormation generates counts with the length that
 * it will have.
 */
export function estimatedLength(written: unknown, targets: Target[], queues: sqs.IQueue[]): number {
  const lengths = new Map([
    ...targets.map(
      ({ base, resource, knownName }) =>
        [base.functionName, knownName?.length ?? generatedLength(resource, FUNCTION_NAME_MAX)] as const,
    ),
    ...queues.map(
      ({ queueName, node }) => [queueName, generatedLength(node.defaultChild as CfnResource, QUEUE_NAME_MAX)] as const,
    ),
  ]);
  const text = JSON.stringify(written).replace(/\$\{Token\[[^\]]*\]\}/g, (token) =>
    'x'.repeat(lengths.get(token) ?? FUNCTION_NAME_MAX),
  );
  return OTHERS_LENGTH + text.length;
}

function generatedLength(resource: CfnResource | undefined, max: number): number {
  if (resource === undefined) return max;
  const stack = Stack.of(resource);
  if (Token.isUnresolved(stack.stackName)) return max;
  return Math.min(max, stack.stackName.length + stack.getLogicalId(resource).length + GENERATED_LENGTH);
}
