//! S3's REST API, with buckets in the path: `/BUCKET/KEY`.
//!
//! A request belongs to S3 if it is signed for it, because a path may look like that of any service. What an operation
//! means depends on the method, the path and the query. Each is one step on the model.

mod chunked;
mod list;
mod xml;

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use comeback_core::Timestamp;
use list::List;
use percent_encoding::percent_decode_str;

use super::{BodyError, read_body, text};
use crate::{
    model::{
        ACCOUNT, Cloud,
        s3::{Object, Part, Put, RequestIds, S3Error},
    },
    shared::Shared,
};

/// The largest object, in bytes. S3's own limit for one request is 5 GB.
const OBJECT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The largest request: the largest object, and what its chunks add.
const BODY_BYTES_MAX: usize = OBJECT_BYTES_MAX + 1024 * 1024;

pub(crate) const SERVICE: &str = "s3";

pub(crate) async fn handle(shared: &Shared, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = read_body(body, BODY_BYTES_MAX).await.map_err(|error| match error {
        BodyError::TooLong => S3Error::EntityTooLarge { max: OBJECT_BYTES_MAX },
        BodyError::Broken(reason) => S3Error::IncompleteBody(reason),
    });
    // Only what is put may be something that other requests wait for.
    let step = |cloud: &mut Cloud, now| {
        let ids = cloud.s3.request_ids();
        let answer = body.and_then(|body| answer(cloud, now, &head, body, &ids));
        (answer, ids)
    };
    let (answer, ids) =
        if head.method == Method::PUT { shared.step(step) } else { shared.look(step) };
    let headers = [("x-amz-request-id", ids.request.clone()), ("x-amz-id-2", ids.host.clone())];
    let mut response = answer.unwrap_or_else(|error| xml::error(&error, &ids));
    if head.method == Method::HEAD && !response.status().is_success() {
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    (headers, response).into_response()
}

fn answer(
    cloud: &mut Cloud,
    now: Timestamp,
    head: &Parts,
    body: Vec<u8>,
    ids: &RequestIds,
) -> Result<Response, S3Error> {
    let (bucket, key) = place(&head.uri)?;
    let operation = Operation::of(&head.method, &head.uri, &bucket, &key)?;
    // All buckets here belong to this account.
    if text(&head.headers, "x-amz-expected-bucket-owner").is_some_and(|owner| owner != ACCOUNT) {
        return Err(S3Error::AccessDenied);
    }
    let s3 = &mut cloud.s3;
    match operation {
        Operation::CreateBucket => {
            s3.create_bucket(&bucket)?;
            Ok([(header::LOCATION, format!("/{bucket}"))].into_response())
        }
        Operation::DeleteBucket => {
            s3.delete_bucket(&bucket)?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Operation::HeadBucket => {
            s3.check_bucket(&bucket)?;
            Ok(StatusCode::OK.into_response())
        }
        Operation::ListObjects => {
            Ok(xml::respond(StatusCode::OK, &List::of(&head.uri).answer(s3, &bucket)?))
        }
        Operation::GetNotifications => Ok(xml::respond(StatusCode::OK, s3.notifications(&bucket)?)),
        Operation::PutNotifications => {
            let wanted = quick_xml::de::from_reader(body.as_slice())
                .map_err(|error| S3Error::MalformedXml(error.to_string()))?;
            cloud.set_notifications(now, &bucket, wanted, ids)?;
            Ok(StatusCode::OK.into_response())
        }
        Operation::GetPart(part) => {
            let kind = part.element().map_or("application/json", |_| "application/xml");
            Ok(([(header::CONTENT_TYPE, kind)], s3.configuration(&bucket, part)?.to_string())
                .into_response())
        }
        Operation::PutPart(part) => {
            s3.configure(&bucket, part, Some(&configuration(part, body)?))?;
            let is_policy = part == Part::Policy;
            let status = if is_policy { StatusCode::NO_CONTENT } else { StatusCode::OK };
            Ok(status.into_response())
        }
        Operation::DeletePart(part) => {
            s3.configure(&bucket, part, None)?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        Operation::PutObject => {
            let put = Put {
                bucket: &bucket,
                key: &key,
                bytes: content(&head.headers, body)?.into(),
                content_type: text(&head.headers, "content-type"),
                principal: ACCOUNT,
                trace_header: text(&head.headers, "x-amzn-trace-id"),
            };
            let object = cloud.put_object(now, &put, ids)?;
            Ok([(header::ETAG, quoted(&object.etag))].into_response())
        }
        Operation::GetObject => Ok(whole(s3.object(&bucket, &key)?)),
        Operation::DeleteObject => {
            s3.delete(&bucket, &key)?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    CreateBucket,
    DeleteBucket,
    HeadBucket,
    ListObjects,
    GetNotifications,
    PutNotifications,
    GetPart(Part),
    PutPart(Part),
    DeletePart(Part),
    PutObject,
    /// Also HeadObject, whose response is the same without a body.
    GetObject,
    DeleteObject,
}

/// Parameters that SDKs add, and that say nothing new.
const REDUNDANT: [&str; 1] = ["x-id"];

impl Operation {
    fn of(method: &Method, uri: &Uri, bucket: &str, key: &str) -> Result<Self, S3Error> {
        let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let mut names: Vec<_> = query.map(|(name, _)| name).collect();
        names.retain(|name| !REDUNDANT.contains(&&**name));
        let part = match names.as_slice() {
            [name] => Part::ALL.into_iter().find(|part| part.parameter() == name),
            _ => None,
        };
        let known = match (bucket, key, method.as_str(), names.as_slice()) {
            ("", ..) => None,
            (_, "", "PUT", []) => Some(Self::CreateBucket),
            (_, "", "DELETE", []) => Some(Self::DeleteBucket),
            (_, "", "HEAD", []) => Some(Self::HeadBucket),
            (_, "", "GET", [name]) if name == "notification" => Some(Self::GetNotifications),
            (_, "", "PUT", [name]) if name == "notification" => Some(Self::PutNotifications),
            (_, "", "GET", _) if let Some(part) = part => Some(Self::GetPart(part)),
            (_, "", "PUT", _) if let Some(part) = part => Some(Self::PutPart(part)),
            (_, "", "DELETE", _) if let Some(part) = part => Some(Self::DeletePart(part)),
            (_, "", "GET", names) => list::is_list(names).then_some(Self::ListObjects),
            (_, _, "PUT", []) => Some(Self::PutObject),
            (_, _, "GET" | "HEAD", []) => Some(Self::GetObject),
            (_, _, "DELETE", []) => Some(Self::DeleteObject),
            _ => None,
        };
        known.ok_or_else(|| {
            let parameters =
                if names.is_empty() { "no parameters".into() } else { names.join(", ") };
            S3Error::NotImplemented(format!(
                "This local cloud does not have the operation of {method} {} with {parameters}.",
                uri.path()
            ))
        })
    }
}

/// The bucket and the key in a path, decoded. A plus sign is one.
fn place(uri: &Uri) -> Result<(String, String), S3Error> {
    let path = uri.path().strip_prefix('/').unwrap_or_default();
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let decode = |text| percent_decode_str(text).decode_utf8().map_err(|_| S3Error::InvalidUri);
    Ok((decode(bucket)?.into_owned(), decode(key)?.into_owned()))
}

/// A part of a bucket's configuration in a request.
fn configuration(part: Part, body: Vec<u8>) -> Result<String, S3Error> {
    let malformed = || {
        let message = "The XML you provided was not well-formed or did not validate against our published schema";
        S3Error::MalformedXml(message.to_owned())
    };
    let text = String::from_utf8(body).map_err(|_| malformed())?;
    let is_good = match part.element() {
        Some(element) => xml::root(&text).as_deref() == Some(element),
        None => text.starts_with('{') && serde_json::from_str::<serde_json::Value>(&text).is_ok(),
    };
    match part.element() {
        _ if is_good => Ok(text),
        Some(_) => Err(malformed()),
        None => Err(S3Error::MalformedPolicy),
    }
}

/// The bytes of the object in a request.
fn content(headers: &HeaderMap, body: Vec<u8>) -> Result<Vec<u8>, S3Error> {
    if headers.contains_key("x-amz-copy-source") {
        return Err(S3Error::NotImplemented("This local cloud does not copy objects.".to_owned()));
    }
    let bytes = if chunked::is_chunked(headers) {
        let broken = || S3Error::IncompleteBody("The chunks can't be read.".to_owned());
        chunked::decode(&body).ok_or_else(broken)?
    } else {
        body
    };
    if bytes.len() > OBJECT_BYTES_MAX {
        return Err(S3Error::EntityTooLarge { max: OBJECT_BYTES_MAX });
    }
    Ok(bytes)
}

fn quoted(etag: &str) -> String {
    format!("\"{etag}\"")
}

fn whole(object: &Object) -> Response {
    let headers = [
        (header::CONTENT_TYPE, object.content_type.to_string()),
        (header::ETAG, quoted(&object.etag)),
        (header::LAST_MODIFIED, object.last_modified.format("%a, %d %b %Y %T GMT").to_string()),
    ];
    (headers, Bytes::from_owner(Arc::clone(&object.bytes))).into_response()
}
