/*
 * Failed asynchronous Lambda events come back. `AsyncRetry` is the whole system; everything else here is
 * what it is told, or tells.
 *
 * retry-policy.ts     how long, how often and after which errors, and its limits
 * props.ts            what the system is told, and its limits
 * async-retry.ts      the system: its queues, its handler, and how functions are attached
 * target.ts           a function that is to be attached, and what is known of it
 * attachment.ts       what is set on its side
 * closed-queue.ts     a queue that is closed to all but a few
 * retry-queue.ts      where failed events wait
 * dead-letter-queue.ts   where they are when they were given up
 * senders.ts          whose roles may send there
 * handler.ts          the function that decides about them, and what it may do
 * envelope-proxy.ts   the layer that hides the envelope from a function
 * code.ts             what is deployed, shipped or built
 * faults.ts           what is wrong with what it is told, all at once
 * metrics.ts, alarms.ts, dashboard.ts   what a person looks at
 */
export { AlarmsProps } from './alarms';
export * from './async-retry';
export { RetryDashboardProps } from './dashboard';
export { RetryMetricOptions } from './metrics';
export { AsyncRetryProps, AttachOptions } from './props';
export { Jitter, RetryPolicy } from './retry-policy';
