/*
 * Retries failed asynchronous Lambda events. `AsyncRetry` is the whole system; all other exports are its options.
 *
 *     retry-policy.ts           how long, how often and after which errors events are retried
 *     effective-policy.ts       a function's own values over the general ones, and these over the defaults
 *     policy-checks.ts          what is wrong with a policy, by the handler's rules
 *     variables.ts              a policy as the handler's variables
 *     props.ts                  the properties of the system, and their limits
 *     async-retry.ts            the system: its queues, its handler, and how functions and queues are attached
 *     attached.ts               what is attached so far
 *     bindings.ts               the handler's variables about what is attached, and their length
 *     target.ts                 a function to attach
 *     attachable.ts             why a function can't be attached
 *     attachment.ts             the settings of an attached function
 *     senders.ts                the roles that may send failures
 *     attached-queue.ts         the settings of an attached queue
 *     attached-rule.ts          a rule of EventBridge that could not deliver to one of its targets
 *     attached-schedule.ts      a schedule that could not deliver to its target
 *     attached-stream.ts        a stream whose batches a function could not process
 *     receiver.ts               the target of a rule or a schedule
 *     queues.ts                 queues that only a few principals may use: the retry queue and the dead-letter queue
 *     retry-queues.ts           one retry queue for each target, or one for all functions, and one for redrives
 *     handler.ts                the function that decides about failed events, and its permissions
 *     hardening.ts              options that follow an organization's rules
 *     records.ts                the bucket of failure records that may be too large for a queue
 *     ledger.ts                 the table of handled failures, and of waiting events
 *     operators.ts              the permissions of readers, operators and those who redrive
 *     tags.ts                   the tags by which a program finds the parts of a system
 *     code.ts                   the code of the handler, shipped or built
 *     contract.ts               the handler's settings, the names in its table, and prices
 *     settings.ts               the settings that have a property
 *     durations.ts              durations as the handler writes them
 *     checks.ts                 checks of single values
 *     faults.ts                 collects all errors into one message
 *     metrics.ts, dashboard.ts  monitoring
 *     metric-methods.ts         a method for each metric of the handler
 *     alarms.ts                 the alarms, their settings and actions
 *     triggers.ts               when each alarm goes off, and what to do then
 */
export { AlarmSettings, AlarmsProps } from './alarms';
export * from './async-retry';
export { RetryDashboardProps } from './dashboard';
export { HardeningProps } from './hardening';
export { RetryMetricOptions } from './metrics';
export { AsyncRetryProps, AttachOptions, AttachQueueOptions } from './props';
export { ErrorPolicy, Jitter, RetryPolicy } from './retry-policy';
export { AlarmSeverity } from './triggers';
