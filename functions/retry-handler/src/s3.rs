//! Signed requests to S3.
//!
//! `aws-sdk-s3` would be by far the largest client of the handler, and of the program that people build themselves. So
//! these are [single requests](crate::signed).

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::{http::SharedHttpConnector, orchestrator::HttpResponse};
use aws_smithy_types::byte_stream::ByteStream;
use comeback_core::arn::Home;

use crate::signed::{
    self, Failed, NoAnswer, Refused, Signer, Unsigned, announced, bytes, endpoint, whole,
};

/// The longest error that is read. S3's have less than a kilobyte.
const ERROR_MAX: usize = 64 << 10;

/// The account that owns the bucket.
const OWNER: &str = "x-amz-expected-bucket-owner";

pub struct S3 {
    signer: Signer,
    /// A custom endpoint, which has the bucket in the path.
    endpoint: Option<String>,
    /// The host on AWS, up to the region.
    host: &'static str,
}

impl S3 {
    pub fn over(connector: SharedHttpConnector, aws: &SdkConfig) -> Self {
        let host = match (aws.use_fips().unwrap_or(false), aws.use_dual_stack().unwrap_or(false)) {
            (false, false) => "s3",
            (false, true) => "s3.dualstack",
            (true, false) => "s3-fips",
            (true, true) => "s3-fips.dualstack",
        };
        Self { signer: Signer::over(connector, aws), endpoint: endpoint(aws, "S3"), host }
    }

    /// The URL of a bucket. The certificate of `*.s3.REGION.amazonaws.com` covers no bucket with dots in its name, so
    /// that is in the path.
    pub(crate) fn url(&self, bucket: &str, home: &Home) -> String {
        match &self.endpoint {
            Some(endpoint) => format!("{}/{bucket}", endpoint.trim_end_matches('/')),
            None => {
                let host = format!("{}.{}.{}", self.host, self.signer.region, home.domain());
                match bucket.contains('.') {
                    true => format!("https://{host}/{bucket}"),
                    false => format!("https://{bucket}.{host}"),
                }
            }
        }
    }

    /// Sends a signed request. S3 refuses it if the bucket belongs to another account: a name can be taken by anybody
    /// once its bucket is deleted.
    pub(crate) async fn send(
        &self,
        method: &str,
        url: &str,
        body: &[u8],
        home: &Home,
    ) -> Result<HttpResponse, NoAnswer> {
        let headers = [(OWNER, home.account())];
        self.signer.send(signed::S3, &Unsigned { method, url, headers: &headers, body }).await
    }

    #[cfg(test)]
    pub(crate) async fn request(
        &self,
        url: &str,
        home: &Home,
    ) -> Result<http::Request<aws_smithy_types::body::SdkBody>, String> {
        let headers = [(OWNER, home.account())];
        let unsigned = Unsigned { method: "GET", url, headers: &headers, body: &[] };
        self.signer.sign(signed::S3, &unsigned).await
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
        whole(answer).await
    }
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
