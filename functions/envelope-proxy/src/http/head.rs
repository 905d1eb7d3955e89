//! Reads the head of a message: where its body ends, and what the proxy needs besides.

use std::mem::MaybeUninit;

use httparse::{Header, Request, Response, Status};

use super::{Body, NotUnderstood};

/// The maximum number of headers, more than any client of Lambda sends.
const HEADERS_MAX: usize = 1024;

/// The relevant parts of a request's head.
#[derive(Debug)]
pub struct RequestHead {
    pub is_for_event: bool,
    /// Whether its answer has a head and no body.
    pub is_for_head: bool,
    pub body: Body,
}

impl RequestHead {
    pub fn read(bytes: &[u8]) -> Result<Self, NotUnderstood> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut request = Request::new(&mut []);
        let parsed = request.parse_with_uninit_headers(bytes, &mut headers);
        let (Ok(Status::Complete(_)), Some(method), Some(path)) =
            (parsed, request.method, request.path)
        else {
            return Err(NotUnderstood);
        };
        // The bytes after this request are not HTTP.
        if method == "CONNECT" {
            return Err(NotUnderstood);
        }
        Ok(Self {
            is_for_event: method == "GET" && is_next(path),
            is_for_head: method == "HEAD",
            body: length(request.headers)?.unwrap_or(Body::NONE),
        })
    }
}

/// Whether this is the path for the next event, in any version of the API.
fn is_next(path: &str) -> bool {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let version =
        path.strip_prefix('/').and_then(|path| path.strip_suffix("/runtime/invocation/next"));
    version.is_some_and(|version| !version.contains('/'))
}

/// The relevant parts of an answer's head.
#[derive(Debug)]
pub struct AnswerHead<'a> {
    pub status: u16,
    pub body: Body,
    pub headers: Vec<(&'a str, &'a [u8])>,
}

impl<'a> AnswerHead<'a> {
    /// Reads a whole head, of an answer to a request of this kind.
    pub fn read(bytes: &'a [u8], is_for_head: bool) -> Result<Self, NotUnderstood> {
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut response = Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut headers,
        );
        let (Ok(Status::Complete(_)), Some(status)) = (parsed, response.code) else {
            return Err(NotUnderstood);
        };
        // 101: the connection switches to another protocol.
        if status == 101 {
            return Err(NotUnderstood);
        }
        let has_no_body = is_for_head || matches!(status, 100..=199 | 204 | 304);
        let body = match length(response.headers)? {
            _ if has_no_body => Body::NONE,
            Some(body) => body,
            None => Body::UntilClose,
        };
        let headers = response.headers.iter().map(|header| (header.name, header.value)).collect();
        Ok(Self { status, body, headers })
    }

    pub fn values(&self, name: &str) -> Vec<&'a [u8]> {
        let of_name = |(other, _): &&(&str, _)| other.eq_ignore_ascii_case(name);
        self.headers.iter().filter(of_name).map(|&(_, value)| value).collect()
    }
}

/// The body that the headers announce, if any.
fn length(headers: &[Header<'_>]) -> Result<Option<Body>, NotUnderstood> {
    let values = |name: &'static str| {
        headers.iter().filter(move |it| it.name.eq_ignore_ascii_case(name)).map(|it| it.value)
    };
    if let Some(codings) = values("transfer-encoding").next_back() {
        let last = codings.rsplit(|&byte| byte == b',').next().unwrap_or_default();
        let is_chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        return if is_chunked { Ok(Some(Body::chunked())) } else { Err(NotUnderstood) };
    }
    let mut lengths = values("content-length").map(|value| {
        let digits = str::from_utf8(value).ok().filter(|it| it.bytes().all(|b| b.is_ascii_digit()));
        digits.and_then(|digits| digits.parse().ok()).ok_or(NotUnderstood)
    });
    let Some(first) = lengths.next().transpose()? else { return Ok(None) };
    match lengths.all(|other| other == Ok(first)) {
        true => Ok(Some(Body::Length(first))),
        false => Err(NotUnderstood),
    }
}
