//! The encoding `aws-chunked`, in which SDKs send a body whose checksum or signature they learn only while they send
//! it: chunks, each after its length in hexadecimal, and trailers at the end. Neither signatures nor checksums are
//! verified.

use axum::http::HeaderMap;

use crate::api::text;

pub(super) fn is_chunked(headers: &HeaderMap) -> bool {
    let hash = text(headers, "x-amz-content-sha256").unwrap_or_default();
    let encodings = text(headers, "content-encoding").unwrap_or_default();
    hash.starts_with("STREAMING-") || encodings.split(',').any(|it| it.trim() == "aws-chunked")
}

/// The bytes in the chunks, or `None` if they don't have this form or the last one is missing.
pub(super) fn decode(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(body.len());
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&body[..end]).ok()?;
        // Its signature may follow.
        let length = line.split(';').next()?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        body = &body[end + 2..];
        if length == 0 {
            return Some(bytes);
        }
        bytes.extend_from_slice(body.get(..length)?);
        body = body.get(length..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_in_chunks_with_or_without_signatures_and_trailers() {
        for (body, expected) in [
            ("3\r\nabc\r\n0\r\n\r\n", Some("abc")),
            (
                "3\r\na\r\n\r\nA\r\n0123456789\r\n0\r\nx-amz-checksum-crc32:x\r\n\r\n",
                Some("a\r\n0123456789"),
            ),
            ("1;chunk-signature=ff\r\na\r\n0;chunk-signature=ff\r\n\r\n", Some("a")),
            ("0\r\n\r\n", Some("")),
            ("3\r\nabc\r\n", None),
            ("3\r\nab", None),
            ("2\r\nabc\r\n0\r\n\r\n", None),
            ("x\r\n", None),
            ("ffffffffffffffffff\r\n", None),
            ("", None),
        ] {
            let decoded = decode(body.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(decoded.as_deref(), expected, "{body:?}");
        }
    }

    #[test]
    fn a_header_announces_chunks() {
        for (name, value, expected) in [
            ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", true),
            ("content-encoding", "gzip, aws-chunked", true),
            ("content-encoding", "gzip", false),
            ("x-amz-content-sha256", "UNSIGNED-PAYLOAD", false),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            assert_eq!(is_chunked(&headers), expected, "{name}: {value}");
        }
    }
}
