import { aws_iam as iam } from 'aws-cdk-lib';

/**
 * How many resources a statement has at most. CDK moves whole statements to further policies when one is full, so none
 * may be longer than a managed policy can be, 6,144 characters.
 */
const RESOURCES_MAX = 24;

/** The conditions of a statement: operator, key and values. */
export type Conditions = { [operator: string]: { [key: string]: string[] } };

/** Adds resources to the statement of the same actions and conditions, so that policies stay short. */
export class Statements {
  private readonly known = new Map<string, iam.PolicyStatement>();

  /** The function adds a statement to a policy, and returns it. */
  constructor(private readonly add: (statement: iam.PolicyStatement) => iam.PolicyStatement | undefined) {}

  /** Allows these actions on these resources. */
  public allow(actions: string[], resources: string[], conditions: Conditions = {}): void {
    const key = JSON.stringify([actions, conditions]);
    const known = this.known.get(key);
    if (known && !known.frozen && known.resources.length + resources.length <= RESOURCES_MAX) {
      known.addResources(...resources);
      return;
    }
    const added = this.add(new iam.PolicyStatement({ actions, resources, conditions }));
    if (added) this.known.set(key, added);
  }
}
