//! Examines the retry queues, the dead-letter queue, the keys of both, and the ledger.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{
    arn::is_url_of,
    attribute::SIZE_MAX,
    contract::TABLE,
    in_flight::{IN_FLIGHT_MAX, QUOTA},
    settings::Settings,
};
use serde_json::json;

use crate::operate::{
    doctor::rules::{
        ACTIONS_ON_KEY, ACTIONS_ON_RETRY_QUEUE, Examined, Facts, Fix, Ledger, Metric, Queue,
        QueueAttributes, Redrive, RetryQueue, VISIBILITY_LONG, quoted, sources, sources::Role,
        span, word,
    },
    rules::{
        counted, last, letters,
        policies::{Effect, closed_to_everyone},
        queue_arn, role_name,
    },
};

/// AWS recommends six times the function's time-out, so that no batch is delivered again while it is being handled.
pub const VISIBILITY_PER_TIMEOUT: u32 = 6;

pub const RETENTION: Duration = Duration::from_hours(14 * 24);

/// The `maxReceiveCount` of a retry queue. It is high because each wait, throttle and crash counts as a receive.
pub const RECEIVES: u64 = 1_000;

/// How long before SQS deletes a dead letter the operator is warned.
const NOTICE: Duration = Duration::from_hours(3 * 24);

pub(super) fn examine_queue(facts: &Facts, queue: &RetryQueue) -> Examined {
    let settings = facts.handler.settings().ok();
    let settings = settings.as_ref();
    let RetryQueue { queue, denied, other_consumers, moved_from } = queue;
    let name = queue.name();
    let mut it = Examined::new(format!("retry queue {name}"));
    let Some(attributes) = existing(&mut it, queue, "retry_queue_missing") else { return it };
    it.good = format!(
        "visibility timeout {}, retention {}, {} messages, {} of them in flight",
        span(attributes.visibility),
        span(attributes.retention),
        attributes.messages(),
        attributes.in_flight
    );
    if Role::of(facts, &queue.arn) == Role::Unbound {
        it.bad("queue_unbound", "QUEUE_TARGETS does not name it")
            .why("All of its events are dead-lettered with the reason target_not_allowed.");
        // It may be somebody's queue of another kind, so nothing else is expected of it.
        return it;
    }
    visibility(&mut it, facts.handler.timeout, queue, attributes);
    retention(&mut it, longest(facts, settings), queue, attributes);
    size(&mut it, queue, attributes);
    if let Some(url) = settings
        .and_then(|it| it.retry_queue_url.as_deref())
        .filter(|url| !is_url_of(url, &queue.arn))
    {
        it.bad(
            "retry_queue_url_wrong",
            format!("RETRY_QUEUE_URL is {url}, and the handler receives from this queue"),
        )
        .why("No wait can be set. Events come back when the queue's visibility timeout ends.");
    }
    redrive(&mut it, &facts.dead_letters.arn, queue, attributes);
    if !attributes.delay.is_zero() {
        it.warn("queue_delays", format!("it delays each message by {}", span(attributes.delay)))
            .why("A failure is read that much later, and retries may be late.")
            .fix(set(queue, "DelaySeconds", 0));
    }
    in_flight(&mut it, settings, attributes);
    for consumer in other_consumers {
        it.bad("queue_shared", format!("{consumer} receives from it, too"))
            .why("What it receives does not come back.");
    }
    public(&mut it, queue, attributes);
    let home = &facts.handler;
    let is_source = |it: &&String| sources::is_named(home, &queue_arn(it, &home.arn));
    for source in it.known(moved_from).into_iter().flatten().filter(|it| !is_source(it)) {
        it.bad(
            "source_unbound",
            format!("SQS moves messages of {source} here, which no setting names"),
        )
        .why("They become dead letters.")
        .by_hand(facts.command(&format!("attach --queue {} --retry-queue {name}", word(source))));
    }
    let handler = &facts.handler.role;
    let is_closed = |action: &&str| attributes.effect(handler, action) == Effect::Deny;
    let closed: Vec<_> = ACTIONS_ON_RETRY_QUEUE.into_iter().filter(is_closed).collect();
    if !closed.is_empty() {
        let says = format!("its policy denies the handler's role {}", closed.join(", "));
        it.bad("queue_denies_handler", says)
            .why("The handler can't receive failed events, or can't let them wait.");
    }
    let role = facts.handler.role_name();
    if let Some(denied) = it.known(denied).filter(|denied| !denied.is_empty()) {
        it.bad("handler_lacks_queue", format!("the handler's role lacks {}", denied.join(", ")))
            .why("The handler can't receive failed events, or can't let them wait.")
            .allow(role, &format!("queue-{name}"), &ACTIONS_ON_RETRY_QUEUE, &[&queue.arn]);
    }
    it
}

/// Reports a queue that everyone may send to or receive from.
fn public(it: &mut Examined, queue: &Queue, attributes: &QueueAttributes) {
    let policy = attributes.policy.as_deref().unwrap_or_default();
    let Some(closed) = closed_to_everyone(policy, &ACTIONS_ON_RETRY_QUEUE) else { return };
    it.bad("queue_public", "its policy lets everyone use it, in every account")
        .why("Anybody may forge failures and letters, read payloads, or delete events.")
        .by_hand(set(queue, "Policy", closed).command());
}

pub(super) fn existing<'a>(
    it: &mut Examined,
    queue: &'a Queue,
    missing: &'static str,
) -> Option<&'a QueueAttributes> {
    let attributes = it.known(&queue.attributes)?;
    if attributes.is_none() {
        it.bad(missing, format!("there is no queue {}", queue.url))
            .why("Failed events have nowhere to go, and are lost or stuck.");
    }
    attributes.as_ref()
}

pub(super) fn set(queue: &Queue, attribute: &'static str, value: impl ToString) -> Fix {
    Fix::Queue { url: queue.url.clone(), attribute, value: value.to_string() }
}

fn size(it: &mut Examined, queue: &Queue, attributes: &QueueAttributes) {
    let Some(max) = attributes.size_max.filter(|max| *max < SIZE_MAX as u64) else { return };
    it.bad("messages_small", format!("it takes messages of {max} bytes, and not of {SIZE_MAX}"))
        .why("Larger failures and letters are refused. Lambda drops a failure that it can't send.")
        .fix(set(queue, "MaximumMessageSize", SIZE_MAX));
}

fn visibility(it: &mut Examined, timeout: Duration, queue: &Queue, attributes: &QueueAttributes) {
    let expected = timeout * VISIBILITY_PER_TIMEOUT;
    let visibility = attributes.visibility;
    let says = format!(
        "its visibility timeout is {}, and six times the handler's time-out is {}",
        span(visibility),
        span(expected)
    );
    let finding = if visibility < timeout {
        it.bad("visibility_short", says)
            .why("Messages are delivered again while the handler still works on them.")
    } else if visibility < expected {
        it.warn("visibility_short", says).why("Throttled batches may be delivered twice.")
    } else if visibility > expected.max(VISIBILITY_LONG) {
        it.warn("visibility_long", says)
            .why("An event that the handler could not finish comes back only when it ends.")
    } else {
        return;
    };
    finding.fix(set(queue, "VisibilityTimeout", expected.as_secs()));
}

/// The longest `MAX_AGE` of any target.
fn longest(facts: &Facts, settings: Option<&Settings>) -> Duration {
    let Some(settings) = settings else { return RETENTION };
    let policies = &settings.rules.policies;
    let names = facts.targets.iter().map(|target| target.name.clone());
    let queues = facts.sources.iter().map(|source| format!("sqs:{}", source.queue.name()));
    let ages = names.chain(queues).map(|name| policies.of(&name).max_age);
    ages.max().unwrap_or(policies.of("").max_age)
}

fn retention(it: &mut Examined, longest: Duration, queue: &Queue, attributes: &QueueAttributes) {
    let retention = attributes.retention;
    if retention >= RETENTION {
        return;
    }
    let says =
        format!("it keeps messages for {}, and not for {}", span(retention), span(RETENTION));
    let finding = if retention < longest {
        it.bad("retention_short", says).why("SQS deletes events that still wait, without a word.")
    } else {
        it.warn("retention_short", says)
            .why("If the handler stops for longer, SQS deletes what waits.")
    };
    finding.fix(set(queue, "MessageRetentionPeriod", RETENTION.as_secs()));
}

fn redrive(it: &mut Examined, dead_letters: &str, queue: &Queue, attributes: &QueueAttributes) {
    let expected = Redrive { queue: dead_letters.to_owned(), receives_max: RECEIVES };
    let fix = || set(queue, "RedrivePolicy", expected.policy());
    match &attributes.redrive {
        None => it
            .warn("redrive_missing", "it has no redrive policy")
            .why("A message that the handler can't finish comes again until SQS deletes it.")
            .fix(fix()),
        Some(redrive) if redrive.receives_max < RECEIVES => {
            let receives = counted(redrive.receives_max, "receive");
            let says =
                format!("SQS moves messages away after {receives}, and not after {RECEIVES}");
            let why = "Each wait and each throttle is a receive, so events are given up before their time.";
            let finding = it.bad("receives_few", says).why(why);
            // Somebody else's queue may be where its messages should go.
            if redrive.queue == dead_letters {
                finding.fix(fix());
            } else {
                finding.by_hand(fix().command());
            }
        }
        Some(redrive) if redrive.queue != dead_letters => {
            it.warn("redrive_elsewhere", format!("SQS moves messages to {}", last(&redrive.queue)))
                .why("Those are not in the dead-letter queue of the handler.");
        }
        Some(_) => {}
    }
}

fn in_flight(it: &mut Examined, settings: Option<&Settings>, attributes: &QueueAttributes) {
    let max = settings.map_or(IN_FLIGHT_MAX, |settings| settings.in_flight_max).get();
    let count = attributes.in_flight;
    if count >= u64::from(QUOTA) {
        let says = format!(
            "{count} messages are in flight, and SQS's quota is {QUOTA} unless AWS raised it"
        );
        it.bad("in_flight_quota", says).why("The queue delivers nothing more, without an error.");
    } else if count >= u64::from(max) {
        let says = format!("{count} messages are in flight, and IN_FLIGHT_MAX is {max}");
        it.warn("in_flight_full", says)
            .why("Further waits are kept as delays, which cost more calls.");
    }
}

pub(super) fn dead_letters(facts: &Facts) -> Examined {
    let queue = &facts.dead_letters;
    let mut it = Examined::new(format!("dead-letter queue {}", queue.name()));
    if let Some(denied) = it.known(&facts.dead_letters_denied).filter(|denied| !denied.is_empty()) {
        let says = format!("the handler's role lacks {}", denied.join(", "));
        let role = facts.handler.role_name();
        it.bad("handler_lacks_dead_letters", says)
            .why("Events that are given up stay in the retry queue.")
            .allow(role, "dead-letters", &["sqs:SendMessage"], &[&queue.arn]);
    }
    let retry_queues = || facts.queues.iter().map(|retry| &retry.queue.arn);
    if retry_queues().any(|arn| *arn == queue.arn) {
        let finding = it
            .bad("dead_letters_are_retried", "it is the retry queue")
            .why("A dead letter would come back for ever, so the handler refuses to run.");
        let mapping = facts.mappings.iter().flatten().find(|it| it.queue == queue.arn);
        if let Some(uuid) = mapping.map(|mapping| &mapping.uuid) {
            finding.by_hand(format!("aws lambda delete-event-source-mapping --uuid {uuid}"));
        }
    }
    let Some(attributes) = existing(&mut it, queue, "dead_letter_queue_missing") else { return it };
    if let Some(to) = attributes.redrive.as_ref().map(|it| &it.queue)
        && retry_queues().any(|arn| arn == to)
    {
        it.bad(
            "dead_letters_return",
            format!("its redrive policy moves letters to the retry queue {}", last(to)),
        )
        .why("Looking at a letter a few times brings its event back.");
    }
    size(&mut it, queue, attributes);
    public(&mut it, queue, attributes);
    if attributes.effect(&facts.handler.role, "sqs:SendMessage") == Effect::Deny {
        it.bad("dead_letters_deny_handler", "its policy denies the handler's role sqs:SendMessage")
            .why("Events that are given up stay in the retry queue.");
    }
    if attributes.retention < RETENTION {
        let says = format!(
            "it keeps letters for {}, and not for {}",
            span(attributes.retention),
            span(RETENTION)
        );
        it.warn("dead_letter_retention", says)
            .why("A letter that SQS moves there keeps its age, and may be deleted at once.")
            .fix(set(queue, "MessageRetentionPeriod", RETENTION.as_secs()));
    }
    let oldest = Duration::from_secs(facts.metric(Metric::OLDEST_MESSAGE, queue.name()) as u64);
    let command = facts.command("dead list --group-by reason,error");
    let count = attributes.messages();
    let letters = letters(count);
    if count > 0 && oldest + NOTICE > attributes.retention {
        it.bad("dead_letters_expire", format!("{letters}, the oldest {} old", rough(oldest)))
            .why("SQS deletes them when the retention ends.")
            .by_hand(command);
    } else if count > 0 {
        let age = if oldest.is_zero() {
            String::new()
        } else {
            format!(", the oldest {} old", rough(oldest))
        };
        it.warn("dead_letters", format!("{letters}{age}"))
            .why("These events were given up.")
            .by_hand(command);
    }
    it.good = format!("no letters, retention {}", span(attributes.retention));
    it
}

/// Formats a duration in days, hours or minutes, rounded down.
fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let unit = [86_400, 3_600].into_iter().find(|unit| seconds >= *unit).unwrap_or(60);
    span(Duration::from_secs(seconds / unit * unit))
}

/// The actions on the ledger that a handler with this environment needs.
pub fn actions_on_ledger(environment: &BTreeMap<String, String>) -> Vec<&'static str> {
    let is_on = |name| environment.get(name).is_some_and(|value: &String| value.trim() == "true");
    let (register, probe) = (is_on("REGISTER"), is_on("PROBE"));
    let mut actions = vec!["dynamodb:PutItem", "dynamodb:DeleteItem"];
    actions.extend((register || probe).then_some("dynamodb:BatchGetItem"));
    actions.extend(probe.then_some("dynamodb:UpdateItem"));
    actions
}

pub(super) fn examine_ledger(facts: &Facts, ledger: &Ledger) -> Examined {
    let Ledger { name, table, expiry, denied } = ledger;
    let mut it = Examined::new(format!("ledger {name}"));
    let Some(table) = it.known(table) else { return it };
    let Some(table) = table else {
        it.bad("ledger_missing", "there is no such table")
            .why("The handler acts on nothing, so no event comes back.");
        return it;
    };
    if !matches!(table.status.as_str(), "ACTIVE" | "UPDATING") {
        it.bad("ledger_inactive", format!("its status is {}", table.status))
            .why("The handler acts on nothing until the table is active.");
    }
    if table.key != [format!("{} S", TABLE.key)] {
        let says = format!("its key is {}, and not {}, a string", table.key.join(", "), TABLE.key);
        it.bad("ledger_key", says).why("The handler can't claim failures, so no event comes back.");
    }
    if facts.handler.settings().is_ok_and(|settings| settings.register) {
        register(&mut it, name, table.waiting.as_ref());
    }
    if let Some(expiry) = it.known(expiry).filter(|it| it.as_deref() != Some(TABLE.expiry)) {
        let says = match expiry {
            Some(attribute) => {
                format!("its items expire by {attribute}, and not by {}", TABLE.expiry)
            }
            None => "its items don't expire".to_owned(),
        };
        let finding =
            it.warn("ledger_never_expires", says).why("The table grows with each failure.");
        // DynamoDB can't switch to another attribute in one step.
        if expiry.is_none() {
            finding.fix(Fix::Expiry { table: name.clone() });
        }
    }
    if let Some(denied) = it.known(denied).filter(|denied| !denied.is_empty()) {
        let says =
            format!("the handler's role {} lacks {}", facts.handler.role_name(), denied.join(", "));
        it.bad("handler_lacks_ledger", says)
            .why("The handler can't claim failures, so no event comes back.");
    }
    it.good = format!("active, items expire by {}", TABLE.expiry);
    it
}

fn register(it: &mut Examined, table: &str, waiting: Option<&(String, Vec<String>)>) {
    match waiting {
        None => {
            let says = format!("REGISTER is true, and there is no index {}", TABLE.index);
            it.bad("register_index_missing", says)
                .why("Nobody can list what waits, and no event is brought forward.")
                .by_hand(create_index(table));
        }
        Some((_, key)) if *key != index_key() => {
            let says = format!(
                "the key of its index {} is {}, and not {}",
                TABLE.index,
                key.join(", "),
                index_key().join(", ")
            );
            it.bad("register_index_key", says).why("Nobody can list what waits.");
        }
        Some((status, _)) if status != "ACTIVE" => {
            it.warn("register_index_building", format!("its index waiting is {status}"))
                .why("What waits can be listed when the index is active.");
        }
        Some(_) => {}
    }
}

/// The key of the register's index: names and types.
fn index_key() -> [String; 2] {
    [format!("{} S", TABLE.index_key), format!("{} N", TABLE.index_sort_key)]
}

fn create_index(table: &str) -> String {
    let key = |name, kind| json!({ "AttributeName": name, "KeyType": kind });
    let index = json!([{ "Create": {
        "IndexName": TABLE.index,
        "KeySchema": [key(TABLE.index_key, "HASH"), key(TABLE.index_sort_key, "RANGE")],
        "Projection": { "ProjectionType": "ALL" },
    } }]);
    format!(
        "aws dynamodb update-table --table-name {} --attribute-definitions \
         AttributeName={},AttributeType=S AttributeName={},AttributeType=N \
         --global-secondary-index-updates {}",
        word(table),
        TABLE.index_key,
        TABLE.index_sort_key,
        quoted(&index.to_string())
    )
}

/// Examines the keys of queues. IAM's simulation doesn't know the policies of the keys, which may allow what it denies.
pub(super) fn examine_keys(facts: &Facts) -> Vec<Examined> {
    let examined = facts.keys.chunk_by(|(one, ..), (other, ..)| one == other).map(|uses| {
        let key = uses[0].0.as_str();
        let id = key.rsplit('/').next().unwrap_or(key);
        let mut it = Examined::new(format!("key {id}"));
        for (_, role, denied) in uses {
            let Some(denied) = it.known(denied).filter(|denied| !denied.is_empty()) else { continue };
            let role = role_name(role);
            it.warn("role_lacks_key", format!("IAM doesn't allow {role} {}", denied.join(", ")))
                .why("Unless the key's own policy does, failures are lost, or stay in the retry queue.")
                .allow(role, &format!("key-{id}"), &ACTIONS_ON_KEY, &[key]);
        }
        "the roles that use it may do so".clone_into(&mut it.good);
        it
    });
    examined.collect()
}
