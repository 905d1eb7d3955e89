use super::*;
use crate::{
    kinesis::SHARD,
    lambda::stream_mapping::StreamSettings,
    s3::{NotificationConfiguration, S3Error},
};

const STREAM: &str = "arn:aws:kinesis:us-east-1:000000000000:stream/clicks";

/// A stream with three records, mapped to `f` with one retry and with a bucket for what fails.
fn mapped(report: bool) -> (World, Arc<str>) {
    let mut world = World::new();
    world.cloud.s3.create_bucket("records").unwrap();
    world.cloud.kinesis.create(world.now, "clicks").unwrap();
    for data in ["MQ==", "Mg==", "Mw=="] {
        let entry = serde_json::json!({ "Data": data, "PartitionKey": "k" });
        let entry = serde_json::from_value(entry).unwrap();
        world.cloud.kinesis.put(world.now, "clicks", entry).unwrap();
    }
    let settings = StreamSettings {
        starting_position: Some("TRIM_HORIZON".to_owned()),
        maximum_retry_attempts: Some(1),
        function_response_types: report.then(|| vec!["ReportBatchItemFailures".to_owned()]),
        destination_config: Some(DestinationConfig::on_failure("arn:aws:s3:::records".to_owned())),
        ..StreamSettings::default()
    };
    let mapping = world.cloud.create_stream_mapping(world.now, STREAM, "f", &settings).unwrap();
    let uuid = Arc::clone(&mapping.uuid);
    (world, uuid)
}

fn data(run: &Run) -> Vec<String> {
    let event: Value = serde_json::from_str(run.payload.get()).unwrap();
    let records = event["Records"].as_array().unwrap().iter();
    records.map(|record| record["kinesis"]["data"].as_str().unwrap().to_owned()).collect()
}

/// The keys and the contents of the records in the bucket.
fn put(world: &World) -> Result<Vec<(String, Value)>, S3Error> {
    let objects = world.cloud.s3.objects("records", "", "")?;
    let content = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
    Ok(objects.map(|(key, object)| (key.to_string(), content(&object.bytes))).collect())
}

#[test]
fn a_batch_that_is_given_up_lies_in_the_bucket_with_its_whole_event() {
    let (mut world, uuid) = mapped(false);
    let first = world.run();
    assert_eq!(data(&first), ["MQ==", "Mg==", "Mw=="]);
    world.finish(&first, failure());
    assert_eq!(world.wait(), Some(secs(1)));
    let second = world.run();
    world.finish(&second, failure());
    let [(key, record)] = &put(&world).unwrap()[..] else { panic!() };
    let prefix = format!("aws/lambda/{uuid}/{SHARD}/2023/11/14/2023-11-14T22.13.21-");
    assert!(key.starts_with(&prefix), "{key}");
    assert_eq!(record["payload"], second.payload.get(), "each byte of the event, as a string");
    assert_eq!(record["requestContext"]["requestId"], *second.request_id);
    assert_eq!(record["requestContext"]["approximateInvokeCount"], 2);
    assert_eq!(record["KinesisBatchInfo"]["batchSize"], 3);
    assert!(world.advance().is_empty(), "the shard goes on");
}

#[test]
fn what_a_report_names_is_tried_again_with_all_that_comes_after_it() {
    let (mut world, _) = mapped(true);
    let run = world.run();
    let event: Value = serde_json::from_str(run.payload.get()).unwrap();
    let second = &event["Records"][1]["kinesis"]["sequenceNumber"];
    let report = |id: &Value| {
        let report = serde_json::json!({ "batchItemFailures": [{ "itemIdentifier": id }] });
        Outcome::Returned(report.to_string().into_bytes())
    };
    world.finish(&run, report(second));
    world.wait();
    let again = world.run();
    assert_eq!(data(&again), ["Mg==", "Mw=="]);
    world.finish(&again, report(&"of no record".into()));
    let [(_, record)] = &put(&world).unwrap()[..] else { panic!() };
    assert_eq!(record["payload"], again.payload.get());
    assert_eq!(record["responseContext"]["functionError"], Value::Null);
}

#[test]
fn a_bucket_tells_a_queue_of_the_record() {
    let (mut world, _) = mapped(false);
    world.queue("told", &[]);
    let wanted = NotificationConfiguration::of_queue(&queue_arn("told"), "aws/lambda/");
    let ids = world.cloud.s3.request_ids();
    let now = world.now;
    world.cloud.set_notifications(now, "records", wanted, &ids).unwrap();
    for _ in 0..2 {
        let run = world.run();
        world.finish(&run, failure());
        world.wait();
    }
    let told = world.cloud.sqs.receive(world.now, "told", 10, None).unwrap();
    assert!(told.iter().any(|notice| notice.body.contains(r#""key":"aws/lambda/"#)), "{told:?}");
}
