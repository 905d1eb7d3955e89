//! However large what others have written, little of it is stored.

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::known::Known;

/// A write of DynamoDB costs a unit for each kilobyte.
const CIRCUIT_BYTES_MAX: usize = 1_024;

#[derive(Default)]
pub struct StoresLittle;

impl Promise for StoresLittle {
    fn on(&mut self, happens: Happens<'_>, _: &Known) -> Kept {
        let Happens::WritesCircuit(run, exchange) = happens else { return Ok(()) };
        let bytes = exchange.next.len();
        ensure(bytes <= CIRCUIT_BYTES_MAX, Check::StoresLittle, || {
            format!("run {run} writes a circuit of {bytes} bytes")
        })
    }
}
