//! The query protocol, which SDKs used for SQS until November 2023: forms in, XML out. It is not supported here. The
//! error says which SDK versions work. It is XML, because an old SDK shows no other error.

use axum::{
    extract::Request,
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};

use crate::model::ACCOUNT;

/// The versions are those of AWS's own table:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-json-faqs.html>.
const REFUSAL: &str = "<ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error>\
<Type>Sender</Type><Code>AWS.SimpleQueueService.UnsupportedOperation</Code><Message>This local cloud \
speaks SQS's JSON protocol, not its query protocol. Use an SDK or AWS CLI from after November 2023: boto3 \
1.28.82, botocore 1.31.82, the AWS SDK for Java 1.12.585 or 2.21.19, for Go 1.47.7, for JavaScript \
3.447.0, for .NET 3.7.681, for PHP 3.285.2, aws-sdk-sqs 1.67.0 for Ruby, or newer.</Message></Error>\
</ErrorResponse>";

/// Whether a request uses SQS's query protocol: it is a form, or has an action in the URL.
pub(crate) fn is_query_request(request: &Request) -> bool {
    let path = request.uri().path().trim_start_matches('/');
    let is_form = request.method() == Method::POST
        && request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    let has_action = request.uri().query().is_some_and(|query| query.contains("Action="));
    (path.is_empty() || path.starts_with(ACCOUNT)) && (is_form || has_action)
}

pub(crate) fn refuse() -> Response {
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "text/xml")], REFUSAL).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_forms_and_actions_to_sqs_use_the_query_protocol() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        for (method, uri, kind, expected) in [
            ("POST", "/", form, true),
            ("POST", "/000000000000/q", form, true),
            ("GET", "/?Action=ListQueues&Version=2012-11-05", "", true),
            ("GET", "/000000000000/q?Action=ReceiveMessage", "", true),
            ("POST", "/", "application/x-amz-json-1.0", false),
            ("POST", "/2015-03-31/functions/f/invocations", form, false),
            ("GET", "/2015-03-31/functions/?Action=", "", false),
            ("GET", "/", "", false),
        ] {
            let request = Request::builder().method(method).uri(uri);
            let request = request.header(header::CONTENT_TYPE, kind).body(Body::empty()).unwrap();
            assert_eq!(is_query_request(&request), expected, "{method} {uri} {kind}");
        }
    }
}
