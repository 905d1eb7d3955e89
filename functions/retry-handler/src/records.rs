//! The buckets with failure records.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::SharedHttpConnector;
use aws_smithy_types::byte_stream::ByteStream;
use comeback_core::{
    arn::Home,
    fault::{RecordFault, StoreFault, classify_read},
    notice::Location,
};
use comeback_flow::ports::{RECORD_MAX, Records};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    clients::{CALL_MAX, CONNECTOR},
    s3::{S3, refused},
    signed::{NoAnswer, announced, bytes},
};

/// What S3's signature leaves as it is in a key.
const KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
const VALUE: &AsciiSet = &KEY.add(b'/');

pub struct S3Records {
    s3: S3,
    max: Duration,
}

impl S3Records {
    pub fn new(aws: &SdkConfig) -> Self {
        Self::over(CONNECTOR.clone(), aws)
    }

    /// The same over connections of the caller's own.
    pub fn over(connector: SharedHttpConnector, aws: &SdkConfig) -> Self {
        let timeouts = aws.timeout_config();
        let max = timeouts.and_then(|it| it.operation_timeout()).unwrap_or(CALL_MAX);
        Self { s3: S3::over(connector, aws), max }
    }

    /// Reads an object. A connection that was kept from an earlier invocation may be closed by now, so a request
    /// without an answer is made once more. All else is left to the notice, which waits and comes back.
    pub async fn read(&self, location: &Location, home: &Home) -> Result<Vec<u8>, RecordFault> {
        let read = async {
            match self.get(location, home).await {
                Err(Unread::Unanswered(_)) => self.get(location, home).await,
                read => read,
            }
        };
        match tokio::time::timeout(self.max, read).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(Unread::Fault(fault))) => Err(fault),
            Ok(Err(Unread::Unanswered(message))) => Err(classify_read(None, None, &message)),
            Err(_) => {
                let message = format!("there was no whole answer within {:?}", self.max);
                Err(classify_read(None, None, &message))
            }
        }
    }

    fn url(&self, location: &Location, home: &Home) -> String {
        let Location { bucket, key, version, .. } = location;
        let (at, key) = (self.s3.url(bucket, home), utf8_percent_encode(key, KEY));
        match version {
            Some(version) => {
                format!("{at}/{key}?versionId={}", utf8_percent_encode(version, VALUE))
            }
            None => format!("{at}/{key}"),
        }
    }

    async fn get(&self, location: &Location, home: &Home) -> Result<Vec<u8>, Unread> {
        let answer = self.s3.send("GET", &self.url(location, home), &[], home).await;
        let answer = answer.map_err(|error| match error {
            NoAnswer::Unanswered(message) => Unread::Unanswered(message),
            NoAnswer::Unsent(message) => {
                let fault = StoreFault { is_transient: false, code: None, message };
                Unread::Fault(RecordFault::Store(fault))
            }
        })?;
        let status = answer.status().as_u16();
        if !answer.status().is_success() {
            let refused = refused(answer).await;
            let unknown = || format!("S3 answered with HTTP status {status}");
            let message = refused.message.unwrap_or_else(unknown);
            let fault = classify_read(refused.code.as_deref(), Some(status), &message);
            return Err(Unread::Fault(fault));
        }
        let announced = announced(&answer);
        if announced.is_some_and(|length| length > RECORD_MAX) {
            return Err(Unread::Fault(RecordFault::TooLarge));
        }
        let body = ByteStream::new(answer.into_body());
        match bytes(body, announced.unwrap_or(0), RECORD_MAX).await {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(Unread::Fault(RecordFault::TooLarge)),
            Err(cut) => Err(Unread::Fault(classify_read(None, Some(status), &cut))),
        }
    }
}

/// Why an object was not read.
enum Unread {
    /// No answer has begun to arrive.
    Unanswered(String),
    Fault(RecordFault),
}

impl Records for S3Records {
    async fn read(&self, location: &Location, home: &Home) -> Result<Vec<u8>, RecordFault> {
        self.read(location, home).await
    }
}

#[cfg(test)]
mod tests {
    use aws_config::{BehaviorVersion, Region};
    use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
    use comeback_core::arn::FunctionArn;

    use super::*;

    const KEY: &str = "aws/lambda/async/orders/2026/02/01/2026-02-01T12.00.00-3f1c";

    fn records(region: &'static str, endpoint: Option<&str>) -> S3Records {
        let token = Some("token".to_owned());
        let credentials = Credentials::new("key", "secret", token, None, "test");
        let mut aws = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .region(Region::new(region));
        aws.set_endpoint_url(endpoint.map(str::to_owned));
        S3Records::new(&aws.build())
    }

    fn home(partition: &str) -> Home {
        let arn = format!("arn:{partition}:lambda:us-east-1:123456789012:function:retry-handler");
        FunctionArn::parse(&arn).unwrap().home()
    }

    #[test]
    fn a_bucket_is_in_the_host_on_aws_unless_its_name_has_dots_and_in_the_path_elsewhere() {
        for (region, partition, endpoint, bucket, expected) in [
            ("us-east-1", "aws", None, "records", "https://records.s3.us-east-1.amazonaws.com/"),
            (
                "cn-north-1",
                "aws-cn",
                None,
                "records",
                "https://records.s3.cn-north-1.amazonaws.com.cn/",
            ),
            (
                "eu-west-1",
                "aws",
                None,
                "my.records",
                "https://s3.eu-west-1.amazonaws.com/my.records/",
            ),
            (
                "us-east-1",
                "aws",
                Some("http://[::1]:4700/"),
                "records",
                "http://[::1]:4700/records/",
            ),
        ] {
            let location = Location::of(bucket, KEY, None).unwrap();
            let url = records(region, endpoint).url(&location, &home(partition));
            assert_eq!(url, format!("{expected}{KEY}"));
        }
        let key = "aws/lambda/async/orders/2026/02/01/a b+é%//..";
        let location = Location::of("records", key, Some("v/1 +")).unwrap();
        let url = records("us-east-1", None).url(&location, &home("aws"));
        assert!(url.ends_with("/01/a%20b%2B%C3%A9%25//..?versionId=v%2F1%20%2B"), "{url}");
    }

    #[tokio::test]
    async fn a_request_is_signed_with_the_owner_that_the_bucket_must_have_and_the_sessions_token() {
        let (records, home) = (records("us-east-1", None), home("aws"));
        let url = records.url(&Location::of("records", KEY, None).unwrap(), &home);
        let request = records.s3.request(&url, &home).await.unwrap();
        let header = |name: &str| request.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header("x-amz-expected-bucket-owner"), "123456789012");
        assert_eq!(header("x-amz-security-token"), "token");
        let signed = header("authorization");
        assert!(signed.contains("/us-east-1/s3/aws4_request"), "{signed}");
        let headers = "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-expected-bucket-owner;x-amz-security-token";
        assert!(signed.contains(headers), "{signed}");
    }
}
