//! All findings of the doctor: the name, how bad it is, what is wrong, and why that matters. `comeback doctor --list`,
//! the book's table and the page of health read them here.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    Unknown,
    /// The system works, but not as well as it could, or not for long.
    Warning,
    /// Events are lost, or don't come back as they should.
    Bad,
}

/// A kind of finding.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Kind {
    /// A stable name, such as `retention_short`.
    pub name: &'static str,
    /// At worst.
    pub verdict: Verdict,
    /// What is wrong.
    pub problem: &'static str,
    /// Why it matters. A finding may know better.
    pub why: &'static str,
}

macro_rules! kinds {
    ($($constant:ident = $verdict:ident $name:literal, $problem:literal, $why:literal;)*) => {
        $(pub const $constant: Kind = Kind {
            name: $name,
            verdict: Verdict::$verdict,
            problem: $problem,
            why: $why,
        };)*

        /// All kinds, in the order in which the parts of a system are examined.
        pub const ALL: &[Kind] = &[$($constant),*];
    };
}

kinds! {
    HANDLER_INACTIVE = Bad "handler_inactive",
        "the handler's state is not Active",
        "Lambda does not run it.";
    TARGET_INACTIVE = Bad "target_inactive",
        "the function's state is not Active",
        "Lambda does not run it.";
    UPDATE_FAILED = Bad "update_failed",
        "the function's last change failed",
        "It still runs as it was before that change.";
    SETTINGS_BAD = Bad "settings_bad",
        "the handler refuses its settings; the line names each of them",
        "The handler does not start, so no event comes back.";
    SETTING_MISSPELT = Warning "setting_misspelt",
        "a variable looks like a misspelt setting",
        "The handler uses the default of that setting.";
    POLICY_UNKNOWN = Warning "policy_unknown",
        "`POLICIES` names a function that does not exist, or a queue that no other setting names",
        "If it is misspelt, its events have the general policy. Correct or remove it.";
    NOTHING_RETRIED = Bad "nothing_retried",
        "`NON_RETRYABLE_ERRORS` is `*`, so that every failure is dead-lettered at once",
        "Each event is dead-lettered after its first failure, unless the function crashes. Name the errors that a \
         retry can't help, or remove the setting.";
    ERROR_HIDDEN = Warning "error_hidden",
        "a type in `ERRORS` never decides, because an earlier one matches all that it matches",
        "The first type in ERRORS that matches decides. Put the more special one first.";
    ERROR_UNMATCHED = Warning "error_unmatched",
        "a type in `ERRORS` has decided nothing for a day, and another one has; its name may not be as the runtime \
         reports it",
        "If such errors occur, its type is not as the runtime reports it: comeback waiting shows the types.";
    IN_FLIGHT_MAX_HIGH = Warning "in_flight_max_high",
        "`IN_FLIGHT_MAX` is higher than SQS's quota",
        "At its quota a queue delivers nothing more, without an error.";
    HANDLER_VPC = Warning "handler_vpc",
        "the handler runs in a VPC, handles failures, and none of its retries was accepted for a day: its subnets \
         may lack a route to Lambda and SQS",
        "If retries were due, its subnets have no route: they need a NAT gateway, or endpoints of Lambda and SQS, \
         and of DynamoDB for a ledger, whose security groups let the handler in.";
    HANDLER_RUNTIME = Bad "handler_runtime",
        "the handler's runtime can't start it",
        "The handler is an executable, which only provided.al2023 and provided.al2 start.";
    HANDLER_TIMEOUT_SHORT = Bad "handler_timeout_short",
        "the handler's time-out is too short for a batch",
        "Batches end before they are handled, and come again.";
    HANDLER_PAUSED = Bad "handler_paused",
        "the handler's reserved concurrency is 0",
        "Nothing runs, so no event comes back.";
    TARGET_PAUSED = Warning "target_paused",
        "the function's reserved concurrency is 0",
        "Its events wait until it may run again.";
    HANDLER_LOOP_STOPPED = Bad "handler_loop_stopped",
        "the handler's RecursiveLoop is not `Allow`",
        "Lambda stops retries after about 16 invocations of a chain.";
    LOOP_STOPPED = Bad "loop_stopped",
        "the function's RecursiveLoop is not `Allow`",
        "Lambda stops its retries after about 16 attempts.";
    LOOPS_STOPPED = Warning "loops_stopped",
        "Lambda has stopped invocations as a loop",
        "The events are in the dead-letter queue, or on their way to it.";
    HANDLER_ERRORS = Warning "handler_errors",
        "invocations of the handler failed",
        "Whole batches come again. Its log says why.";
    HANDLER_THROTTLED = Warning "handler_throttled",
        "invocations of the handler were throttled",
        "Retries come late, and each throttle counts as a receive of the message.";
    TARGET_THROTTLED = Warning "target_throttled",
        "invocations of the function were throttled",
        "Its events run later than they are due.";
    MAPPING_MISSING = Bad "mapping_missing",
        "no mapping receives from a retry queue",
        "Nothing receives from the queue, so its events don't come back.";
    MAPPING_DISABLED = Bad "mapping_disabled",
        "the mapping of a retry queue is disabled",
        "Nothing receives from the queue, so its events don't come back.";
    MAPPING_FAILING = Bad "mapping_failing",
        "the mapping of a retry queue can't receive, or can't invoke the handler",
        "Lambda can't receive, or can't invoke the handler.";
    MAPPING_OF_SOURCE = Bad "mapping_of_source",
        "the handler receives from a queue that is no retry queue, so its messages become dead letters",
        "Its messages become dead letters, and its own consumer doesn't get them.";
    MAPPING_REPORTS_NOTHING = Bad "mapping_reports_nothing",
        "the mapping lacks `ReportBatchItemFailures`",
        "Lambda deletes messages that should wait, so their events are lost.";
    MAPPING_FILTERED = Bad "mapping_filtered",
        "the mapping has a filter",
        "Lambda deletes messages that don't match the filter, so their events are lost.";
    MAPPING_BATCH_SIZE = Warning "mapping_batch_size",
        "the batch size is not ten",
        "Smaller batches cost more calls, and larger ones need a batching window.";
    MAPPING_WINDOW = Warning "mapping_window",
        "there is a batching window",
        "Retries are up to 20 seconds late if the queue is quiet.";
    RETRY_QUEUE_MISSING = Bad "retry_queue_missing",
        "the retry queue doesn't exist",
        "Failed events have nowhere to go, and are lost or stuck.";
    DEAD_LETTER_QUEUE_MISSING = Bad "dead_letter_queue_missing",
        "the dead-letter queue doesn't exist",
        "Failed events have nowhere to go, and are lost or stuck.";
    VISIBILITY_SHORT = Bad "visibility_short",
        "the visibility timeout is less than six times the handler's time-out",
        "Messages are delivered again while the handler still works on them.";
    VISIBILITY_LONG = Warning "visibility_long",
        "the visibility timeout is more than an hour",
        "An event that the handler could not finish comes back only when it ends.";
    RETENTION_SHORT = Bad "retention_short",
        "the retry queue keeps messages for less than 14 days",
        "SQS deletes events that still wait, without a word.";
    DEAD_LETTER_RETENTION = Warning "dead_letter_retention",
        "the dead-letter queue keeps messages for less than 14 days",
        "A letter that SQS moves there keeps its age, and may be deleted at once.";
    REDRIVE_MISSING = Warning "redrive_missing",
        "the retry queue has no redrive policy",
        "A message that the handler can't finish comes again until SQS deletes it.";
    REDRIVE_ELSEWHERE = Warning "redrive_elsewhere",
        "the retry queue's redrive policy names another queue than the dead-letter queue",
        "Those are not in the dead-letter queue of the handler.";
    RECEIVES_FEW = Bad "receives_few",
        "the retry queue's redrive policy has fewer than 1,000 receives",
        "Each wait and each throttle is a receive, so events are given up before their time.";
    QUEUE_DELAYS = Warning "queue_delays",
        "the queue delays every message",
        "A failure is read that much later, and retries may be late.";
    IN_FLIGHT_FULL = Warning "in_flight_full",
        "too many messages are in flight",
        "Further waits are kept as delays, which cost more calls.";
    IN_FLIGHT_QUOTA = Bad "in_flight_quota",
        "messages in flight come near to SQS's quota",
        "The queue delivers nothing more, without an error.";
    QUEUE_SHARED = Bad "queue_shared",
        "another function receives from the retry queue, too",
        "What it receives does not come back.";
    QUEUE_UNBOUND = Bad "queue_unbound",
        "`QUEUE_TARGETS` does not name the queue. Nothing else of it is checked",
        "All of its events are dead-lettered with the reason target_not_allowed.";
    QUEUE_PUBLIC = Bad "queue_public",
        "the policy of a retry queue or of the dead-letter queue lets everyone use it",
        "Anybody may forge failures and letters, read payloads, or delete events.";
    QUEUE_DENIES_HANDLER = Bad "queue_denies_handler",
        "the retry queue's policy denies the handler's role the access that it needs",
        "The handler can't receive failed events, or can't let them wait.";
    DEAD_LETTERS_DENY_HANDLER = Bad "dead_letters_deny_handler",
        "the dead-letter queue's policy denies the handler's role the access that it needs",
        "Events that are given up stay in the retry queue.";
    QUEUE_DENIES_TARGET = Bad "queue_denies_target",
        "the queue's policy denies the function's role the access that it needs",
        "Its failures are lost.";
    HANDLER_LACKS_QUEUE = Bad "handler_lacks_queue",
        "the handler's role lacks permissions on a retry queue",
        "The handler can't receive failed events, or can't let them wait.";
    HANDLER_LACKS_DEAD_LETTERS = Bad "handler_lacks_dead_letters",
        "the handler's role may not send to the dead-letter queue",
        "Events that are given up stay in the retry queue.";
    HANDLER_LACKS_LEDGER = Bad "handler_lacks_ledger",
        "the handler's role lacks permissions on the ledger",
        "The handler can't claim failures, or note what it sends, so events don't come back.";
    HANDLER_MAY_NOT_INVOKE = Bad "handler_may_not_invoke",
        "the handler may not invoke the function",
        "Its events wait until they are given up.";
    ROLE_MAY_NOT_SEND = Bad "role_may_not_send",
        "the function's role may not send to the queue, or put into the bucket",
        "Its failures are lost.";
    ROLE_LACKS_KEY = Warning "role_lacks_key",
        "IAM doesn't allow the handler's or a function's role what it needs on the key of a queue. The key's own \
         policy may still allow it",
        "Unless the key's own policy does, failures are lost, or stay in the retry queue.";
    DEAD_LETTERS_ARE_RETRIED = Bad "dead_letters_are_retried",
        "the dead-letter queue is the retry queue",
        "A dead letter would come back for ever, so the handler refuses to run.";
    DEAD_LETTERS_RETURN = Bad "dead_letters_return",
        "the dead-letter queue has a redrive policy that moves its letters to a retry queue",
        "Looking at a letter a few times brings its event back.";
    MESSAGES_SMALL = Bad "messages_small",
        "a queue refuses messages of 1 MiB, which failures and letters may have",
        "Larger failures and letters are refused. Lambda drops a failure that it can't send.";
    RETRY_QUEUE_URL_WRONG = Bad "retry_queue_url_wrong",
        "`RETRY_QUEUE_URL` is not the queue that the handler receives from",
        "No wait can be set. Events come back when the queue's visibility timeout ends.";
    DEAD_LETTERS = Warning "dead_letters",
        "there are dead letters",
        "These events were given up.";
    DEAD_LETTERS_EXPIRE = Bad "dead_letters_expire",
        "SQS deletes dead letters soon",
        "SQS deletes them when the retention ends.";
    RECORD_BUCKET_MISSING = Bad "record_bucket_missing",
        "`RECORD_BUCKETS` names a bucket that does not exist",
        "Lambda can put no records there: failures are lost.";
    RECORD_BUCKET_UNLISTED = Bad "record_bucket_unlisted",
        "`RECORD_BUCKETS` does not name a bucket that notifies a retry queue of records",
        "Its events wait until RECORD_BUCKETS does.";
    RECORDS_UNNOTICED = Bad "records_unnoticed",
        "the bucket notifies no retry queue of a function's records, or not of all. What EventBridge or an SNS topic \
         passes on is not checked",
        "They stay in the bucket, and their events don't come back.";
    QUEUE_REFUSES_BUCKET = Bad "queue_refuses_bucket",
        "the retry queue's policy doesn't let S3 send the bucket's notifications",
        "S3 drops its notices: records stay in the bucket, and their events don't come back.";
    QUEUE_KEY_CLOSED = Bad "queue_key_closed",
        "the retry queue's key doesn't let S3 send the bucket's notifications",
        "S3 drops its notices. Give the queue a key whose policy lets s3.amazonaws.com use it, or none.";
    HANDLER_MAY_NOT_READ = Bad "handler_may_not_read",
        "the handler's role may not read the records",
        "Its events wait until the handler may read their records.";
    HANDLER_MAY_NOT_LIST = Warning "handler_may_not_list",
        "the handler's role can't tell a record that is gone from one that it may not read",
        "A record that is gone looks like one that may not be read, so its notice waits in vain.";
    RECORDS_EXPIRE = Bad "records_expire",
        "the bucket's lifecycle deletes records before the longest `MAX_AGE` and the dead-letter queue's retention \
         have passed",
        "An event whose record is gone is dead-lettered as record_gone, and a dead letter in the bucket loses its \
         payload. The longest MAX_AGE and the retention of the dead-letter queue count together.";
    RECORDS_KEPT_FOREVER = Warning "records_kept_forever",
        "the bucket's lifecycle never deletes records",
        "The bucket grows with each failure.";
    BUCKET_PUBLIC = Bad "bucket_public",
        "the bucket's policy lets everyone use it",
        "Anybody may read payloads, or forge failures.";
    BUCKET_UNBLOCKED = Warning "bucket_unblocked",
        "the bucket does not block public access. The account's own block is not checked",
        "A mistake in a policy or ACL could make payloads public, unless the account blocks that.";
    BUCKET_WITHOUT_TLS = Warning "bucket_without_tls",
        "the bucket's policy doesn't deny requests without TLS",
        "Payloads may be read on the way. Deny s3:* to everyone if aws:SecureTransport is false.";
    TARGET_MISSING = Bad "target_missing",
        "a setting names a function that does not exist",
        "The handler's settings name it.";
    DESTINATION_MISSING = Bad "destination_missing",
        "failures of the function are sent nowhere, although a setting, a tag of `comeback attach` or its failures \
         of the last 7 days show that they should be",
        "Its failures are lost.";
    DESTINATION_ELSEWHERE = Bad "destination_elsewhere",
        "failures of the function are not sent to a retry queue, although a setting, a tag of `comeback attach` or \
         its failures of the last 7 days show that they should be",
        "Its failures don't come back.";
    FAILURES_NOT_RETRIED = Warning "failures_not_retried",
        "asynchronous events may have failed, and no failure has reached the handler for a day",
        "If asynchronous events failed, they were lost on the way: look for them in the destination of the alias or \
         version that was invoked.";
    TARGET_NOT_ALLOWED = Bad "target_not_allowed",
        "the settings don't allow the function, so its events are dead-lettered",
        "Its events are dead-lettered with the reason target_not_allowed.";
    OWN_RETRIES = Warning "own_retries",
        "Lambda's own retries are on",
        "Each attempt runs up to three times, and its failure is known minutes later.";
    EVENT_AGE_SHORT = Warning "event_age_short",
        "Lambda drops events that wait for a few minutes",
        "While the function is throttled, each of them uses an attempt up.";
    OWN_DEAD_LETTERS = Warning "own_dead_letters",
        "Lambda also sends each failure to a dead-letter queue of the function",
        "Lambda sends each failure there, too, whether its event comes back or not.";
    TARGET_UNSUPPORTED = Bad "target_unsupported",
        "the function is durable and lacks a part of what it needs, or has \
         tenant isolation and the handler no `TENANT_ID` for it, so that its events can't be retried",
        "Its retries are refused, or repeat what was done.";
    SUCCESSES_RETRIED = Bad "successes_retried",
        "its on-success destination is a retry queue, although it reports no failed records of a stream, or a bucket \
         with failure records",
        "Each success becomes a dead letter.";
    DELIVERIES_FAILED = Bad "deliveries_failed",
        "Lambda could not deliver failures to the queue or bucket: a permission is missing, or a record is larger \
         than a queue takes",
        "They are lost. Its role may lack a permission, or the records, which have the payload and the answer, are \
         larger than 1 MiB: a bucket takes records of any size.";
    CONFIGURATION_FAULTS = Bad "configuration_faults",
        "the handler could not invoke the function",
        "Its events wait until somebody fixes that. The handler's log says why.";
    DEAD_LETTERS_UNSENT = Bad "dead_letters_unsent",
        "the handler could not send a dead letter",
        "They stay in the retry queue. The handler's log says why.";
    SOURCE_MISSING = Bad "source_missing",
        "a setting names a queue that does not exist",
        "Failed events have nowhere to go, and are lost or stuck.";
    SOURCE_REDRIVE_MISSING = Bad "source_redrive_missing",
        "SQS doesn't move what the queue's consumer can't process to a retry queue",
        "Messages that its consumer can't process don't come back with backoff.";
    SOURCE_REDRIVE_ELSEWHERE = Bad "source_redrive_elsewhere",
        "SQS moves what the queue's consumer can't process elsewhere than to the retry queue that is bound to it",
        "Messages that its consumer can't process don't come back with backoff.";
    SOURCE_UNBOUND = Bad "source_unbound",
        "SQS moves messages of a queue that no setting names to a retry queue, so they are dead-lettered",
        "They become dead letters.";
    RETRY_QUEUE_REFUSES = Bad "retry_queue_refuses",
        "SQS may not move the queue's messages to the retry queue",
        "SQS doesn't move its messages there.";
    RETRY_QUEUE_OPEN = Warning "retry_queue_open",
        "SQS may move the messages of any queue to the retry queue",
        "Who owns another queue can have its messages moved there; they become dead letters.";
    SOURCE_RECEIVES_MANY = Warning "source_receives_many",
        "SQS moves a message only after more than 10 receives",
        "Each of them is a retry without backoff.";
    SOURCE_UNCONSUMED = Bad "source_unconsumed",
        "no function has a mapping of the queue, and nobody else received from it in the last day. A queue is not judged \
         in its first 15 minutes",
        "New messages and retries stay there until SQS deletes them.";
    CONSUMER_DISABLED = Bad "consumer_disabled",
        "the mapping of a consumer is disabled",
        "Nothing receives from the queue: new messages and retries stay there until SQS deletes them.";
    CONSUMER_MISSING = Bad "consumer_missing",
        "a consumer's function does not exist",
        "Nothing receives from the queue by this mapping. Create the function, or delete its mapping.";
    CONSUMER_PAUSED = Bad "consumer_paused",
        "the consumer's reserved concurrency is 0. SQS counts what can't run as failed",
        "SQS counts a receive for each batch that can't run, and moves its messages: attempts are used up.";
    CONSUMER_INACTIVE = Bad "consumer_inactive",
        "the consumer's state is not Active",
        "Lambda does not run it.";
    CONSUMER_FAILING = Bad "consumer_failing",
        "Lambda can't receive for the consumer",
        "Lambda can't receive from the queue, or can't invoke the function.";
    CONSUMER_REPORTS_NOTHING = Warning "consumer_reports_nothing",
        "the consumer's mapping lacks `ReportBatchItemFailures`, so what it reports in `batchItemFailures` is \
         deleted",
        "If it returns batchItemFailures, Lambda deletes those messages: they are lost. If it doesn't, one failure \
         fails the whole batch.";
    CONSUMER_UNATTACHED = Warning "consumer_unattached",
        "you named a function that receives from a queue which is not attached",
        "Messages that it can't process don't come back with backoff: attach the queue. Asynchronous events that \
         fail are lost.";
    CONSUMER_LOOP_STOPPED = Bad "consumer_loop_stopped",
        "RecursiveLoop of a function that consumes the queue is not `Allow`",
        "Lambda drops a message at about its 16th return, and SQS moves it as after a failure.";
    HANDLER_MAY_NOT_SEND_BACK = Bad "handler_may_not_send_back",
        "the handler's role lacks permissions on the queue or its key",
        "Its messages wait until they are given up.";
    SOURCE_DENIES_HANDLER = Bad "source_denies_handler",
        "the queue's policy denies the handler's role the access that it needs",
        "Its messages wait until they are given up.";
    SOURCE_VISIBILITY_SHORT = Bad "source_visibility_short",
        "the queue's visibility timeout is shorter than its consumer's time-out",
        "SQS delivers messages again, or moves them as failed, while their consumer still works on them.";
    SOURCE_VISIBILITY_LONG = Warning "source_visibility_long",
        "the queue's visibility timeout is an hour or more, so each failure is seen that much later",
        "SQS moves a message only when it ends, so each failure is seen that much later.";
    SOURCE_DELAYS = Warning "source_delays",
        "the queue delays each new message by a minute or more",
        "Its first run and its first failure are that much later. Retries are not delayed.";
    SOURCE_MESSAGES_SMALL = Warning "source_messages_small",
        "the queue takes messages of less than 256 KiB, so it may refuse a message that comes back with its metadata",
        "A retry adds an attribute, _retry_metadata. If a message is then larger than that, SQS refuses it, and it \
         is dead-lettered with the reason payload_too_large.";
    SOURCE_RETENTION_SHORT = Warning "source_retention_short",
        "the queue keeps messages for less than 14 days, counted from when they were sent",
        "SQS counts from when a message was sent to it, and deletes what its consumer doesn't reach.";
    STREAM_WITHOUT_PAYLOAD = Warning "stream_without_payload",
        "batches of a stream that the function can't process go to a queue or a topic, without their records",
        "A record there says only where the batch was, so it becomes a dead letter with the reason payload_missing. A \
         bucket gets the whole batch.";
    STREAM_WITHOUT_DESTINATION = Warning "stream_without_destination",
        "batches of a stream that the function can't process go nowhere",
        "Once its retries are used up or its records are too old, a batch is lost. A bucket gets the whole batch.";
    STREAM_PARTS_LOST = Bad "stream_parts_lost",
        "a function reports which records of a batch have failed, and its on-success destination is no retry queue",
        "A batch that comes back is an asynchronous event, of which Lambda takes such an answer for a success: records \
         that fail again are lost.";
    STREAM_STANDS_STILL = Warning "stream_stands_still",
        "a batch of a stream is retried until its records expire",
        "One batch that always fails stops its shard for a day or more, and then the records behind it expire, too.";
    STREAM_UNSPLIT = Warning "stream_unsplit",
        "a batch of a stream that fails is not split",
        "One bad record fails all records of its batch.";
    DELIVERY_NOT_RETRIED = Warning "delivery_not_retried",
        "a rule or a schedule that delivers to a function or a queue of the system has no dead-letter queue",
        "EventBridge drops what it can't deliver: at once if a permission is missing, else after 24 hours.";
    DELIVERY_ELSEWHERE = Warning "delivery_elsewhere",
        "the dead-letter queue of a rule's target or of a schedule is no retry queue",
        "What it can't deliver stays there.";
    DELIVERY_CHANGED = Bad "delivery_changed",
        "a rule's target has a retry queue as dead-letter queue, and `Input`, `InputPath` or `InputTransformer`",
        "EventBridge keeps only the event, so what comes back is not what the target is given. Let the target make \
         that change.";
    DELIVERY_UNBOUND = Bad "delivery_unbound",
        "`QUEUE_TARGETS` does not bind the retry queue to the target of a rule or a schedule",
        "What it can't deliver is dead-lettered with the reason target_not_allowed.";
    DELIVERY_DENIED = Bad "delivery_denied",
        "a rule, or the role of a schedule, may not send to its retry queue",
        "What it can't deliver is lost.";
    LEDGER_MISSING = Bad "ledger_missing",
        "the ledger's table doesn't exist",
        "The handler acts on nothing, so no event comes back.";
    LEDGER_INACTIVE = Bad "ledger_inactive",
        "the ledger's table is not active",
        "The handler acts on nothing until the table is active.";
    LEDGER_KEY = Bad "ledger_key",
        "the ledger has other keys",
        "The handler can't claim failures, so no event comes back. A table can't get other keys: create a new one, \
         and set LEDGER_TABLE to its name.";
    LEDGER_NEVER_EXPIRES = Warning "ledger_never_expires",
        "the ledger's items don't expire by `expires_at`",
        "The table grows with each failure.";
    REGISTER_INDEX_MISSING = Bad "register_index_missing",
        "the index of waiting events is missing",
        "Nobody can list what waits, and no event is brought forward.";
    REGISTER_INDEX_KEY = Bad "register_index_key",
        "the index of waiting events has another key",
        "Nobody can list what waits.";
    REGISTER_INDEX_BUILDING = Warning "register_index_building",
        "the index of waiting events is not ready",
        "What waits can be listed when the index is active.";
    UNCHECKED = Unknown "unchecked",
        "the check was not possible",
        "";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_the_name_of_its_constant_and_says_why_it_matters() {
        let source = include_str!("kinds.rs");
        for Kind { name, verdict, problem, why } in ALL {
            let constant = format!("    {} = {verdict:?} \"{name}\",", name.to_uppercase());
            assert!(source.contains(&constant), "{name}");
            assert!(!problem.is_empty() && !problem.ends_with('.'), "{name}: {problem}");
            assert!(why.ends_with('.') || *verdict == Verdict::Unknown, "{name}: {why}");
        }
    }
}
