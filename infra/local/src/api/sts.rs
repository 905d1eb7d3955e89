//! STS's operation `GetCallerIdentity`, in AWS's query protocol. The caller is a user with the name of the access key.

use axum::{
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{credential, read_body};
use crate::model::ACCOUNT;

pub(crate) const SERVICE: &str = "sts";

/// The largest request, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

pub(crate) async fn handle(request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = read_body(body, BODY_BYTES_MAX).await.unwrap_or_default();
    let mut fields = form_urlencoded::parse(&body);
    if !fields.any(|(name, value)| name == "Action" && value == "GetCallerIdentity") {
        let message = "This local cloud has only GetCallerIdentity of STS.";
        let error = format!(
            "<Type>Sender</Type><Code>UnsupportedOperation</Code><Message>{message}</Message>"
        );
        return xml(StatusCode::BAD_REQUEST, "ErrorResponse", &format!("<Error>{error}</Error>"));
    }
    let user = user(credential(&head.headers).map_or("", |it| it.key));
    let identity = format!(
        "<Arn>arn:aws:iam::{ACCOUNT}:user/{user}</Arn><UserId>{user}</UserId><Account>{ACCOUNT}</Account>"
    );
    let result = format!("<GetCallerIdentityResult>{identity}</GetCallerIdentityResult>");
    xml(StatusCode::OK, "GetCallerIdentityResponse", &result)
}

/// An access key as the name of a user. Keys of AWS are letters and digits.
fn user(key: &str) -> &str {
    let is_name = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name { key } else { "local" }
}

fn xml(status: StatusCode, name: &str, content: &str) -> Response {
    let body =
        format!("<{name} xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">{content}</{name}>");
    (status, [(header::CONTENT_TYPE, "text/xml")], body).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};

    use super::*;

    #[tokio::test]
    async fn the_caller_is_a_user_with_the_name_of_the_key() {
        for (key, action, part) in [
            (
                "alice",
                "GetCallerIdentity",
                "<Arn>arn:aws:iam::000000000000:user/alice</Arn><UserId>alice<",
            ),
            ("<b>", "GetCallerIdentity", ":user/local</Arn>"),
            ("alice", "AssumeRole", "<Code>UnsupportedOperation</Code>"),
        ] {
            let scope = format!(
                "AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/sts/aws4_request, Signature=0"
            );
            let request = Request::builder().header(header::AUTHORIZATION, scope);
            let request =
                request.body(Body::from(format!("Action={action}&Version=2011-06-15"))).unwrap();
            let answer = to_bytes(handle(request).await.into_body(), usize::MAX).await.unwrap();
            let answer = String::from_utf8(answer.to_vec()).unwrap();
            assert!(answer.contains(part), "{key} {action}: {answer}");
        }
    }
}
