//! After a fault, an invocation waits for as long as the fault requires, and no longer.
//!
//! How long that is depends on the fault, and on how long its handler has known of it and it has kept the event.

use std::collections::BTreeMap;

use comeback_core::{Timestamp, fault::FaultKind};

use super::{
    Judge,
    cases::Case,
    deliveries::{Delivery, Met, receive_count},
    records::Fetch,
};
use crate::{notes::Check, rules::Millis};

/// From this receive on, whatever puts a message back keeps it longer, within this range of milliseconds: SQS
/// dead-letters a message after a thousand receives.
const MANY_RECEIVES: u32 = 500;
const MANY_RECEIVES_WAIT: (Millis, Millis) = (1_800_000, 3_600_000);

/// How long a message may wait, in milliseconds, if a fault keeps its handler from knowing which attempt has failed.
const UNKNOWN_WAIT: (Millis, Millis) = (0, 900_000);

/// The ledger, beside the targets that a process knows faults of.
pub const LEDGER: &str = "the ledger";

/// When a handler may assume that a fault is over that it hasn't met for this long, or for twice as long as it has met
/// it, but not longer than that.
const FORGETS: (Millis, Millis) = (60_000, 1_800_000);

/// What each process knows of faults: when it met the first and the last one of each target, and of the ledger, in a
/// row.
#[derive(Default)]
pub struct Faults(Vec<BTreeMap<String, (Timestamp, Timestamp)>>);

impl Faults {
    pub fn starts(&mut self) {
        self.0.push(BTreeMap::new());
    }

    /// A process meets a fault. Returns for how long it has known of it, in milliseconds.
    fn meets(&mut self, process: usize, whose: &str, now: Timestamp) -> Millis {
        let Some(faults) = self.0.get_mut(process) else { return 0 };
        let (first, last) = faults.entry(whose.to_owned()).or_insert((now, now));
        let (lasted, ago) = ((*last - *first).num_milliseconds(), (now - *last).num_milliseconds());
        if ago > (2 * lasted).clamp(FORGETS.0, FORGETS.1) {
            *first = now;
        }
        *last = now;
        (now - *first).num_milliseconds()
    }
}

impl Judge {
    /// A handler meets a fault now, of the ledger or of a target. Returns for how long it has known of it. What is
    /// refused for good is no fault that could pass.
    pub fn meets(&mut self, run: u64, whose: &str, fault: Option<FaultKind>) -> Millis {
        let lasts = matches!(fault, Some(FaultKind::Transient { .. } | FaultKind::Configuration));
        let process = self.runs.get(&run).and_then(|batch| batch.first()).map(|it| it.process);
        let process = process.filter(|_| lasts);
        process.map_or(0, |process| self.faults.meets(process, whose, self.now))
    }

    /// The check and the range in milliseconds from `at` of a wait that has another cause than the due time.
    pub fn cause(&self, message: &Delivery, at: Millis) -> Option<(Check, (Millis, Millis))> {
        if let Fetch::Failed(kind) = message.fetch {
            return Some((Check::FaultWaits, self.wait_unread(message, at, kind)));
        }
        if let Some(fault) = message.fault.map(|fault| (fault, message.known_for)) {
            let passed = (self.now - message.fault_at).num_milliseconds();
            let (low, high) = match self.wait_for_note(message, at) {
                // As long as its attempt is unknown, so are its due time and its last chance.
                Some(_) => (passed, passed.saturating_add(spared(message, UNKNOWN_WAIT).1)),
                None => self.wait_after_fault(message, at - passed, fault),
            };
            return Some((Check::FaultWaits, (low - passed, high.saturating_sub(passed))));
        }
        let (least, most) = self.wait_for_note(message, at)?;
        // The handler may have done other things first.
        let (low, high) = spared(message, (least, most));
        let timeout = self.plan.handler_of(self.cases[message.case].of.target).timeout;
        let low = if low > least { low - i64::from(timeout) * 1000 } else { low };
        Some((Check::WaitsForNote, (low, high)))
    }

    /// The range of a wait that begins at `at` and whose cause asks for `range`: longer if the message has to spare its
    /// receives, and never beyond its last chance.
    pub fn put_back(
        &self,
        message: &Delivery,
        at: Millis,
        range: (Millis, Millis),
    ) -> (Millis, Millis) {
        let (low, high) = spared(message, range);
        let rest = match self.cases[message.case].verdict() {
            Ok(next) if at < next.last_chance => next.last_chance - at,
            Ok(_) | Err(_) => Millis::MAX,
        };
        (low.min(rest), high.min(rest))
    }

    /// The shortest and the longest wait after a fault at `at`, which the handler has known for a while.
    pub fn wait_after_fault(
        &self,
        message: &Delivery,
        at: Millis,
        (fault, known_for): Met,
    ) -> (Millis, Millis) {
        let case = &self.cases[message.case];
        let is_unclaimed = case.claimed && message.claim.is_none();
        // An unclaimed message waits however old it is, because nobody knows whether its failure was acted on.
        let rest = match case.verdict() {
            Ok(next) if !is_unclaimed => next.expiry - at,
            Ok(_) | Err(_) => Millis::MAX,
        };
        let (least, most) = kept_for(case, at, known_for);
        // A refused event is given up, so no wait is right.
        let Some(range) = lasts(fault, least, most) else { return (Millis::MAX, 0) };
        let (low, high) = self.put_back(message, at, range);
        (low.min(rest), high.min(rest))
    }
}

/// How long a message waits after a fault that has kept it for so long. Nothing waits after a refusal.
pub fn lasts(fault: FaultKind, least: Millis, most: Millis) -> Option<(Millis, Millis)> {
    Some(match fault {
        FaultKind::Transient { retry_after: None } => (1000, most.clamp(1_000, 300_000)),
        FaultKind::Transient { retry_after: Some(asked) } => {
            let asked = (asked.as_millis() as Millis).max(1000);
            (asked, asked)
        }
        FaultKind::Configuration => (least.clamp(10_000, 900_000) / 2, most.clamp(10_000, 900_000)),
        FaultKind::Refused(_) => return None,
    })
}

/// The range of a wait whose cause asks for `(low, high)`: longer if the message has to spare its receives.
pub fn spared(message: &Delivery, (low, high): (Millis, Millis)) -> (Millis, Millis) {
    match receive_count(message.record()) >= MANY_RECEIVES {
        true => (low.max(MANY_RECEIVES_WAIT.0), high.max(MANY_RECEIVES_WAIT.1)),
        false => (low, high),
    }
}

/// For how long at least, and at most, a fault has kept an event at `at`: since it was due, but no longer than the
/// handler has known of the fault. An event that isn't due, or has no due time, was kept as long as that.
fn kept_for(case: &Case, at: Millis, known_for: Millis) -> (Millis, Millis) {
    let Ok(next) = case.verdict() else { return (known_for, known_for) };
    let (low, high) = case.due().map_or(next.due, |due| (due, due));
    let kept = |due: Millis| (at - due).min(known_for);
    if at < low {
        (known_for, known_for)
    } else {
        (kept(high.min(at)), if at < high { known_for } else { kept(low) })
    }
}
