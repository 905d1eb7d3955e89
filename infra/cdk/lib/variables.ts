import { CfnResource, Stack, Token } from 'aws-cdk-lib';
import { RetryQueue } from './retry-queue';
import { Target } from './target';

/** Lambda's limit for all variables of a function, including their names. */
export const VARIABLES_MAX = 4096;

/** The limits of Lambda and SQS for names. CloudFormation's generated names may be this long. */
const FUNCTION_NAME_MAX = 64;
const QUEUE_NAME_MAX = 80;

/** CloudFormation generates names from the names of stack and resource and 12 random characters, with hyphens. */
const GENERATED_LENGTH = 14;

/** The length of the other variables: the dead-letter queue's URL, the ledger's name, and short settings. */
const OTHERS_LENGTH = 288;

/**
 * Estimates the length of the handler's variables. Each name that CloudFormation generates counts with the length that
 * it will have.
 */
export function estimatedLength(written: unknown, targets: Target[], queues: RetryQueue[]): number {
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
