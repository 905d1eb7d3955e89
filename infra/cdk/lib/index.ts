/*
 * Failed asynchronous Lambda events come back. `AsyncRetry` is the whole system; everything else here is its input
 * or output.
 *
 * retry-policy.ts     how long, how often and after which errors events are retried
 * props.ts            the properties of the system, and their limits
 * async-retry.ts      the system: its queues, its handler, and how functions are attached
 * target.ts           a function to attach, and what is known about it
 * attachment.ts       the settings of an attached function
 * closed-queue.ts     a queue that is closed to all but a few principals
 * retry-queue.ts      a queue where failed events wait
 * retry-queues.ts     one queue for each function, or one for all, and one for redrives
 * dead-letter-queue.ts   the queue of events that were given up
 * senders.ts          the roles that may send failures
 * handler.ts          the function that decides about failed events, and its permissions
 * hardening.ts        how the handler runs and is deployed where an organization has rules for that
 * ledger.ts           the table of handled failures, and of waiting events
 * statements.ts        the permissions of a principal, in few statements
 * operators.ts        the permissions of people who look at the system and act on it
 * tags.ts             the tags by which a program finds the parts of a system
 * variables.ts        how long the handler's variables will be
 * envelope-proxy.ts   the layer that hides the envelope from a function
 * code.ts             the code of the handler and the layer, shipped or built
 * faults.ts           collects all errors into one message
 * metrics.ts, dashboard.ts   monitoring
 * alarms.ts           the alarms, their settings and actions
 * triggers.ts         when each alarm goes off, and what to do then
 */
export { AlarmSettings, AlarmsProps } from './alarms';
export * from './async-retry';
export { RetryDashboardProps } from './dashboard';
export { HardeningProps } from './hardening';
export { RetryMetricOptions } from './metrics';
export { AsyncRetryProps, AttachOptions } from './props';
export { Jitter, RetryPolicy } from './retry-policy';
export { AlarmSeverity } from './triggers';
