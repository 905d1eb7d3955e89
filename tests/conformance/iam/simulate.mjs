// Asks a simulator of IAM about calls and the policy that must allow them, alone, with a service control policy (SCP)
// and with a permissions boundary. Reads [{who, policy, calls}] as JSON from standard input, where a call is
// [action, resource]. Prints a line for each complaint, and then the number of decisions:
//
//     node simulate.mjs NODE_MODULES
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const { runSimulation } = createRequire(`${process.argv[2]}/`)('@cloud-copilot/iam-simulate');

const accountId = '000000000000';

const document = (...statements) => ({ Version: '2012-10-17', Statement: statements });
const EVERYTHING = document({ Effect: 'Allow', Action: '*', Resource: '*' });

async function decision([action, resource], policy, scp, boundary) {
  const principal = `arn:aws:iam::${accountId}:role/operator`;
  const named = (policy) => [{ name: 'policy', policy }];
  const simulated = await runSimulation(
    {
      request: { principal, action, resource: { resource, accountId }, contextVariables: {} },
      identityPolicies: named(policy),
      serviceControlPolicies: [{ orgIdentifier: 'o-1', policies: named(scp) }],
      resourceControlPolicies: [],
      permissionBoundaryPolicies: named(boundary),
    },
    {},
  );
  return simulated.overallResult ?? JSON.stringify(simulated.errors);
}

let decisions = 0;
for (const { who, policy, calls } of JSON.parse(readFileSync(0, 'utf8'))) {
  if (calls.length === 0) {
    console.log(`${who}: expected calls, got none`);
  }
  for (const call of calls) {
    const [action] = call;
    const denial = { Effect: 'Deny', Action: action, Resource: '*' };
    const others = document({ Effect: 'Allow', NotAction: action, Resource: '*' });
    const rest = policy.Statement.map((it) => ({ ...it, Action: it.Action.filter((each) => each !== action) }));
    for (const [what, expected, ...policies] of [
      ['its policy', 'Allowed', policy, EVERYTHING, EVERYTHING],
      ['its policy as the boundary', 'Allowed', EVERYTHING, EVERYTHING, policy],
      ['an SCP that denies it', 'ExplicitlyDenied', policy, document(...EVERYTHING.Statement, denial), EVERYTHING],
      ['an SCP without it', 'ImplicitlyDenied', policy, others, EVERYTHING],
      ['a boundary without it', 'ImplicitlyDenied', policy, EVERYTHING, others],
      [
        'its policy without it',
        'ImplicitlyDenied',
        document(...rest.filter((it) => it.Action.length)),
        EVERYTHING,
        EVERYTHING,
      ],
    ]) {
      const got = await decision(call, ...policies);
      decisions += 1;
      if (got !== expected) {
        console.log(`${who}: ${call.join(' on ')} with ${what}: expected ${expected}, got ${got}`);
      }
    }
  }
}
console.log(decisions);
