//! Tests of records in a bucket.

use serde_json::json;

use super::*;
use crate::{bucket_arn, s3::NotificationConfiguration};

const PREFIX: &str = "aws/lambda/async/";

impl World {
    /// Sets the bucket `records` as the on-failure destination of `f`. It notifies the queue `notices`.
    fn on_failure_in_bucket(&mut self) {
        self.queue("notices", &[]);
        self.cloud.s3.create_bucket("records").unwrap();
        let ids = self.cloud.s3.request_ids();
        let wanted = NotificationConfiguration::of_queue(&queue_arn("notices"), PREFIX);
        self.cloud.set_notifications(self.now, "records", wanted, &ids).unwrap();
        assert_eq!(self.record("notices")["Event"], "s3:TestEvent");
        self.set_destinations(json!({ "OnFailure": { "Destination": bucket_arn("records") } }))
            .unwrap();
    }

    fn set_destinations(&mut self, destinations: Value) -> Result<(), LambdaError> {
        let settings = EventInvokeSettings {
            maximum_retry_attempts: Some(0),
            destination_config: Some(serde_json::from_value(destinations).unwrap()),
            ..EventInvokeSettings::default()
        };
        self.cloud.lambda.set_event_invoke_config(self.now, "f", &settings, false).map(drop)
    }

    fn key(&self) -> String {
        let mut keys = self.cloud.s3.objects("records", PREFIX, "").unwrap();
        let key = keys.next().unwrap().0.to_string();
        assert!(keys.next().is_none());
        key
    }
}

#[test]
fn a_record_larger_than_a_message_is_an_object_under_lambdas_key_and_its_queue_is_notified() {
    let mut world = World::new();
    world.on_failure_in_bucket();
    let payload = format!("\"{}\"", "x".repeat(1024 * 1024 - 2));
    let request_id = world.event(&payload);
    let run = world.run();
    world.finish(&run, failure());

    let key = world.key();
    let id = key.strip_prefix("aws/lambda/async/f/2023/11/14/2023-11-14T22.13.20-").unwrap();
    assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
    let record = world.cloud.s3.object("records", &key).unwrap().bytes.clone();
    assert!(record.len() > 1024 * 1024);
    let record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(record["requestContext"]["requestId"], request_id);
    assert_eq!(record["requestPayload"].to_string(), payload);

    let message = world.receive("notices").remove(0);
    let notice: Value = serde_json::from_str(&message.body).unwrap();
    assert_eq!(notice["Records"][0]["s3"]["object"]["key"], key);
    // S3 passes on the header of a put, recorded on AWS in LocalStack's snapshot `test_xray_header`.
    assert_eq!(message.trace_header, Some(run.trace_header.clone()));
    let happened = world.cloud.take_happened();
    let last = &happened.last().unwrap().what;
    assert!(
        matches!(last, What::DestinationSent { destination } if **destination == *"arn:aws:s3:::records")
    );
}

#[test]
fn a_record_without_its_bucket_is_a_failed_delivery_and_one_without_its_queue_still_an_object() {
    let mut world = World::new();
    world.on_failure_in_bucket();
    world.cloud.sqs.delete_queue(world.now, "notices").unwrap();
    world.play("1", failure());
    let key = world.key();
    world.cloud.s3.delete("records", &key).unwrap();
    world.cloud.s3.delete_bucket("records").unwrap();
    world.play("2", failure());
    let happened = world.cloud.take_happened();
    let last = &happened.last().unwrap().what;
    let What::DestinationFailed { reason, metric, .. } = last else { panic!("{last:?}") };
    let expected = ("The specified bucket does not exist", "DestinationDeliveryFailures");
    assert_eq!((reason.as_str(), *metric), expected);
}

#[test]
fn a_bucket_is_a_destination_of_failures_only() {
    let mut world = World::new();
    for (destinations, why) in [
        (
            json!({ "OnSuccess": { "Destination": "arn:aws:s3:::records" } }),
            "only be a destination on failure",
        ),
        (
            json!({ "OnFailure": { "Destination": "arn:aws:s3:::records/key" } }),
            "got arn:aws:s3:::records/key",
        ),
        (json!({ "OnFailure": { "Destination": "arn:aws:s3:::" } }), "got arn:aws:s3:::"),
    ] {
        let refused = world.set_destinations(destinations).unwrap_err();
        assert_eq!(refused.code(), "InvalidParameterValueException");
        assert!(refused.to_string().contains(why), "{refused}");
    }
}
