/*
 * Retries failed asynchronous Lambda events. `AsyncRetry` is the whole system; all other exports are its options.
 *
 * retry-policy.ts how long, how often and after which errors events are retried props.ts the properties of the system,
 * and their limits async-retry.ts the system: its queues, its handler, and how functions are attached target.ts a
 * function to attach attachment.ts the settings of an attached function closed-queue.ts a queue that only a few
 * principals may use retry-queue.ts a queue where failed events wait retry-queues.ts one queue for each function, or
 * one for all, and one for redrives dead-letter-queue.ts the queue of events that were given up senders.ts the roles
 * that may send failures handler.ts the function that decides about failed events, and its permissions hardening.ts
 * options that follow an organization's rules ledger.ts the table of handled failures, and of waiting events
 * statements.ts merges permissions into few statements operators.ts the permissions of readers and operators tags.ts
 * the tags by which a program finds the parts of a system variables.ts estimates the length of the handler's variables
 * envelope-proxy.ts the layer that hides the envelope from a function code.ts the code of the handler and the layer,
 * shipped or built faults.ts collects all errors into one message metrics.ts, dashboard.ts monitoring alarms.ts the
 * alarms, their settings and actions triggers.ts when each alarm goes off, and what to do then
 */
export { AlarmSettings, AlarmsProps } from './alarms';
export * from './async-retry';
export { RetryDashboardProps } from './dashboard';
export { HardeningProps } from './hardening';
export { RetryMetricOptions } from './metrics';
export { AsyncRetryProps, AttachOptions } from './props';
export { Jitter, RetryPolicy } from './retry-policy';
export { AlarmSeverity } from './triggers';
