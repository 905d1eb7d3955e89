import { aws_lambda as lambda, Stack, Token } from 'aws-cdk-lib';
import { IConstruct } from 'constructs';
import type { Attached } from './attached';
import { effectivePolicy } from './effective-policy';
import { Faults } from './faults';
import { checkPolicy } from './policy-checks';
import type { AsyncRetryProps } from './props';
import type { RetryPolicy } from './retry-policy';
import { destinationsOf, Target } from './target';
import { variables } from './variables';

/** A shared queue's policy names the functions' roles. More might not fit into its 8 KB. */
const SHARING_MAX = 50;

/** What a function is to be attached to. */
export interface AttachScope {
  readonly scope: IConstruct;
  readonly handler: lambda.IFunction;
  readonly options: AsyncRetryProps;
  readonly attached: Attached;
  readonly hasBucket: boolean;
}

/** Throws one error that lists all reasons why a function can't be attached with a policy of its own. */
export function checkAttachable(to: AttachScope, target: Target, policy: RetryPolicy, records: boolean): void {
  const { scope, handler, options, attached, hasBucket } = to;
  const faults = new Faults();
  const ofFunction = attached.of(target);
  const written = (own: RetryPolicy) => JSON.stringify(Stack.of(scope).resolve(variables(own)));
  if (ofFunction.some((each) => each.target.isSame(target))) {
    faults.note('it is attached already');
  } else if (target.base === handler) {
    faults.note('it is the retry handler itself');
  } else {
    if (ofFunction.some((each) => written(each.policy) !== written(policy))) {
      faults.note(
        "its policy must be that of the function's other attachments: the handler knows functions only by name, without alias or version",
      );
    }
    if (options.sharedQueue && attached.functions.length >= SHARING_MAX && ofFunction.length === 0) {
      faults.note(
        `${SHARING_MAX} functions share the queue, and its policy has no room for more roles: make another AsyncRetry`,
      );
    }
    target.checkHome(scope, faults);
    const effective = effectivePolicy(options, policy);
    checkPolicy(effective, faults);
    checkFunction(target, effective, faults);
    if (effective.transparent && !options.ledger) {
      faults.note(
        'transparent needs the ledger, which notes what an envelope would say: set ledger of the AsyncRetry to true, or ' +
          'let the function read the envelope and leave transparent out',
      );
    }
    if (records && !hasBucket) {
      faults.note(
        'records needs a bucket: set records of the AsyncRetry to true, or recordBucket to a bucket of your own',
      );
    }
  }
  faults.throwIfAny(`AsyncRetry ${scope.node.path} can't attach ${target.path}`);
}

/** Reports settings of a function with which its failures would not come back. */
function checkFunction(target: Target, policy: RetryPolicy, faults: Faults): void {
  target.checkLoop(faults);
  if (target.resource?.tenancyConfig && !policy.tenantId) {
    faults.note(
      'tenantId must be the place of the tenant id in its payload, such as /tenant/id: it has tenant isolation',
    );
  }
  if (target.resource?.durableConfig) {
    faults.note(
      'it is a durable function, which has no destinations: make a retry queue its dead-letter queue, as docs/functions.md says',
    );
  }
  const { ownConfig: config } = target;
  if (config && Token.isUnresolved(config.destinationConfig)) {
    faults.note(`its event invoke config at ${config.node.path} can't be read`);
  } else if (config && destinationsOf(config).onFailure) {
    faults.note(`it already has another on-failure destination, by ${config.node.path}`);
  }
  if (config?.maximumRetryAttempts) {
    const got = Token.isUnresolved(config.maximumRetryAttempts) ? 'a token' : config.maximumRetryAttempts;
    faults.note(
      `retryAttempts must not be set: Lambda's own retries would come before the first failure is known, got ${got}`,
    );
  }
}
