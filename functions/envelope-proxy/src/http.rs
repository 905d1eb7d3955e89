//! Finds where HTTP/1 messages begin and end in a stream of bytes.
//!
//! The proxy passes bytes on instead of being an HTTP server, so that it preserves everything that it doesn't know. It
//! only has to find the answers to requests for events. If it does not understand a message, it stops searching, and
//! passes on the rest of the connection.

use std::mem::{self, MaybeUninit};

use httparse::{Header, Request, Response, Status};

/// Bytes that are not HTTP/1, or a part of it that is not supported here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotUnderstood;

/// The longest head that is read. Clients of Lambda send a few hundred bytes; servers refuse heads of 64 KiB or more.
const HEAD_MAX: usize = 1024 * 1024;

/// The bytes of an incomplete head.
#[derive(Debug, Default)]
pub struct PartialHead(Vec<u8>);

impl PartialHead {
    /// Takes the bytes that belong to the head. Returns their number, and the whole head if it ends with them. If
    /// the head is too long, takes nothing.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Vec<u8>>), NotUnderstood> {
        // The empty line may have begun in the earlier bytes.
        let before = self.0.len();
        let from = before.saturating_sub(3);
        self.0.extend_from_slice(bytes);
        if let Some(end) = end_of_head(&self.0[from..]) {
            let end = from + end;
            self.0.truncate(end);
            return Ok((end - before, Some(mem::take(&mut self.0))));
        }
        if self.0.len() > HEAD_MAX {
            self.0.truncate(before);
            return Err(NotUnderstood);
        }
        Ok((bytes.len(), None))
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The end of a head, after an empty line. Lines may end without a carriage return.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut lines = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n').map(|(at, _)| at);
    lines.find_map(|at| match bytes.get(at + 1..)? {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    })
}

/// The maximum number of headers, more than any client of Lambda sends.
const HEADERS_MAX: usize = 1024;

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

/// The body of a message, and the position of the next byte in it.
#[derive(Debug)]
pub enum Body {
    Length(u64),
    /// Chunks, each with its length before it, and trailers.
    Chunked(Chunk),
    /// Everything until the connection is closed.
    UntilClose,
}

/// The position of the next byte in a chunked body.
#[derive(Debug)]
pub enum Chunk {
    Size(Vec<u8>),
    /// In a chunk, with this many bytes left.
    Data(u64),
    DataEnd,
    /// In the lines after the last chunk, with this many bytes of the current line so far.
    Trailers(usize),
    Over,
}

/// The longest line with a chunk's size: sixteen digits and some extensions.
const SIZE_LINE_MAX: usize = 4096;

impl Default for Body {
    fn default() -> Self {
        Self::NONE
    }
}

impl Body {
    pub const NONE: Self = Self::Length(0);

    pub fn chunked() -> Self {
        Self::Chunked(Chunk::Size(Vec::new()))
    }

    pub fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunk::Over))
    }

    /// Whether it is no longer than this, if its length is known.
    pub fn is_at_most(&self, bytes: usize) -> bool {
        !matches!(self, Self::Length(length) if *length > bytes as u64)
    }

    /// Takes the bytes that belong to the body, returns their number, and passes their content to `content`.
    pub fn take(
        &mut self,
        bytes: &[u8],
        mut content: impl FnMut(&[u8]),
    ) -> Result<usize, NotUnderstood> {
        match self {
            Self::UntilClose => {
                content(bytes);
                Ok(bytes.len())
            }
            Self::Length(left) => Ok(take_up_to(left, bytes, &mut content)),
            Self::Chunked(chunk) => {
                let mut taken = 0;
                while taken < bytes.len() && !matches!(chunk, Chunk::Over) {
                    taken += chunk.take(&bytes[taken..], &mut content)?;
                }
                Ok(taken)
            }
        }
    }
}

fn take_up_to(left: &mut u64, bytes: &[u8], content: &mut impl FnMut(&[u8])) -> usize {
    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    content(&bytes[..taken]);
    *left -= taken as u64;
    taken
}

/// The bytes up to the end of the current line, and whether the line ends there.
fn line_of(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&bytes[..=end], true),
        None => (bytes, false),
    }
}

impl Chunk {
    /// Takes the bytes up to the next boundary, at least one.
    fn take(
        &mut self,
        bytes: &[u8],
        content: &mut impl FnMut(&[u8]),
    ) -> Result<usize, NotUnderstood> {
        let taken = match self {
            Self::Data(left) => {
                let taken = take_up_to(left, bytes, content);
                if *left == 0 {
                    *self = Self::DataEnd;
                }
                taken
            }
            Self::Size(begun) => {
                let (line, is_whole) = line_of(bytes);
                begun.extend_from_slice(line);
                if is_whole {
                    *self = Self::of_size(begun)?;
                } else if begun.len() > SIZE_LINE_MAX {
                    return Err(NotUnderstood);
                }
                line.len()
            }
            Self::DataEnd => {
                let (line, is_whole) = line_of(bytes);
                if !line.trim_ascii().is_empty() {
                    return Err(NotUnderstood);
                }
                if is_whole {
                    *self = Self::Size(Vec::new());
                }
                line.len()
            }
            Self::Trailers(length) => {
                let (line, is_whole) = line_of(bytes);
                *length += line.trim_ascii_end().len();
                if is_whole {
                    *self = if *length == 0 { Self::Over } else { Self::Trailers(0) };
                }
                line.len()
            }
            Self::Over => 0,
        };
        Ok(taken)
    }

    fn of_size(line: &[u8]) -> Result<Self, NotUnderstood> {
        match httparse::parse_chunk_size(line) {
            Ok(Status::Complete((_, 0))) => Ok(Self::Trailers(0)),
            Ok(Status::Complete((_, size))) => Ok(Self::Data(size)),
            Ok(Status::Partial) | Err(_) => Err(NotUnderstood),
        }
    }
}
