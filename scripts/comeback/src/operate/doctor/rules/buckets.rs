//! Examines the buckets with failure records.

use std::time::Duration;

use comeback_core::notice::{PREFIX, STREAM_PREFIX};
use serde_json::json;

use crate::{
    account::{
        bucket::{Bucket, demands_tls, prefix_of, records_of},
        names::last,
        notifications::{Notification, Notifications},
        policy::{Service, admits, closed_to_everyone},
        setup::{ACTION_TO_LIST, ACTIONS_TO_READ, RETENTION},
    },
    operate::doctor::rules::{
        facts::{Facts, RecordBucket},
        finding::Examined,
        fix::quoted,
        kinds,
    },
    text::{counted, exact_span},
};

const DAY: Duration = Duration::from_hours(24);

/// What nobody but the functions, the handler and operators should do to a bucket.
const ACTIONS_OF_NOBODY: [&str; 3] = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"];

pub fn examine_bucket(facts: &Facts, bucket: &RecordBucket) -> Examined {
    let RecordBucket { bucket: Bucket { name, notifications, .. }, is_listed, .. } = bucket;
    let mut it = Examined::new(format!("record bucket {name}"));
    let Some(notifications) = it.known(notifications) else { return it };
    let Some(notifications) = notifications else {
        it.found(kinds::RECORD_BUCKET_MISSING, "there is no such bucket");
        return it;
    };
    let users: Vec<_> = users(facts, bucket).collect();
    if !is_listed {
        let finding = it.found(
            kinds::RECORD_BUCKET_UNLISTED,
            "it notifies a retry queue, and RECORD_BUCKETS does not name it",
        );
        if let Some(user) = users.first() {
            finding.by_hand(attach(facts, user, name));
        }
    }
    notices(&mut it, facts, bucket, notifications, &users);
    queues(&mut it, facts, bucket);
    permissions(&mut it, facts, bucket, &users);
    lifecycle(&mut it, facts, &bucket.bucket);
    access(&mut it, &bucket.bucket);
    it.good = format!("its records are read, of {}", counted(users.len() as u64, "function"));
    it
}

/// The functions whose failures go to a bucket, as `comeback attach` names them.
fn users<'a>(facts: &'a Facts, bucket: &'a RecordBucket) -> impl Iterator<Item = String> {
    facts.targets.iter().flat_map(move |target| {
        let configs = target.configs.iter().flatten();
        let own = configs.filter(|it| it.on_failure.as_deref() == Some(bucket.arn.as_str()));
        own.map(|it| match &it.qualifier {
            Some(qualifier) => format!("{}:{qualifier}", target.name),
            None => target.name.clone(),
        })
    })
}

fn function_of(user: &str) -> &str {
    user.split(':').next().unwrap_or(user)
}

fn attach(facts: &Facts, user: &str, bucket: &str) -> String {
    facts.command(&format!("attach {user} --records {bucket}"))
}

/// The names of the retry queues that a bucket notifies of a function's records.
pub fn queues_told<'a>(
    facts: &'a Facts,
    bucket: &'a RecordBucket,
    function: &str,
) -> impl Iterator<Item = &'a str> {
    let prefix = prefix_of(function);
    let told = bucket.bucket.told().filter(move |it| it.covers(&prefix));
    told.filter(|it| facts.has_queue(Some(it.to.as_str()))).map(|it| last(&it.to))
}

/// Reports records that no retry queue is notified of.
fn notices(
    it: &mut Examined,
    facts: &Facts,
    bucket: &RecordBucket,
    notifications: &Notifications,
    users: &[String],
) {
    let name = &bucket.bucket.name;
    let is_own = |it: &&Notification| facts.has_queue(Some(it.to.as_str()));
    if users.is_empty() && !bucket.bucket.told().any(|it| is_own(&it)) {
        if may_pass_on(it, notifications, PREFIX) {
            return;
        }
        it.found(kinds::RECORDS_UNNOTICED, "RECORD_BUCKETS names it, and it notifies no retry queue of records").only_warns()
            .why("If a function's failures go there, they don't come back. Otherwise take it out of RECORD_BUCKETS.");
        return;
    }
    for user in users {
        let function = function_of(user);
        if queues_told(facts, bucket, function).next().is_some() {
            continue;
        }
        let prefix = prefix_of(function);
        if may_pass_on(it, notifications, &prefix) {
            continue;
        }
        let all = || notifications.sent();
        let astray = all().find(|it| it.covers(&prefix) && !is_own(it));
        let wrong = all().find(is_own);
        let says = match (astray, wrong) {
            (Some(astray), _) => format!(
                "it notifies {} of the records of {user}, and no retry queue",
                last(&astray.to)
            ),
            (None, Some(wrong)) => format!(
                "it notifies {} of {}, and not of each new record of {user} below {prefix}",
                last(&wrong.to),
                wrong.about()
            ),
            (None, None) => format!("it notifies nobody of the records of {user}"),
        };
        it.found(kinds::RECORDS_UNNOTICED, says).by_hand(attach(facts, user, name));
    }
}

/// Whether the bucket notifies somebody who may pass that on to a retry queue. Says what can't be checked.
fn may_pass_on(it: &mut Examined, notifications: &Notifications, prefix: &str) -> bool {
    let told = notifications.sent().find(|it| !it.is_to_queue() && it.covers(prefix));
    if let Some(told) = told {
        let says =
            format!("can't be checked: whether {} passes notices on to a retry queue", told.to);
        it.unchecked(says);
        return true;
    }
    let uses_event_bridge = notifications.uses_event_bridge();
    if uses_event_bridge {
        it.unchecked(
            "can't be checked: whether a rule of EventBridge sends its Object Created to a retry queue".to_owned(),
        );
    }
    uses_event_bridge
}

/// Reports retry queues to which S3 may not or can't send the bucket's notifications.
fn queues(it: &mut Examined, facts: &Facts, bucket: &RecordBucket) {
    let account = facts.handler.arn.split(':').nth(4).unwrap_or_default();
    for queue in &facts.queues {
        let arn = &queue.queue.arn;
        if !bucket.bucket.told().any(|it| it.to == *arn) {
            continue;
        }
        let Some(Some(attributes)) = queue.queue.attributes.as_ref().ok().map(Option::as_ref)
        else {
            continue;
        };
        let name = queue.queue.name();
        let policy = attributes.policy.as_deref().unwrap_or_default();
        if !admits(policy, Service::S3, &bucket.arn, account) {
            let user = users(facts, bucket).next();
            let finding = it.found(
                kinds::QUEUE_REFUSES_BUCKET,
                format!("the policy of {name} does not let S3 send for it"),
            );
            if let Some(user) = user {
                finding.by_hand(attach(facts, &user, &bucket.bucket.name));
            }
        }
        match attributes.key.as_deref() {
            Some(key) if key.ends_with("alias/aws/sqs") => {
                it.found(kinds::QUEUE_KEY_CLOSED, format!("{name} has AWS's own key, which S3 can't use"));
            }
            Some(key) => it.unchecked(format!(
                "can't be checked: whether the policy of {key}, the key of {name}, lets s3.amazonaws.com use it"
            )),
            None => {}
        }
    }
}

fn permissions(it: &mut Examined, facts: &Facts, bucket: &RecordBucket, users: &[String]) {
    let Some(denied) = it.known(&bucket.denied) else { return };
    let (read, list): (Vec<_>, Vec<_>) =
        denied.iter().partition(|(action, _)| action != ACTION_TO_LIST);
    let (role, name) = (facts.handler.role_name(), &bucket.bucket.name);
    if !read.is_empty() {
        let all = [format!("{}/{PREFIX}*", bucket.arn)];
        let records: Vec<_> =
            users.iter().map(|user| records_of(&bucket.arn, function_of(user))).collect();
        let records = if records.is_empty() { &all[..] } else { &records };
        let records: Vec<_> = records.iter().map(String::as_str).collect();
        it.found(
            kinds::HANDLER_MAY_NOT_READ,
            format!("the handler's role lacks {}", ACTIONS_TO_READ[0]),
        )
        .allow(role, &format!("read-{name}"), &ACTIONS_TO_READ, &records);
    }
    if !list.is_empty() {
        it.found(kinds::HANDLER_MAY_NOT_LIST, format!("the handler's role lacks {ACTION_TO_LIST}"))
            .allow(role, &format!("list-{name}"), &[ACTION_TO_LIST], &[&bucket.arn]);
    }
}

/// Reports a lifecycle that deletes records too early, or never.
fn lifecycle(it: &mut Examined, facts: &Facts, bucket: &Bucket) {
    let Some(rules) = it.known(&bucket.rules) else { return };
    let letters = facts.dead_letters.attributes.as_ref().ok().and_then(Option::as_ref);
    let needed = facts.age_max() + letters.map_or(RETENTION, |it| it.retention);
    let days = needed.as_secs().div_ceil(DAY.as_secs());
    let early = rules.iter().filter(|rule| rule.may_delete() && rule.keeps < needed);
    if let Some(rule) = early.min_by_key(|rule| rule.keeps) {
        let says = format!(
            "the rule {} of its lifecycle deletes records after {}, and an event may need its record for {}",
            rule.id,
            exact_span(rule.keeps),
            exact_span(needed)
        );
        it.found(kinds::RECORDS_EXPIRE, says);
    } else if !rules.iter().any(|rule| rule.deletes_all()) {
        let finding =
            it.found(kinds::RECORDS_KEPT_FOREVER, "no rule of its lifecycle deletes records");
        // The call replaces all rules.
        if rules.is_empty() {
            let rule = json!({
                "ID": "comeback-records", "Status": "Enabled", "Filter": { "Prefix": STREAM_PREFIX },
                "Expiration": { "Days": days },
            });
            finding.by_hand(format!(
                "aws s3api put-bucket-lifecycle-configuration --bucket {} --lifecycle-configuration {}",
                bucket.name,
                quoted(&json!({ "Rules": [rule] }).to_string())
            ));
        }
    }
}

/// Reports a bucket that the public may use, or that may be used without TLS.
fn access(it: &mut Examined, bucket: &Bucket) {
    let name = &bucket.name;
    let blocks = it.known(&bucket.blocks_public).copied();
    let block = format!(
        "aws s3api put-public-access-block --bucket {name} --public-access-block-configuration \
         BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
    );
    let Some(policy) = it.known(&bucket.policy) else { return };
    let policy = policy.as_deref().unwrap_or_default();
    let is_open = closed_to_everyone(policy, &ACTIONS_OF_NOBODY).is_some();
    if is_open && blocks != Some(true) {
        it.found(kinds::BUCKET_PUBLIC, "its policy lets everyone use it, in every account")
            .by_hand(block);
    } else if blocks == Some(false) {
        it.found(kinds::BUCKET_UNBLOCKED, "it does not block public access").by_hand(block);
    }
    if !demands_tls(policy) {
        it.found(kinds::BUCKET_WITHOUT_TLS, "its policy does not deny requests without TLS");
    }
}
