import { aws_iam as iam } from 'aws-cdk-lib';

/**
 * The most resources in a statement. If a policy is full, CDK moves whole statements to another one, so each must fit
 * into a managed policy, 6,144 characters.
 */
const RESOURCES_MAX = 24;

/** The conditions of a statement: operator, key and values. */
export type Conditions = { [operator: string]: { [key: string]: string[] } };

/** Merges permissions with the same actions and conditions into one statement, so that policies stay short. */
export class Statements {
  private readonly known = new Map<string, iam.PolicyStatement>();

  /** `add` adds a statement to a policy, and returns it. */
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
