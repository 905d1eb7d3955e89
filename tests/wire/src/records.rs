//! The buckets with failure records, as a port asks for them.

use comeback_core::{
    arn::Home,
    fault::{RecordFault, classify_read},
    notice::Location,
};
use comeback_flow::ports::{RECORD_MAX, Records};

use crate::{port::Port, reply::Found, request::Request};

impl Records for Port {
    async fn read(&self, location: &Location, _home: &Home) -> Result<Vec<u8>, RecordFault> {
        match self.read(Request::Read(location.clone())).await {
            Ok(Found::Record(bytes)) if bytes.len() > RECORD_MAX => Err(RecordFault::TooLarge),
            Ok(Found::Record(bytes)) => Ok(bytes.to_vec()),
            Ok(_) => Err(RecordFault::Gone),
            Err(refusal) => Err(classify_read(refusal.code, refusal.status, refusal.message())),
        }
    }
}
