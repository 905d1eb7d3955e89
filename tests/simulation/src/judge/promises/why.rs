//! Why a message waits, and in which range that allows it to.
//!
//! After a fault, that depends on the fault, and on how long its handler has known of it and it has kept the event.

use comeback_core::fault::FaultKind;

use crate::{
    judge::known::{
        Case, Cause, Circuit, DELAY_MAX, Delivery, Fetch, HOP_MIN, Known, LOOKS_MAX, Met, Waits,
        Why, receive_count,
    },
    policy::Millis,
};

type Range = (Millis, Millis);

/// From this receive on, whatever puts a message back keeps it longer, within this range of milliseconds: SQS
/// dead-letters a message after a thousand receives.
const MANY_RECEIVES: u32 = 500;
const MANY_RECEIVES_WAIT: Range = (1_800_000, 3_600_000);

/// How long a message may wait, in milliseconds, if a fault keeps its handler from knowing which attempt has failed.
const UNKNOWN_WAIT: Range = (0, 900_000);

/// How long an event is held back while its target is down, or while that is unknown, and how long at most after many
/// receives.
const HOLD: Range = (90_000, 480_000);
const MANY_RECEIVES_HOLD_MAX: Millis = 3_600_000;

/// How long after the next step of a circuit the last event comes back that waits only for that. SQS counts in whole
/// seconds.
const WATCHES_WITHIN: Millis = 8_000;

/// Why a message waits.
pub fn why(known: &Known, wait: &Waits) -> Why {
    let &Waits { of, at, .. } = wait;
    let Some(message) = known.message(of).filter(|message| !known.is_outdated(message)) else {
        return Why::Unknown;
    };
    let hold = || {
        let (cause, range, is_certain) = hold(known, of.run, message, at)?;
        (is_certain || wait.is_within(range)).then_some((cause, range))
    };
    if let Some((cause, range)) = cause(known, message, at).or_else(hold) {
        return Why::Cause(cause, range);
    }
    if message.held_until.is_some() || message.listing.is_held() {
        return Why::Holder;
    }
    if is_for_step(known, wait) {
        Why::Step
    } else {
        down(known, wait, message).unwrap_or(Why::Due)
    }
}

/// The cause and the range in milliseconds from `at` of a wait that has another cause than the due time.
fn cause(known: &Known, message: &Delivery, at: Millis) -> Option<(Cause, Range)> {
    if let Fetch::Failed(kind) = message.fetch {
        return Some((Cause::Fault, wait_unread(known, message, at, kind)));
    }
    if let Some(fault) = message.fault.map(|fault| (fault, message.known_for)) {
        let passed = (known.now - message.fault_at).num_milliseconds();
        let (low, high) = match known.wait_for_note(message, at) {
            // As long as its attempt is unknown, so are its due time and its last chance.
            Some(_) => (passed, passed.saturating_add(spared(message, UNKNOWN_WAIT).1)),
            None => wait_after_fault(known, message, at - passed, fault),
        };
        return Some((Cause::Fault, (low - passed, high.saturating_sub(passed))));
    }
    let (least, most) = known.wait_for_note(message, at)?;
    // The handler may have done other things first.
    let (low, high) = spared(message, (least, most));
    let timeout = known.plan.handler_of(known.cases[message.case].of.target).timeout;
    let low = if low > least { low - i64::from(timeout) * 1000 } else { low };
    Some((Cause::Note, (low, high)))
}

/// The shortest and the longest wait from `at` of a message whose record can't be read.
fn wait_unread(known: &Known, message: &Delivery, at: Millis, fault: FaultKind) -> Range {
    let passed = (known.now - message.fault_at).num_milliseconds();
    if at - passed > message.kept_until() {
        // It is to be given up.
        return (Millis::MAX, 0);
    }
    let Some(range) = lasts(fault, message.known_for, message.known_for) else {
        return (Millis::MAX, 0);
    };
    let (low, high) = spared(message, range);
    (low - passed, high - passed)
}

/// The cause, the range in milliseconds from `at` and whether it is mandatory, of a wait that the result of the
/// look-up demands. From outside, the due time of a message is known only roughly.
fn hold(known: &Known, run: u64, message: &Delivery, at: Millis) -> Option<(Cause, Range, bool)> {
    let listing = &message.listing;
    let case = &known.cases[message.case];
    let asked_at = listing.asked_at?;
    // An order that it knows from before the look-up is followed.
    let knows_order = listing.is_recalled && listing.read.is_ordered;
    let soon = |fault| soon(known, message, at, asked_at, fault);
    if let Some(soon) = listing.look_up_fault.filter(|_| !knows_order).and_then(soon) {
        return Some(soon);
    }
    let read = listing.read()?;
    let is_ordered = read.is_ordered || read.order.is_some();
    let is_over = case.verdict().map_or(true, |next| asked_at > next.expiry);
    let due = case.verdict().map(|next| case.due_range(next));
    let (may_act, acts) = due.map_or((true, true), |(earliest, latest)| {
        (asked_at >= earliest || is_ordered, listing.judged_at >= latest || is_ordered)
    });
    // An event that is not due may be the probe.
    let may_be_early = !may_act && may_be_early(known, run, case);
    if read.is_paused && !is_ordered && !is_over && (may_act || may_be_early) {
        let passed = (known.now - listing.answered_at?).num_milliseconds();
        let range = (i64::from(HOP_MIN) * 1000, i64::from(DELAY_MAX) * 1000);
        let (low, high) = put_back(known, message, at - passed, range);
        return Some((Cause::Pause, (low - passed, high - passed), acts));
    }
    None
}

/// The same after a failed look-up: an unread order may exist for a message that was received before.
fn soon(
    known: &Known,
    message: &Delivery,
    at: Millis,
    asked_at: Millis,
    fault: Met,
) -> Option<(Cause, Range, bool)> {
    let case = &known.cases[message.case];
    let (earliest, latest) = case.due_range(case.verdict().ok()?);
    if receive_count(message.record()) < 2 || asked_at >= latest {
        return None;
    }
    let passed = (known.now - message.listing.answered_at?).num_milliseconds();
    let (low, high) = wait_after_fault(known, message, at - passed, fault);
    let range = ((low - passed).min(earliest - at), (high - passed).min(latest - at));
    Some((Cause::Fault, range, asked_at < earliest))
}

/// The range of a wait that begins at `at` and whose cause asks for `range`: longer if the message has to spare its
/// receives, and never beyond its last chance.
fn put_back(known: &Known, message: &Delivery, at: Millis, range: Range) -> Range {
    let (low, high) = spared(message, range);
    let rest = match known.cases[message.case].verdict() {
        Ok(next) if at < next.last_chance => next.last_chance - at,
        Ok(_) | Err(_) => Millis::MAX,
    };
    (low.min(rest), high.min(rest))
}

/// The shortest and the longest wait after a fault at `at`, which the handler has known for a while.
fn wait_after_fault(
    known: &Known,
    message: &Delivery,
    at: Millis,
    (fault, known_for): Met,
) -> Range {
    let case = &known.cases[message.case];
    let is_unclaimed = case.claimed && message.claim.is_none();
    // An unclaimed message waits however old it is, because nobody knows whether its failure was acted on.
    let rest = match case.verdict() {
        Ok(next) if !is_unclaimed => next.expiry - at,
        Ok(_) | Err(_) => Millis::MAX,
    };
    let (least, most) = kept_for(case, at, known_for);
    // A refused event is given up, so no wait is right.
    let Some(range) = lasts(fault, least, most) else { return (Millis::MAX, 0) };
    let (low, high) = put_back(known, message, at, range);
    (low.min(rest), high.min(rest))
}

/// Whether a run may have chosen to retry an event of this case before it is due.
fn may_be_early(known: &Known, run: u64, case: &Case) -> bool {
    let may =
        |it: &Circuit| it.took_probe || it.has_permits || it.probe == Some(known.probe_of(case));
    known.circuit_of(run, case).is_some_and(may) && !case.asks_for_time()
}

/// Whether a message waits for the next step of its circuit, or only until it is due or has its last chance. Of the
/// events that are not due, those wait for it that may be the probe or were brought forward.
fn is_for_step(known: &Known, wait: &Waits) -> bool {
    let case = &known.cases[wait.of.case];
    let Ok(next) = case.verdict() else { return false };
    let circuit = known.circuit_of(wait.of.run, case);
    let Some(circuit) = circuit.filter(|circuit| circuit.was_limited) else { return false };
    let low = case.due().unwrap_or(next.due.0);
    let ends_for = |step_at: &Millis| {
        // The calls before this one may have taken until then.
        let is_over = wait.seconds == 0 && *step_at <= wait.at;
        let within = *step_at.min(&next.last_chance)..=step_at + WATCHES_WITHIN;
        is_over || within.contains(&wait.end())
    };
    (wait.at >= low || !case.asks_for_time()) && circuit.steps_at.iter().any(ends_for)
}

/// Whether a message that may be due waits because its target is down. If its wait could not be kept as a delay, the
/// rest of it ends when the wait before would have ended.
fn down(known: &Known, wait: &Waits, message: &Delivery) -> Option<Why> {
    let &Waits { of, at, seconds, .. } = wait;
    let case = &known.cases[of.case];
    let next = case.verdict().ok()?;
    let circuit = known.circuit_of(of.run, case)?;
    let low = case.due().unwrap_or(next.due.0);
    if !known.plan.handler_of(case.of.target).probes || at < low || !circuit.was_limited {
        return None;
    }
    let rest = if at < next.last_chance { next.last_chance - at } else { Millis::MAX };
    // SQS dead-letters a message after a thousand receives, so longer waits are allowed.
    let is_spared = receive_count(message.record()) >= MANY_RECEIVES;
    let most = if is_spared { MANY_RECEIVES_HOLD_MAX } else { HOLD.1 };
    let whole = |wait: Millis| wait.min(rest).saturating_add(999).div_euclid(1000);
    let is_rest = message.wait.is_some_and(|before| {
        message.held_by_circuit && message.copy_refused && before.ends_with(at, seconds)
    });
    // Its hold may have begun when the circuit was read.
    let passed = message.listing.since_look_up(known.now);
    let least = if is_rest { 0 } else { whole((HOLD.0 - passed).max(0)) };
    if !(least..=whole(most)).contains(&i64::from(seconds)) {
        return None;
    }
    let is_ahead = circuit.steps_at.last().is_some_and(|&it| at < it && it < at + HOLD.0);
    let is_unwatched = !circuit.is_watched
        && is_ahead
        && !circuit.is_free
        && !circuit.is_told_down
        && circuit.not_turned < LOOKS_MAX;
    let is_due = case.due_range(next).1 <= at - passed;
    Some(Why::Down { is_unwatched: is_unwatched && is_due && !is_spared && !is_rest })
}

/// How long a message waits after a fault that has kept it for so long. Nothing waits after a refusal.
fn lasts(fault: FaultKind, least: Millis, most: Millis) -> Option<Range> {
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
fn spared(message: &Delivery, (low, high): Range) -> Range {
    match receive_count(message.record()) >= MANY_RECEIVES {
        true => (low.max(MANY_RECEIVES_WAIT.0), high.max(MANY_RECEIVES_WAIT.1)),
        false => (low, high),
    }
}

/// For how long at least, and at most, a fault has kept an event at `at`: since it was due, but no longer than the
/// handler has known of the fault. An event that isn't due, or has no due time, was kept as long as that.
fn kept_for(case: &Case, at: Millis, known_for: Millis) -> Range {
    let Ok(next) = case.verdict() else { return (known_for, known_for) };
    let (low, high) = case.due().map_or(next.due, |due| (due, due));
    let kept = |due: Millis| (at - due).min(known_for);
    if at < low {
        (known_for, known_for)
    } else {
        (kept(high.min(at)), if at < high { known_for } else { kept(low) })
    }
}
