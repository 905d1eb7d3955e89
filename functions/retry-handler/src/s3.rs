//! Signed requests to S3.
//!
//! `aws-sdk-s3` would be by far the largest client of the handler, and of the program that people build themselves. So
//! this signs single requests, over the connections and with the credentials of the other clients.

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
use aws_smithy_runtime_api::client::{
    http::{HttpConnector as _, SharedHttpConnector},
    orchestrator::HttpResponse,
};
use aws_smithy_types::{body::SdkBody, byte_stream::ByteStream};
use aws_types::service_config::ServiceConfigKey;
use comeback_core::arn::Home;

/// The longest error that is read. S3's have less than a kilobyte.
const ERROR_MAX: usize = 64 << 10;

/// The longest answer about a bucket's configuration. Its policy has at most 20 KB, and a thousand rules of a lifecycle
/// are shorter than this.
const CONFIGURATION_MAX: usize = 4 << 20;

pub struct S3 {
    connector: SharedHttpConnector,
    credentials: Option<SharedCredentialsProvider>,
    time: SharedTimeSource,
    region: String,
    /// A custom endpoint, which has the bucket in the path.
    endpoint: Option<String>,
    /// The host on AWS, up to the region.
    host: &'static str,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The request could not be made.
    Unsent(String),
    /// No answer has begun to arrive.
    Unanswered(String),
}

/// An answer that is no success. Its code and its message may be missing.
#[derive(Debug)]
pub struct Refused {
    pub status: u16,
    pub code: Option<String>,
    pub message: Option<String>,
}

/// What went wrong with a request about a bucket's configuration.
#[derive(Debug)]
pub enum Failed {
    NoAnswer(NoAnswer),
    Refused(Refused),
    /// The answer was cut off, or too long.
    Broken(String),
}

impl S3 {
    pub fn over(connector: SharedHttpConnector, aws: &SdkConfig) -> Self {
        let host = match (aws.use_fips().unwrap_or(false), aws.use_dual_stack().unwrap_or(false)) {
            (false, false) => "s3",
            (false, true) => "s3.dualstack",
            (true, false) => "s3-fips",
            (true, true) => "s3-fips.dualstack",
        };
        Self {
            connector,
            credentials: aws.credentials_provider(),
            time: aws.time_source().unwrap_or_default(),
            region: aws.region().map_or_else(String::new, ToString::to_string),
            endpoint: endpoint(aws),
            host,
        }
    }

    /// The URL of a bucket. The certificate of `*.s3.REGION.amazonaws.com` covers no bucket with dots in its name, so
    /// that is in the path.
    pub(crate) fn url(&self, bucket: &str, home: &Home) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            None => {
                let host = format!("{}.{}.{}", self.host, self.region, home.domain());
                match bucket.contains('.') {
                    true => format!("https://{host}/{bucket}"),
                    false => format!("https://{bucket}.{host}"),
                }
            }
        }
    }

    /// A signed request. S3 refuses it if the bucket belongs to another account: a name can be taken by anybody once
    /// its bucket is deleted.
    pub(crate) async fn request(
        &self,
        method: &str,
        url: &str,
        body: &[u8],
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
        let request = http::Request::builder().method(method).uri(url);
        let request = request.header(OWNER, home.account()).body(SdkBody::from(body));
        let mut request = request.map_err(|error| in_words(&error))?;
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
        let signable = SignableRequest::new(method, url, headers, SignableBody::Bytes(body))
            .map_err(|error| in_words(&error))?;
        let signed = sign(signable, &parameters).map_err(|error| in_words(&error))?;
        signed.into_parts().0.apply_to_request_http1x(&mut request);
        Ok(request)
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        url: &str,
        body: &[u8],
        home: &Home,
    ) -> Result<HttpResponse, NoAnswer> {
        let request = self.request(method, url, body, home).await;
        let request = request.and_then(|request| {
            request
                .try_into()
                .map_err(|error: aws_smithy_runtime_api::http::HttpError| error.to_string())
        });
        let answer = self.connector.call(request.map_err(NoAnswer::Unsent)?).await;
        answer.map_err(|error| NoAnswer::Unanswered(error.to_string()))
    }

    /// Reads a part of a bucket's configuration, such as `notification`: XML, or the policy's JSON.
    pub async fn configuration(
        &self,
        bucket: &str,
        part: &str,
        home: &Home,
    ) -> Result<String, Failed> {
        self.configure("GET", bucket, part, "", home).await
    }

    /// Replaces a part of a bucket's configuration as a whole.
    pub async fn set_configuration(
        &self,
        bucket: &str,
        part: &str,
        to: &str,
        home: &Home,
    ) -> Result<(), Failed> {
        self.configure("PUT", bucket, part, to, home).await.map(drop)
    }

    async fn configure(
        &self,
        method: &str,
        bucket: &str,
        part: &str,
        body: &str,
        home: &Home,
    ) -> Result<String, Failed> {
        let url = format!("{}/?{part}", self.url(bucket, home));
        let answer = self.send(method, &url, body.as_bytes(), home).await;
        let answer = answer.map_err(Failed::NoAnswer)?;
        if !answer.status().is_success() {
            return Err(Failed::Refused(refused(answer).await));
        }
        let announced = announced(&answer);
        let body = ByteStream::new(answer.into_body());
        let read = bytes(body, announced.unwrap_or(0), CONFIGURATION_MAX).await;
        let read = read.map_err(Failed::Broken)?;
        let read = read.ok_or_else(|| Failed::Broken("the answer is too long".to_owned()))?;
        String::from_utf8(read).map_err(|_| Failed::Broken("the answer is not UTF-8".to_owned()))
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

/// The length of the body that an answer announces.
pub(crate) fn announced(answer: &HttpResponse) -> Option<usize> {
    answer.headers().get("content-length").and_then(|it| it.parse().ok())
}

/// The code and the message of an answer that is no success.
pub(crate) async fn refused(answer: HttpResponse) -> Refused {
    let status = answer.status().as_u16();
    let announced = announced(&answer).unwrap_or(0).min(ERROR_MAX);
    let body = bytes(ByteStream::new(answer.into_body()), announced, ERROR_MAX).await;
    let text = body.ok().flatten().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let of = |name| element(&text, name).map(str::to_owned);
    Refused { status, code: of("Code"), message: of("Message") }
}

/// The bytes of a body, or `None` if it has more than `max`. They are read no further than that.
pub(crate) async fn bytes(
    mut body: ByteStream,
    announced: usize,
    max: usize,
) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = Vec::with_capacity(announced.min(max));
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
    use super::*;

    #[test]
    fn an_error_of_s3_has_a_code_and_a_message() {
        let xml = "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>It is gone.</Message></Error>";
        assert_eq!(element(xml, "Code"), Some("NoSuchKey"));
        assert_eq!(element(xml, "Message"), Some("It is gone."));
        assert_eq!(element("<html>", "Code"), None);
    }
}
