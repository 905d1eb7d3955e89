//! The bodies of requests.

use axum::body::Body;
use futures_util::StreamExt as _;

/// Why a body can't be read.
pub(super) enum Unread {
    /// It has more bytes than the service accepts.
    TooLong,
    /// The connection failed, for this reason.
    Broken(String),
}

/// Reads a whole body of at most `bytes_max` bytes. A longer one is read to its end and discarded, because a
/// client that is still sending doesn't read the refusal.
pub(super) async fn read(body: Body, bytes_max: usize) -> Result<Vec<u8>, Unread> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut too_long = false;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Unread::Broken(error.to_string()))?;
        too_long |= bytes.len() + chunk.len() > bytes_max;
        if too_long {
            bytes = Vec::new();
        } else {
            bytes.extend_from_slice(&chunk);
        }
    }
    if too_long { Err(Unread::TooLong) } else { Ok(bytes) }
}
