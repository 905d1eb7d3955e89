//! The buckets with failure records: what they hold, what they tell the retry queues, and what strangers put there.

use std::{rc::Rc, sync::Arc, time::Duration};

use comeback_core::{dead_letter::DeadLetter, fault::FaultKind, notice::Location, time::rfc3339};
use comeback_local_model::{
    lambda::name::qualified_arn,
    s3::{Put, encoded},
    sqs::{Outgoing, Received},
};
use serde_json::{Value, json};
use wire::{Found, Refusal};

use super::{
    World,
    build::notices_queue,
    clients::{record, wrapped},
};
use crate::{
    choices::Of,
    faults::{Fault, Trouble},
    judge::{NOTHING, Place, Stranger, Subject},
    plan::{Form, Notices},
};

/// S3's errors that a person has to fix.
const DENIALS: [(&str, u16); 2] = [("AccessDenied", 403), ("KMS.DisabledException", 400)];

/// The most objects that a bucket tells of at once. If a queue refuses one part, the others come twice.
const HELD_MAX: usize = 5;

/// One byte more than a handler reads.
const TOO_LARGE: usize = (8 << 20) + 1;

/// The day of a record that a stranger puts. Lambda's records have that on which they are written.
const DAY: &str = "2026/02/02";

impl World {
    /// Forwards what buckets have told: late, twice and in any order.
    pub fn announce(&mut self) {
        let plan = Rc::clone(&self.plan);
        for (number, target) in plan.targets.iter().enumerate() {
            let Form::Bucket(notices) = target.form else { continue };
            let relay = notices_queue(&target.name);
            let next = self.cloud.unchanged().sqs.next_visible_at(&relay, self.now);
            if next.is_some_and(|at| at <= self.now) {
                let received = self.receive_all(&relay);
                received.iter().for_each(|notice| self.pass_on(number, notices, notice));
            }
        }
    }

    fn pass_on(&mut self, target: usize, notices: Notices, notice: &Received) {
        let Some(trace) = notice.trace_header.as_deref().map(str::to_owned) else {
            return self.test(target, notices, &notice.body);
        };
        let of = self.of_trace(&trace);
        let mut said: Value = serde_json::from_str(&notice.body).unwrap_or_default();
        let s3 = &mut said["Records"][0]["s3"];
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let (bucket, key) = (text(&s3["bucket"]["name"]), text(&s3["object"]["key"]));
        let key = self.key(&bucket, key);
        // Every second bucket keeps versions.
        let version = target.is_multiple_of(2).then(|| format!("v{target}"));
        if let Some(version) = &version {
            s3["object"]["versionId"] = json!(version);
        }
        let place = Place { bucket, key, version };
        let body = match notices {
            Notices::EventBridge => created(&place),
            Notices::Directly => said.to_string(),
            Notices::Topic => wrapped(Form::Notification, &said.to_string()),
        };
        if self.draws(of, Fault::RecordGone) {
            let most = 10_u64.pow(self.choices.number(of, "digits", 2..=8) as u32);
            let delay = self.choices.millis(of, "gone after", 0..=most);
            let Place { bucket, key, .. } = place.clone();
            // The object may be gone by then.
            self.after(delay, move |world| drop(world.cloud.s3.delete(&bucket, &key)));
        }
        self.judge.known.lies_at(&trace, place);
        if notices != Notices::EventBridge && self.happens(of, Fault::NoticesJoined) {
            let record = said["Records"][0].to_string();
            return self.hold(target, record, trace.into());
        }
        self.announce_one(of, target, &body, &trace);
    }

    /// A notice is on its way, and maybe comes twice.
    fn announce_one(&mut self, of: Of, target: usize, body: &str, trace: &str) {
        let queue = self.plan.targets[target].queue;
        let message = || Outgoing {
            body: body.into(),
            trace_header: Some(trace.to_owned()),
            ..Outgoing::default()
        };
        let delay = self.lateness(of);
        let first = message();
        self.after(delay, move |world| world.forward(queue, first));
        if let Some((case, _)) = self.judge.known.repeatable(trace)
            && self.happens(of, Fault::NoticeRepeated)
        {
            self.judge.copied(case);
            let (delay, second) = (self.lateness(of), message());
            self.after(delay, move |world| world.forward(queue, second));
        }
    }

    /// Holds a notice back, so that it is told together with others.
    fn hold(&mut self, target: usize, record: String, trace: Arc<str>) {
        let held = self.held.entry(target).or_default();
        held.push((record, trace));
        if held.len() == HELD_MAX {
            self.tell_together(target);
        } else if held.len() == 1 {
            let of = Of::target(target);
            let most = 10_u64.pow(self.choices.number(of, "digits", 2..=6) as u32);
            let delay = self.choices.millis(of, "tells several after", 20..=most);
            self.after(delay, move |world| world.tell_together(target));
        }
    }

    /// A bucket tells of all objects that were held back. What else is in the notice is about no record.
    fn tell_together(&mut self, target: usize) {
        let mut held = self.held.remove(&target).unwrap_or_default();
        let Form::Bucket(notices) = self.plan.targets[target].form else { return };
        let Some(first) = held.first().cloned() else { return };
        let of = Of::target(target);
        let least = u64::from(held.len() == 1);
        let others = self.choices.number(of, "records beside those it tells", least..=2);
        for _ in 0..others {
            let record = match self.choices.number(of, "a record beside others", 0..=3) {
                1 => r#"{"eventSource": "aws:sqs"}"#.to_owned(),
                2 => first.0.replace("ObjectCreated:Put", "ObjectRemoved:Delete"),
                3 if self.judge.known.repeatable(&first.1).is_some() => {
                    held.push(first.clone());
                    continue;
                }
                _ => "7".to_owned(),
            };
            let trace: Arc<str> = self.trace().into();
            let id = format!("beside-records-{}", self.judge.known.events.len());
            let stranger = Stranger::new("beside records", String::new(), &id, &alone(&record));
            let over = Some("unreadable");
            self.judge.known.stranger(target, Stranger { over, ..stranger }, &trace);
            self.note_sender(of);
            held.insert(self.choices.index(of, "its place", held.len()), (record, trace));
        }
        let records: Vec<_> = held.iter().map(|(record, _)| record.as_str()).collect();
        let body = format!(r#"{{"Records": [{}]}}"#, records.join(" , "));
        let body = match notices {
            Notices::Topic => wrapped(Form::Notification, &body),
            Notices::Directly | Notices::EventBridge => body,
        };
        let trace = self.trace();
        let id = format!("of-several-{}", self.judge.known.events.len());
        let notice = Stranger::new("a notice of several objects", String::new(), &id, &body);
        let parts = held.into_iter().map(|(record, trace)| (alone(&record), trace)).collect();
        self.judge.known.joins(target, notice, &trace, parts);
        self.note_sender(of);
        self.announce_one(of, target, &body, &trace);
    }

    /// How long a notice is on its way.
    fn lateness(&mut self, of: Of) -> Duration {
        if !self.happens(of, Fault::NoticeLate) {
            return self.choices.millis(of, "told after", 20..=400);
        }
        let most = 10_u64.pow(self.choices.number(of, "digits", 3..=7) as u32);
        self.choices.millis(of, "told after", 400..=most)
    }

    /// The key of an object, which S3 has encoded.
    fn key(&self, bucket: &str, said: String) -> String {
        if self.cloud.s3.object(bucket, &said).is_ok() {
            return said;
        }
        let mut objects = self.cloud.s3.objects(bucket, "", "").into_iter().flatten();
        let found = objects.find(|(key, _)| encoded(key) == said).map(|(key, _)| key.to_string());
        found.unwrap_or(said)
    }

    /// S3 tests whether it may send to the retry queue.
    fn test(&mut self, target: usize, notices: Notices, event: &str) {
        let body = match notices {
            Notices::Directly | Notices::EventBridge => event.to_owned(),
            Notices::Topic => wrapped(Form::Notification, event),
        };
        let id = format!("test-of-{target}");
        let stranger = Stranger::new("S3's test", body, &id, event);
        self.tell(Of::target(target), target, Stranger { over: Some(NOTHING), ..stranger });
    }

    /// A stranger's notice is sent to the retry queue.
    pub fn tell(&mut self, of: Of, target: usize, stranger: Stranger) {
        let trace = self.trace();
        let message = Outgoing {
            body: stranger.body.as_str().into(),
            trace_header: Some(trace.clone()),
            ..Outgoing::default()
        };
        let queue = self.plan.targets[target].queue;
        self.judge.known.stranger(target, stranger, &trace);
        self.note_sender(of);
        self.forward(queue, message);
    }

    /// A stranger puts an object beside the records of a function, or tells of one.
    pub fn put_strange(&mut self, of: Of, number: usize, notices: Notices, id: &str) {
        let plan = Rc::clone(&self.plan);
        let target = &plan.targets[number];
        let bucket = target.bucket().unwrap_or_default();
        // The function may not be deployed yet.
        if self.cloud.s3.check_bucket(&bucket).is_err() {
            return;
        }
        let place = |rest: &str| Place {
            bucket: bucket.clone(),
            key: format!("aws/lambda/async/{}/{rest}", target.name),
            version: None,
        };
        let usual = place(&format!("{DAY}/2026-02-02T03.04.05-{id}"));
        let payload = format!(r#"{{"strange":{number}}}"#);
        let about = |arn: &str, condition: &str, rest: &str| {
            let context =
                format!(r#""requestId":"{id}","functionArn":"{arn}","condition":"{condition}""#);
            record(&rfc3339(self.now), &context, rest)
        };
        let carried = format!(r#","requestPayload":{payload}"#);
        let arn = qualified_arn(&target.name);
        let good = about(&arn, "RetriesExhausted", &carried);
        let over = |reason| Stranger {
            over: Some(reason),
            ..Stranger::new("beside records", String::new(), id, "")
        };
        let as_good = Stranger::new("beside records", String::new(), id, &payload);
        let (place, bytes, stranger) = match self.choices.kind(of, "kind", 0..=10, 9) {
            0 => (usual, format!("no JSON, {id}"), over("unreadable")),
            1 => (usual, format!(r#"{{"no":"function","id":"{id}"}}"#), over("unreadable")),
            2 => {
                let other = about(&qualified_arn("another"), "RetriesExhausted", &carried);
                (usual, other, over("unreadable"))
            }
            3 => (usual, about(&arn, "RetriesExhausted", ""), over("payload_missing")),
            4 => (usual, about(&arn, "Success", &carried), over("unreadable")),
            5 if self.choices.happens(of, "large", self.plan.large) => {
                (usual, good.clone() + &" ".repeat(TOO_LARGE - good.len()), over("unreadable"))
            }
            6 => (place(&format!("{DAY}/a b+c&\u{e9}%25 {id}")), good, as_good),
            7 => {
                let said = place("latest.json");
                let body = json!({ "Records": [put_notice(&said)] }).to_string();
                let letter = body.clone();
                return self.tell(of, number, Stranger { body, letter, ..over("unreadable") });
            }
            8 => {
                let body = self.notice_of(notices, &usual);
                let kind = "tells of no object";
                let stranger = Stranger { body, place: Some(usual), kind, ..as_good };
                return self.tell(of, number, stranger);
            }
            10 => {
                // A function of the same name in another account. Only the record says so.
                let abroad = arn.replace("000000000000", "999999999999");
                let kind = "a record of another account";
                let over = Some("target_not_allowed");
                let stranger = Stranger { over, is_refused: true, kind, ..as_good };
                (usual, about(&abroad, "RetriesExhausted", &carried), stranger)
            }
            _ => (usual, good, as_good),
        };
        self.put_record_of(of, number, &place, &bytes, stranger);
    }

    /// The notice about an object that is not there.
    pub fn notice_of(&self, notices: Notices, place: &Place) -> String {
        match notices {
            Notices::EventBridge => created(place),
            Notices::Directly | Notices::Topic => {
                json!({ "Records": [put_notice(place)] }).to_string()
            }
        }
    }

    /// Another than the function's own invocation is the cause of this object.
    pub fn put_record_of(
        &mut self,
        of: Of,
        number: usize,
        place: &Place,
        bytes: &str,
        stranger: Stranger,
    ) {
        let trace = self.trace();
        let parts = stranger.batch.as_ref().map_or(0, |batch| batch.parts().len());
        let traces = (0..parts).map(|_| self.trace().into()).collect();
        self.judge.known.stranger(number, stranger, &trace);
        self.judge.known.is_to_be_divided(&trace, traces);
        self.note_sender(of);
        let ids = self.cloud.s3.request_ids();
        let put = Put {
            bucket: &place.bucket,
            key: &place.key,
            bytes: bytes.as_bytes().into(),
            content_type: None,
            principal: "a stranger",
            trace_header: Some(&trace),
        };
        // The bucket is there, and says what was put.
        let _ = self.cloud.put_object(self.now, &put, &ids);
    }

    /// A handler reads a record.
    pub fn read_record(&mut self, of: Of, location: &Location) -> Result<Found, Refusal> {
        let target =
            self.plan.targets.iter().position(|it| it.bucket().as_ref() == Some(&location.bucket));
        let is_denied = target.is_some_and(|it| self.is(Trouble::BucketDenied, it));
        if is_denied {
            self.judge.known.tally.count(crate::seen::Seen::Trouble(Trouble::BucketDenied));
        }
        if is_denied || self.happens(of, Fault::RecordDenied) {
            let (code, status) = self.choices.pick(of, "denial", &DENIALS);
            return Err(Refusal::of(code, status, FaultKind::Configuration));
        }
        let transient = Some(FaultKind::Transient { retry_after: None });
        if self.happens(of, Fault::RecordCut) {
            let status = Some(200);
            return Err(Refusal { status, kind: transient, ..Refusal::default() });
        }
        let object = self.cloud.s3.object(&location.bucket, &location.key);
        let bytes = object.map(|object| Arc::clone(&object.bytes));
        bytes.map(Found::Record).map_err(|error| {
            self.judge.known.tally.count(crate::seen::Seen::Fault(Fault::RecordGone));
            Refusal {
                kind: None,
                ..Refusal::of(error.code(), error.status(), FaultKind::Configuration)
            }
        })
    }

    /// A dead letter without its payload is accepted. Its record must have that, unless somebody has deleted it.
    pub fn check_pointer(&mut self, of: Subject, letter: &DeadLetter) {
        let Some(Place { bucket, key, .. }) = self.judge.known.pointed_to(of, letter) else {
            return;
        };
        let object = self.cloud.s3.object(&bucket, &key);
        if let Some(bytes) = object.ok().map(|object| Arc::clone(&object.bytes)) {
            self.judge.has_pointed(of, &bytes);
        }
    }
}

/// The notice of one object, as a handler must send it if S3 has told of several.
fn alone(record: &str) -> String {
    format!(r#"{{"Records":[{record}]}}"#)
}

/// The record of a notification of S3.
fn put_notice(Place { bucket, key, .. }: &Place) -> Value {
    json!({
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "s3": { "bucket": { "name": bucket }, "object": { "key": encoded(key) } },
    })
}

/// The same as EventBridge has it.
fn created(Place { bucket, key, version }: &Place) -> String {
    let mut object = json!({ "key": key, "size": 1 });
    if let Some(version) = version {
        object["version-id"] = json!(version);
    }
    let detail = json!({ "version": "0", "bucket": { "name": bucket }, "object": object });
    let event = json!({
        "version": "0",
        "detail-type": "Object Created",
        "source": "aws.s3",
        "detail": detail,
    });
    event.to_string()
}
