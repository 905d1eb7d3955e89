//! `comeback attach --records`, and what `comeback doctor` finds of a bucket, run against the local cloud.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Output,
};

use crate::support::{Cloud, create_on_moto, json, on_moto, text};
use moto::Moto;
use serde_json::json;

/// The largest payload of an event. With the record around it, no queue takes it.
const PAYLOAD_MAX: usize = 1_048_576;

/// The answer of S3 to a request about the bucket `records`, which must succeed.
pub fn bucket(endpoint: &str, method: &str, part: &str, body: &str) -> String {
    ask(endpoint, "s3", &format!("{method} /records{part} HTTP/1.1\r\n"), body)
}

/// The answer of a service for which tests have no client to a request that begins with this head. It must succeed.
pub fn ask(endpoint: &str, service: &str, head: &str, body: &str) -> String {
    let address = endpoint.strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    write!(
        connection,
        "{head}host: {address}\r\nconnection: close\r\nauthorization: AWS4-HMAC-SHA256 \
         Credential=x/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 20"), "{head}: {answer}");
    answer
}

/// The findings about the bucket, in the output of `comeback doctor --json`.
fn findings_of_bucket(output: &Output) -> Vec<String> {
    let document = json(output);
    let all = document["systems"][0]["findings"].as_array().unwrap().iter();
    let all = all.filter(|it| it["part"] == "record bucket records");
    let names = all.map(|it| it["name"].as_str().unwrap().to_owned());
    names.filter(|name| !["good", "unchecked"].contains(&name.as_str())).collect()
}

impl Cloud {
    fn bucket(&self, method: &str, part: &str, body: &str) -> String {
        bucket(&self.endpoint, method, part, body)
    }

    fn findings_of_bucket(&self) -> Vec<String> {
        findings_of_bucket(&self.run(&["doctor", "--json"]))
    }

    async fn variable(&self, name: &str) -> Option<String> {
        let call = self.client.lambda.get_function_configuration().function_name("retry-handler");
        let environment = call.send().await.unwrap().environment.unwrap();
        environment.variables.unwrap().get(name).cloned()
    }
}

/// A notification of other objects to another queue.
const OTHERS: &str = "<QueueConfiguration><Id>logs</Id><Queue>arn:aws:sqs:us-east-1:000000000000:logs</Queue>\
<Event>s3:ObjectCreated:*</Event><Filter><S3Key><FilterRule><Name>prefix</Name><Value>logs/</Value></FilterRule>\
</S3Key></Filter></QueueConfiguration>";

fn notifications(parts: &str) -> String {
    format!("<NotificationConfiguration>{parts}</NotificationConfiguration>")
}

#[tokio::test]
async fn an_event_that_no_queue_takes_comes_back_whole_by_a_bucket_until_its_function_is_detached()
{
    let cloud =
        Cloud::start(&["--set", "TARGET_FUNCTIONS=example-target", "--set", "MAX_BACKOFF=1s"]);
    cloud.create("orders").await;
    cloud.client.sqs.create_queue().queue_name("logs").send().await.unwrap();
    let order = ["attach", "orders", "--records", "records", "--transparent", "--yes"];
    cloud.refuses(&order, "NoSuchBucket");
    cloud.bucket("PUT", "", "");
    cloud.bucket("PUT", "?notification", &notifications(OTHERS));
    let attached = cloud.says(&order);
    for part in
        ["RECORD_BUCKETS=records", "✓ bucket records: notifications", "arn:aws:s3:::records"]
    {
        assert!(attached.contains(part), "{part}: {attached}");
    }
    assert!(cloud.says(&order).contains("nothing to do"));
    assert!(cloud.says(&["status"]).contains(" orders "), "it is attached");
    let told = cloud.bucket("GET", "?notification", "");
    for part in ["<Id>logs</Id>", "<Id>comeback-orders</Id>", "aws/lambda/async/orders/"] {
        assert!(told.contains(part), "{part}: {told}");
    }

    let mut payload = json!({ "id": "1", "fail": { "error": "Down" }, "pad": "" });
    payload["pad"] = "x".repeat(PAYLOAD_MAX - payload.to_string().len()).into();
    let payload = payload.to_string();
    assert_eq!(payload.len(), PAYLOAD_MAX);
    cloud.client.invoke("orders", &payload).await.unwrap();
    let runs = cloud.runs_of("orders", 3).await;
    assert!(runs.iter().all(|run| *run == payload), "{:?}", runs.iter().map(String::len));

    let first = cloud.says(&["detach", "orders", "--yes"]);
    assert!(first.contains("✓ orders: asynchronous invocations"), "{first}");
    assert_eq!(cloud.variable("RECORD_BUCKETS").await.as_deref(), Some("records"));
    cloud.says(&["detach", "orders", "--yes", "--now"]);
    for name in ["RECORD_BUCKETS", "POLICIES"] {
        assert_eq!(cloud.variable(name).await, None, "{name}");
    }
    let told = cloud.bucket("GET", "?notification", "");
    assert!(told.contains("<Id>logs</Id>") && !told.contains("comeback-orders"), "{told}");
}

#[tokio::test]
async fn what_a_bucket_lacks_is_found_and_each_command_of_a_finding_mends_it() {
    let cloud = Cloud::start(&[]);
    cloud.create("orders").await;
    cloud.bucket("PUT", "", "");
    cloud.says(&["attach", "orders", "--records", "records", "--yes"]);
    assert_eq!(cloud.findings_of_bucket(), ["records_kept_forever", "bucket_without_tls"]);
    let rule = "<Rule><ID>r</ID><Filter><Prefix>aws/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>14</Days>\
                </Expiration></Rule>";
    let rules = |rule: &str| format!("<LifecycleConfiguration>{rule}</LifecycleConfiguration>");
    cloud.bucket("PUT", "?lifecycle", &rules(rule));
    let tls = json!({ "Statement": [{ "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": "*", "Condition": { "Bool": { "aws:SecureTransport": "false" } } }] });
    cloud.bucket("PUT", "?policy", &tls.to_string());
    assert_eq!(cloud.findings_of_bucket(), ["records_expire"]);
    cloud.bucket("PUT", "?lifecycle", &rules(&rule.replace("14", "30")));
    assert_eq!(cloud.findings_of_bucket(), [""; 0]);
    cloud.bucket("DELETE", "?publicAccessBlock", "");
    cloud.bucket("PUT", "?notification", &notifications(""));
    assert_eq!(cloud.findings_of_bucket(), ["records_unnoticed", "bucket_unblocked"]);
    let says = text(&cloud.run(&["doctor"]).stdout);
    assert!(says.contains("comeback attach orders --records records --local"), "{says}");
    cloud.says(&["attach", "orders", "--records", "records", "--yes"]);
    assert_eq!(cloud.findings_of_bucket(), ["bucket_unblocked"]);
    cloud.bucket("DELETE", "", "");
    assert_eq!(cloud.findings_of_bucket(), ["record_bucket_missing"]);
    cloud.says(&["detach", "orders", "--yes", "--now"]);
    assert_eq!(cloud.variable("RECORD_BUCKETS").await, None);
}

#[tokio::test]
async fn the_configurations_of_another_implementation_of_s3_are_understood_and_kept() {
    let moto = Moto::start();
    let sdk = moto::config(&moto.endpoint);
    let sqs = aws_sdk_sqs::Client::new(&sdk);
    let queue = |name: &'static str| sqs.create_queue().queue_name(name).send();
    let dead = queue("dead").await.unwrap().queue_url.unwrap();
    queue("retry").await.unwrap();
    queue("logs").await.unwrap();
    create_on_moto(&sdk, "handler", &[("DEAD_LETTER_QUEUE_URL", &dead)]).await;
    create_on_moto(&sdk, "orders", &[]).await;
    let lambda = aws_sdk_lambda::Client::new(&sdk);
    let mapping = lambda.create_event_source_mapping().function_name("handler");
    let mapping = mapping.event_source_arn("arn:aws:sqs:us-east-1:000000000000:retry");
    mapping.send().await.unwrap();
    let bucket = |method: &str, part: &str, body: &str| bucket(&moto.endpoint, method, part, body);
    bucket("PUT", "", "");
    bucket("PUT", "?notification", &notifications(OTHERS));
    let attached = on_moto(&moto, &["attach", "orders", "--records", "records", "--yes"]).output();
    let attached = attached.unwrap();
    assert!(attached.status.success(), "{attached:?}");
    let told = bucket("GET", "?notification", "");
    assert!(told.contains("<Id>logs</Id>") && told.contains("<Id>comeback-orders</Id>"), "{told}");
    let doctor = || findings_of_bucket(&on_moto(&moto, &["doctor", "--json"]).output().unwrap());
    let open = ["records_kept_forever", "bucket_unblocked", "bucket_without_tls"];
    assert_eq!(doctor(), open);
    bucket(
        "PUT",
        "?lifecycle",
        "<LifecycleConfiguration><Rule><ID>r</ID><Filter><Prefix>aws/</Prefix></Filter><Status>Enabled</Status>\
         <Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>",
    );
    bucket(
        "PUT",
        "?publicAccessBlock",
        "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true\
         </IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true\
         </RestrictPublicBuckets></PublicAccessBlockConfiguration>",
    );
    let tls = json!({ "Statement": [{ "Effect": "Deny", "Principal": "*", "Action": "s3:*",
        "Resource": "*", "Condition": { "Bool": { "aws:SecureTransport": "false" } } }] });
    bucket("PUT", "?policy", &tls.to_string());
    assert_eq!(doctor(), ["records_expire"]);
}
