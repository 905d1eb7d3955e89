//! Receipt handles, each of which identifies one receive of a message.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The content of a receipt handle. Callers see opaque text, which differs with every receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receipt {
    /// The identity of the queue. Other queues refuse the handle.
    pub(super) queue: u64,
    pub(super) message: u64,
    /// The number of this receive of the message, counted from 1.
    pub(super) receive: u32,
}

impl Receipt {
    pub(super) fn handle(self) -> String {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.queue.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.message.to_be_bytes());
        bytes[16..].copy_from_slice(&self.receive.to_be_bytes());
        STANDARD.encode(bytes)
    }

    /// Decodes a handle. `None` if it is malformed.
    pub(super) fn read(handle: &str) -> Option<Self> {
        let bytes: [u8; 20] = STANDARD.decode(handle).ok()?.try_into().ok()?;
        let (queue, rest) = bytes.split_first_chunk::<8>()?;
        let (message, rest) = rest.split_first_chunk::<8>()?;
        let receive = rest.first_chunk::<4>()?;
        Some(Self {
            queue: u64::from_be_bytes(*queue),
            message: u64::from_be_bytes(*message),
            receive: u32::from_be_bytes(*receive),
        })
    }
}
