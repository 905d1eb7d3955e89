import { CfnResource, Stack, Tags } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';

/** The tag that identifies the system. It has the same value on all parts. */
const SYSTEM = 'comeback:system';

/** The tag that says which part of the system a resource is. */
const ROLE = 'comeback:role';

/** Tag values have at most 256 characters, and stack names up to 128. */
const PATH_LENGTH_MAX = 127;

/** Characters that the CDK allows in construct ids, but AWS refuses in tag values. */
const REFUSED = /[^\p{L}\p{N} _.:/=+@-]/gu;

/** Tags a part of a system, so that a program can find it in the account. */
export function tagPart(
  system: IConstruct,
  part: IConstruct,
  role: 'retry-queue' | 'dead-letter-queue' | 'handler' | 'ledger' | 'records',
): void {
  // Other resources below the part, such as a queue's mapping, get no tags.
  const { cfnResourceType } = part.node.defaultChild as CfnResource;
  const only = { includeResourceTypes: [cfnResourceType] };
  Tags.of(part).add(SYSTEM, nameOf(system), only);
  Tags.of(part).add(ROLE, role, only);
}

/** The name of the stack and the path in it, which are unique in an account's region. */
function nameOf({ node: { scopes } }: IConstruct): string {
  const stack = Stack.of(scopes[scopes.length - 1]);
  const ids = scopes.slice(scopes.indexOf(stack) + 1).map(({ node }) => node.id);
  return `${stack.stackName}/${ids.join('/').replace(REFUSED, '-').slice(0, PATH_LENGTH_MAX)}`;
}
