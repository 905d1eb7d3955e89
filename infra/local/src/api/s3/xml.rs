//! XML in S3's responses, and its errors.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use quick_xml::{Reader, events::Event};
use serde::Serialize;

use crate::model::s3::{RequestIds, S3Error};

pub(super) fn respond(status: StatusCode, body: &impl Serialize) -> Response {
    let Ok(body) = quick_xml::se::to_string(body) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{body}");
    (status, [(header::CONTENT_TYPE, "application/xml")], body).into_response()
}

/// The name of the root element, if the XML is well-formed.
pub(super) fn root(xml: &str) -> Option<String> {
    let (mut reader, mut root, mut depth) = (Reader::from_str(xml), None, 0);
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) => {
                root.get_or_insert_with(|| element.local_name().as_ref().to_owned());
                depth += 1;
            }
            Event::Empty(element) => {
                root.get_or_insert_with(|| element.local_name().as_ref().to_owned());
            }
            Event::End(_) => depth -= 1,
            Event::Eof => return root.filter(|_| depth == 0),
            Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_) => {}
        }
    }
}

#[derive(Serialize)]
#[serde(rename = "Error", rename_all = "PascalCase")]
struct ErrorBody<'a> {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    argument_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    argument_value: Option<&'a str>,
    request_id: &'a str,
    host_id: &'a str,
}

pub(super) fn error(error: &S3Error, ids: &RequestIds) -> Response {
    let mut body = ErrorBody {
        code: error.code(),
        message: error.to_string(),
        bucket_name: None,
        key: None,
        argument_name: None,
        argument_value: None,
        request_id: &ids.request,
        host_id: &ids.host,
    };
    if let S3Error::NoSuchBucket(bucket) | S3Error::BucketNotEmpty(bucket) = error {
        body.bucket_name = Some(bucket);
    } else if let S3Error::NoSuchKey(key) = error {
        body.key = Some(key);
    } else if let S3Error::InvalidArgument { name, value, .. } = error {
        body.argument_name = Some(*name);
        body.argument_value = Some(value.as_str());
    }
    let status = StatusCode::from_u16(error.status());
    respond(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &body)
}
