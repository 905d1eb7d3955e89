//! Signed requests to services that have no client here, over the connections and with the credentials of the other
//! clients.

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

/// The longest answer. The largest ones are policies of buckets, the rules of their lifecycle, and lists of schedules.
const ANSWER_MAX: usize = 4 << 20;

/// The service by which requests to S3 are signed.
pub(crate) const S3: &str = "s3";

pub struct Signer {
    connector: SharedHttpConnector,
    credentials: Option<SharedCredentialsProvider>,
    time: SharedTimeSource,
    pub(crate) region: String,
}

/// A request that is to be signed, with these headers.
pub struct Unsigned<'a> {
    pub method: &'a str,
    pub url: &'a str,
    pub headers: &'a [(&'static str, &'a str)],
    pub body: &'a [u8],
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

/// What went wrong with a request.
#[derive(Debug)]
pub enum Failed {
    NoAnswer(NoAnswer),
    Refused(Refused),
    /// The answer was cut off, or too long.
    Broken(String),
}

impl Signer {
    pub fn over(connector: SharedHttpConnector, aws: &SdkConfig) -> Self {
        Self {
            connector,
            credentials: aws.credentials_provider(),
            time: aws.time_source().unwrap_or_default(),
            region: aws.region().map_or_else(String::new, ToString::to_string),
        }
    }

    pub(crate) async fn sign(
        &self,
        service: &str,
        unsigned: &Unsigned<'_>,
    ) -> Result<http::Request<SdkBody>, String> {
        let in_words = |error: &dyn std::error::Error| {
            aws_sdk_sqs::error::DisplayErrorContext(error).to_string()
        };
        let Unsigned { method, url, headers, body } = *unsigned;
        let Some(credentials) = &self.credentials else {
            return Err("there are no credentials".to_owned());
        };
        let identity = credentials.provide_credentials().await.map_err(|error| in_words(&error))?;
        let request = http::Request::builder().method(method).uri(url);
        let request = headers.iter().fold(request, |it, (name, value)| it.header(*name, *value));
        let mut request = request.body(SdkBody::from(body)).map_err(|error| in_words(&error))?;
        let identity = identity.into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(service)
            .time(self.time.now())
            .settings(settings(service))
            .build()
            .map_err(|error| in_words(&error))?
            .into();
        let headers = headers.iter().copied();
        let signable = SignableRequest::new(method, url, headers, SignableBody::Bytes(body))
            .map_err(|error| in_words(&error))?;
        let signed = sign(signable, &parameters).map_err(|error| in_words(&error))?;
        signed.into_parts().0.apply_to_request_http1x(&mut request);
        Ok(request)
    }

    pub(crate) async fn send(
        &self,
        service: &str,
        unsigned: &Unsigned<'_>,
    ) -> Result<HttpResponse, NoAnswer> {
        let request = self.sign(service, unsigned).await;
        let request = request.and_then(|request| {
            request
                .try_into()
                .map_err(|error: aws_smithy_runtime_api::http::HttpError| error.to_string())
        });
        let answer = self.connector.call(request.map_err(NoAnswer::Unsent)?).await;
        answer.map_err(|error| NoAnswer::Unanswered(error.to_string()))
    }

    /// Sends a request to a service other than S3. Returns the status, the error type in the header, and the text.
    pub async fn ask(
        &self,
        service: &str,
        unsigned: &Unsigned<'_>,
    ) -> Result<(u16, Option<String>, String), Failed> {
        let answer = self.send(service, unsigned).await.map_err(Failed::NoAnswer)?;
        let status = answer.status().as_u16();
        let error_type = answer.headers().get("x-amzn-errortype").map(str::to_owned);
        Ok((status, error_type, whole(answer).await?))
    }
}

/// S3 takes a key as it is, and wants to know the hash of the body.
fn settings(service: &str) -> SigningSettings {
    let mut settings = SigningSettings::default();
    if service == S3 {
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    }
    settings
}

/// The endpoint of a service in `AWS_ENDPOINT_URL_…` or `AWS_ENDPOINT_URL`, or in the profile.
pub fn endpoint(aws: &SdkConfig, service_id: &str) -> Option<String> {
    let key = ServiceConfigKey::builder()
        .service_id(service_id)
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

/// The text of an answer.
pub(crate) async fn whole(answer: HttpResponse) -> Result<String, Failed> {
    let announced = announced(&answer);
    let body = ByteStream::new(answer.into_body());
    let read = bytes(body, announced.unwrap_or(0), ANSWER_MAX).await.map_err(Failed::Broken)?;
    let read = read.ok_or_else(|| Failed::Broken("the answer is too long".to_owned()))?;
    String::from_utf8(read).map_err(|_| Failed::Broken("the answer is not UTF-8".to_owned()))
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

#[cfg(test)]
mod tests {
    use aws_config::{BehaviorVersion, Region};
    use aws_credential_types::Credentials;
    use aws_smithy_async::time::StaticTimeSource;

    use super::*;

    /// AWS's own example of a signature: `get-vanilla-query-order-key-case` of its test suite.
    #[tokio::test]
    async fn a_request_to_another_service_is_signed_as_awss_example_is() {
        let key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIDEXAMPLE", key, None, None, "test");
        let time = StaticTimeSource::from_secs(1_440_938_160);
        let aws = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .time_source(time)
            .region(Region::new("us-east-1"))
            .build();
        let signer = Signer::over(crate::clients::CONNECTOR.clone(), &aws);
        let url = "https://example.amazonaws.com/?Param2=value2&Param1=value1";
        let unsigned = Unsigned { method: "GET", url, headers: &[], body: &[] };
        let request = signer.sign("service", &unsigned).await.unwrap();
        let expected = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500";
        assert_eq!(request.headers().get("authorization").unwrap(), expected);
    }
}
