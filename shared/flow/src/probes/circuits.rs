//! Reads and replaces the circuit of a target.

use comeback_core::{Timestamp, backoff::Draw, circuit::Circuit};

use crate::{
    log,
    ports::{Ledger, NotExchanged, Stored},
    run::Run,
};

/// Replaces the circuit that was found. Returns the new version and circuit.
pub(super) async fn exchange<L: Ledger, C>(
    target: &str,
    stored: &Stored,
    found: &Circuit,
    mut next: Circuit,
    run: &Run<'_, L, C>,
) -> Result<(u64, Circuit), NotExchanged> {
    let text = next.text(run.context.request_id);
    let version = stored.version.saturating_add(1);
    let Some(ledger) = run.ledger else { return Ok((stored.version, next)) };
    match ledger.exchange(target, stored.version, &text).await {
        // If the answer was lost and the SDK has repeated the write, it finds its own first write.
        Err(NotExchanged::Changed(Stored { version: there, text: Some(other) }))
            if there == version && other == text => {}
        Err(NotExchanged::Fault(fault)) => {
            log::circuit_not_written(target, &fault);
            return Err(NotExchanged::Fault(fault));
        }
        Err(changed @ NotExchanged::Changed(_)) => return Err(changed),
        Ok(()) => {}
    }
    log::turned(target, found, &next);
    Ok((version, next))
}

/// The stored circuit, or a closed one if it can't be read.
pub(super) fn circuit_of(stored: &Stored, target: &str, now: Timestamp) -> Circuit {
    let Some(text) = &stored.text else { return Circuit::new(now) };
    Circuit::read(text).unwrap_or_else(|| {
        log::circuit_unreadable(target);
        Circuit::new(now)
    })
}

/// A draw that is another one for each version of the circuit.
pub(super) fn draw(target: &str, version: u64) -> Draw {
    Draw::seeded(target, u32::try_from(version % u64::from(u32::MAX)).unwrap_or_default())
}
