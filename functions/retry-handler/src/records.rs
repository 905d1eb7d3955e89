//! The buckets with failure records.
//!
//! All that is needed of S3 is to read an object. `aws-sdk-s3` would be by far the largest client of the handler, so
//! this is one signed request, over the connections and with the credentials of the other clients.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::{
    http_request::{
        PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
        UriPathNormalizationMode, sign,
    },
    sign::v4,
};
use aws_smithy_async::time::SharedTimeSource;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_types::{body::SdkBody, byte_stream::ByteStream};
use aws_types::service_config::ServiceConfigKey;
use comeback_core::{
    arn::Home,
    fault::{RecordFault, StoreFault, classify_read},
    notice::Location,
};
use comeback_flow::ports::{RECORD_MAX, Records};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::clients::{CALL_MAX, CONNECTOR};

/// What S3's signature leaves as it is in a key.
const KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
const VALUE: &AsciiSet = &KEY.add(b'/');

/// The longest error that is read. S3's have less than a kilobyte.
const ERROR_MAX: usize = 64 << 10;

pub struct S3Records {
    connector: SharedHttpConnector,
    credentials: Option<SharedCredentialsProvider>,
    time: SharedTimeSource,
    region: String,
    /// A custom endpoint, which has the bucket in the path.
    endpoint: Option<String>,
    /// The host on AWS, up to the region.
    host: &'static str,
    max: Duration,
}

impl S3Records {
    pub fn new(aws: &SdkConfig) -> Self {
        Self::over(CONNECTOR.clone(), aws)
    }

    /// The same over connections of the caller's own.
    pub fn over(connector: SharedHttpConnector, aws: &SdkConfig) -> Self {
        let host = match (aws.use_fips().unwrap_or(false), aws.use_dual_stack().unwrap_or(false)) {
            (false, false) => "s3",
            (false, true) => "s3.dualstack",
            (true, false) => "s3-fips",
            (true, true) => "s3-fips.dualstack",
        };
        let timeouts = aws.timeout_config();
        Self {
            connector,
            credentials: aws.credentials_provider(),
            time: aws.time_source().unwrap_or_default(),
            region: aws.region().map_or_else(String::new, ToString::to_string),
            endpoint: endpoint(aws),
            host,
            max: timeouts.and_then(|it| it.operation_timeout()).unwrap_or(CALL_MAX),
        }
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
    /// The URL of an object. The certificate of `*.s3.REGION.amazonaws.com` covers no bucket with dots in its name, so
    /// that is in the path.
    fn url(&self, location: &Location, domain: &str) -> String {
        let Location { bucket, key, version, .. } = location;
        let key = utf8_percent_encode(key, KEY);
        let at = match &self.endpoint {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            None => {
                let host = format!("{}.{}.{domain}", self.host, self.region);
                match bucket.contains('.') {
                    true => format!("https://{host}/{bucket}"),
                    false => format!("https://{bucket}.{host}"),
                }
            }
        };
        match version {
            Some(version) => {
                format!("{at}/{key}?versionId={}", utf8_percent_encode(version, VALUE))
            }
            None => format!("{at}/{key}"),
        }
    }

    /// The signed request for an object. S3 refuses it if the bucket belongs to another account: a name can be taken by
    /// anybody once its bucket is deleted.
    async fn request(
        &self,
        location: &Location,
        home: &Home,
    ) -> Result<http::Request<SdkBody>, String> {
        const OWNER: &str = "x-amz-expected-bucket-owner";
        let in_words = |error: &dyn std::error::Error| {
            aws_sdk_sqs::error::DisplayErrorContext(error).to_string()
        };
        let Some(credentials) = &self.credentials else {
            return Err("there are no credentials".to_owned());
        };
        let identity = credentials.provide_credentials().await.map_err(|error| in_words(&error))?;
        let url = self.url(location, home.domain());
        let request = http::Request::get(&url).header(OWNER, home.account());
        let mut request = request.body(SdkBody::empty()).map_err(|error| in_words(&error))?;
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        let identity = identity.into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("s3")
            .time(self.time.now())
            .settings(settings)
            .build()
            .map_err(|error| in_words(&error))?
            .into();
        let headers = std::iter::once((OWNER, home.account()));
        let signable = SignableRequest::new("GET", &url, headers, SignableBody::Bytes(&[]))
            .map_err(|error| in_words(&error))?;
        let signed = sign(signable, &parameters).map_err(|error| in_words(&error))?;
        signed.into_parts().0.apply_to_request_http1x(&mut request);
        Ok(request)
    }

    async fn get(&self, location: &Location, home: &Home) -> Result<Vec<u8>, Unread> {
        let request = self.request(location, home).await;
        let request = request.and_then(|request| {
            request
                .try_into()
                .map_err(|error: aws_smithy_runtime_api::http::HttpError| error.to_string())
        });
        let request = request.map_err(|message| {
            let fault = StoreFault { passes: false, code: None, message };
            Unread::Fault(RecordFault::Store(fault))
        })?;
        let answer = self.connector.call(request).await;
        let answer = answer.map_err(|error| Unread::Unanswered(error.to_string()))?;
        let status = answer.status().as_u16();
        let announced = answer.headers().get("content-length").and_then(|it| it.parse().ok());
        let is_whole = (200..300).contains(&status);
        if is_whole && announced.is_some_and(|length: usize| length > RECORD_MAX) {
            return Err(Unread::Fault(RecordFault::TooLarge));
        }
        let max = if is_whole { RECORD_MAX } else { ERROR_MAX };
        let body = ByteStream::new(answer.into_body());
        let body = bytes(body, announced.unwrap_or(0).min(max), max).await;
        match body {
            Ok(Some(bytes)) if is_whole => Ok(bytes),
            Ok(None) if is_whole => Err(Unread::Fault(RecordFault::TooLarge)),
            Err(cut) if is_whole => Err(Unread::Fault(classify_read(None, Some(status), &cut))),
            error => {
                let text = error.ok().flatten().unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let (code, message) = (element(&text, "Code"), element(&text, "Message"));
                let unknown = format!("S3 answered with HTTP status {status}");
                let fault = classify_read(code, Some(status), message.unwrap_or(&unknown));
                Err(Unread::Fault(fault))
            }
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

/// The endpoint in `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, or in the profile.
fn endpoint(aws: &SdkConfig) -> Option<String> {
    let key = ServiceConfigKey::builder()
        .service_id("S3")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build()
        .ok()?;
    let own = aws.service_config().and_then(|config| config.load_config(key));
    own.or_else(|| aws.endpoint_url().map(str::to_owned))
}

/// The bytes of a body, or `None` if it has more than `max`. They are read no further than that.
async fn bytes(
    mut body: ByteStream,
    announced: usize,
    max: usize,
) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = Vec::with_capacity(announced);
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| format!("the answer was cut off: {error}"))?;
        if bytes.len() + part.len() > max {
            return Ok(None);
        }
        bytes.extend_from_slice(&part);
    }
    if bytes.len() < announced {
        return Err(format!("the answer was cut off after {} bytes", bytes.len()));
    }
    Ok(Some(bytes))
}

/// The text of the first element of this name in S3's XML.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0)
}

#[cfg(test)]
mod tests {
    use aws_config::{BehaviorVersion, Region};
    use aws_credential_types::Credentials;
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
            let url = records(region, endpoint).url(&location, home(partition).domain());
            assert_eq!(url, format!("{expected}{KEY}"));
        }
        let key = "aws/lambda/async/orders/2026/02/01/a b+é%//..";
        let location = Location::of("records", key, Some("v/1 +")).unwrap();
        let url = records("us-east-1", None).url(&location, "amazonaws.com");
        assert!(url.ends_with("/01/a%20b%2B%C3%A9%25//..?versionId=v%2F1%20%2B"), "{url}");
    }

    #[tokio::test]
    async fn a_request_is_signed_with_the_owner_that_the_bucket_must_have_and_the_sessions_token() {
        let location = Location::of("records", KEY, None).unwrap();
        let request = records("us-east-1", None).request(&location, &home("aws")).await.unwrap();
        let header = |name: &str| request.headers().get(name).unwrap().to_str().unwrap();
        assert_eq!(header("x-amz-expected-bucket-owner"), "123456789012");
        assert_eq!(header("x-amz-security-token"), "token");
        let signed = header("authorization");
        assert!(signed.contains("/us-east-1/s3/aws4_request"), "{signed}");
        let headers = "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-expected-bucket-owner;x-amz-security-token";
        assert!(signed.contains(headers), "{signed}");
    }

    #[test]
    fn an_error_of_s3_has_a_code_and_a_message() {
        let xml = "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>It is gone.</Message></Error>";
        assert_eq!(element(xml, "Code"), Some("NoSuchKey"));
        assert_eq!(element(xml, "Message"), Some("It is gone."));
        assert_eq!(element("<html>", "Code"), None);
    }
}
