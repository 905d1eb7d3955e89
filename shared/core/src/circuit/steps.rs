//! The transitions of a circuit.

use std::{cmp::Reverse, time::Duration};

use super::{
    ASK_INTERVAL, ASK_INTERVAL_CLEARED, BROUGHT_MAX, Batch, CLEARED_FOR, Circuit, Cleared, Counts,
    EventAttempt, HOLD, HOLD_SUSPECTED, INTERVAL_MAX, INTERVAL_MIN, MINUTE, MIXED_MAX, Minute,
    NOTE_INTERVAL, PATIENCE_MAX, PATIENCE_MIN, Pass, Permits, Phase, Probe, RATE_MAX, REPORT_MIN,
    SAMPLE_MIN, SILENCE, SLICE_MIN, STEADY_MIN, SUSPICION_MAX, Seen, Slice, Steady, Step, Verdict,
    WAKE_UPS, WAKE_UPS_AFTER_PROBE, WINDOW, WakeUps,
};
use crate::{
    Timestamp,
    backoff::Draw,
    claim::CLOCK_SKEW_MAX,
    time::{between, later},
};

impl Circuit {
    /// Decides what to do with a batch.
    pub fn step(&self, batch: &Batch<'_>, now: Timestamp, draw: Draw) -> Step {
        match self.phase.clone() {
            Phase::Closed { counts, cleared } => self.closed(counts, cleared, batch, now),
            Phase::Suspected { since, ask_at, slice } => {
                self.suspected(since, ask_at, slice, batch, now)
            }
            Phase::Open { since, next_at, interval_seconds, steady } => {
                let steady = noted(steady, batch.seen, now);
                self.open(since, next_at, interval_seconds, steady, batch, now)
            }
            Phase::Probing { since, interval_seconds, probe } => {
                self.probing(since, interval_seconds, probe, batch, now, draw)
            }
            Phase::Ramping { since, slice, mixed, probe } => {
                self.ramping(since, slice, mixed, probe, batch, now, draw)
            }
        }
    }

    fn closed(
        &self,
        counts: Counts,
        cleared: Option<Cleared>,
        batch: &Batch<'_>,
        now: Timestamp,
    ) -> Step {
        let Seen { invoked, failed, .. } = batch.seen;
        let pass = Step::pass(Pass::Due);
        let invoked = invoked.saturating_add(batch.due);
        if !batch.reports || invoked.saturating_add(failed) < REPORT_MIN {
            return pass;
        }
        let is_over = is_over(counts.since, WINDOW, now);
        // Failures that take a minute arrive after more retries were made, so they are never nearly all of them.
        let may_be_late = is_over && counts.is_sample() && prevails(counts.failed, counts.invoked);
        let counts = if is_over { counts_from(now) } else { counts };
        let counts = Counts {
            since: counts.since,
            invoked: counts.invoked.saturating_add(invoked),
            failed: counts.failed.saturating_add(failed),
        };
        let cleared = cleared.filter(|it| now < it.until && !is_far(it.until, CLEARED_FOR, now));
        let is_bad = counts.is_sample() && nearly_all(counts.failed, counts.invoked);
        match cleared {
            None if is_bad => {
                let slice = Slice::new(1, now);
                let ask_at = later(now, MINUTE);
                let suspected = self.with(Phase::Suspected { since: counts.since, ask_at, slice });
                let Phase::Suspected { since, ask_at, slice } = suspected.phase.clone() else {
                    return pass;
                };
                let reported = Batch { seen: Seen::default(), ..*batch };
                let step = suspected.suspected(since, ask_at, slice, &reported, now);
                Step { next: step.next.or(Some(suspected)), ..step }
            }
            Some(it) if is_bad && it.ask_at <= now => {
                let cleared = Some(Cleared { ask_at: later(now, ASK_INTERVAL_CLEARED), ..it });
                let next = self.with(Phase::Closed { counts, cleared });
                Step { asks: true, next: Some(next), ..pass }
            }
            cleared => {
                let asks = may_be_late && cleared.is_none();
                Step { asks, next: Some(self.with(Phase::Closed { counts, cleared })), ..pass }
            }
        }
    }

    fn suspected(
        &self,
        since: Timestamp,
        ask_at: Timestamp,
        slice: Slice,
        batch: &Batch<'_>,
        now: Timestamp,
    ) -> Step {
        let slice = slice.plus(batch.seen);
        if slice.is_over(SLICE_MIN, now) {
            let few = slice.taken < slice.all(SLICE_MIN) / 2;
            if few || !prevails(slice.failed, slice.taken) {
                return self.close(None, now);
            }
        }
        if is_over(since, SUSPICION_MAX, now) {
            return self.close(Some(cleared(now)), now);
        }
        let slice = if slice.is_over(SLICE_MIN, now) { Slice::new(slice.rate, now) } else { slice };
        let asks = ask_at <= now || is_far(ask_at, MINUTE, now);
        let ask_at = if asks { later(now, ASK_INTERVAL) } else { ask_at };
        let of = |slice| self.with(Phase::Suspected { since, ask_at, slice });
        let writes = asks || batch.seen.failed > 0;
        Step { asks, ..self.permit(slice, SLICE_MIN, batch.due, batch.permits, writes, now, of) }
    }

    fn open(
        &self,
        since: Timestamp,
        next_at: Timestamp,
        interval_seconds: u32,
        steady: Option<Steady>,
        batch: &Batch<'_>,
        now: Timestamp,
    ) -> Step {
        let is_time = next_at <= now
            || is_far(next_at, INTERVAL_MAX, now)
            || steady.is_some_and(|it| it.has_stopped(now));
        if let (true, Some(candidate)) = (is_time, batch.candidate) {
            let probe = Probe { of: candidate.clone(), at: now };
            let next = self.with(Phase::Probing { since, interval_seconds, probe });
            let until = later(now, self.patience());
            let wakes = WakeUps { count: WAKE_UPS_AFTER_PROBE, from: until, until };
            return Step { next: Some(next), wakes: Some(wakes), ..Step::pass(Pass::Probe) };
        }
        let next = self.with(Phase::Open { since, next_at, interval_seconds, steady });
        Step { next: Some(next).filter(|next| next != self), ..Step::pass(Pass::Some(0)) }
    }

    fn probing(
        &self,
        since: Timestamp,
        interval_seconds: u32,
        probe: Probe,
        batch: &Batch<'_>,
        now: Timestamp,
        draw: Draw,
    ) -> Step {
        if batch.returned.contains(&probe.of) {
            return self.learned(&probe, now).reopen(
                since,
                interval_seconds.saturating_mul(2),
                now,
                draw,
            );
        }
        if is_over(probe.at, self.patience(), now) {
            let slice = Slice::new(1, now);
            let ramping =
                self.with(Phase::Ramping { since, slice, mixed: 0, probe: probe.clone() });
            let step = ramping.ramping(since, slice, 0, probe, batch, now, draw);
            let wakes = step.wakes.or(Some(slice.wakes(ramping.slice_length(), now)));
            return Step { next: step.next.or(Some(ramping)), wakes, ..step };
        }
        Step::pass(Pass::Some(0))
    }

    #[allow(clippy::too_many_arguments, reason = "they are the fields of the phase")]
    fn ramping(
        &self,
        since: Timestamp,
        slice: Slice,
        mixed: u32,
        probe: Probe,
        batch: &Batch<'_>,
        now: Timestamp,
        draw: Draw,
    ) -> Step {
        if batch.returned.contains(&probe.of) {
            return self.learned(&probe, now).reopen(since, 0, now, draw);
        }
        let seen = slice.plus(batch.seen);
        let length = self.slice_length();
        let wanted = batch.due.saturating_add(batch.early);
        if !slice.is_over(length, now) {
            // The higher the rate, the more failures a handler needs before it reports, so that writes rarely conflict.
            let reports = batch.seen.failed > slice.rate / 100;
            let slice = if reports { seen } else { slice };
            let of = |slice| self.with(Phase::Ramping { since, slice, mixed, probe });
            return self.permit(slice, length, wanted, batch.permits, reports, now, of);
        }
        // No handler has taken a step since this slice ended a minute ago, so its counts are stale.
        if is_over(slice.began, length + WINDOW, now) {
            return self.close(None, now);
        }
        let Slice { taken, failed, rate, .. } = seen;
        if taken > 0 && nearly_all(failed, taken) {
            return self.reopen(since, 0, now, draw);
        }
        let few = taken < slice.all(length).min(BROUGHT_MAX) / 2;
        let good = failed <= taken / 5;
        let mixed = mixed.saturating_add(u32::from(!good && rate == 1));
        if few || rate >= RATE_MAX {
            return self.close(None, now);
        }
        if mixed >= MIXED_MAX {
            // Some events fail permanently. Unless the target is cleared, their retries raise the next suspicion at
            // once. The other events were held back because of them, and come back now.
            let wakes = WakeUps { count: BROUGHT_MAX, from: now, until: later(now, HOLD / 2) };
            let step = self.close(Some(cleared(now)), now);
            return Step { wakes: Some(wakes), ..step };
        }
        let rate = if good { rate.saturating_mul(2) } else { (rate / 2).max(1) };
        let slice = Slice::new(rate, now);
        let of = |slice| self.with(Phase::Ramping { since, slice, mixed, probe });
        let wakes = Some(slice.wakes(length, now));
        Step { wakes, ..self.permit(slice, length, wanted, batch.permits, true, now, of) }
    }

    /// Lets as many of the `wanted` events pass as there are permits.
    #[allow(
        clippy::too_many_arguments,
        reason = "a slice, the demand for its permits, and the phase that has it"
    )]
    fn permit(
        &self,
        mut slice: Slice,
        length: Duration,
        wanted: u32,
        kept: Option<Permits>,
        writes: bool,
        now: Timestamp,
        of: impl FnOnce(Slice) -> Self,
    ) -> Step {
        let kept = kept.filter(|permits| permits.began == slice.began);
        let kept = kept.map_or(0, |permits| permits.left);
        let mut left = kept;
        if wanted > kept {
            // Takes the permits of at least a fifth of a second, so that there are few writes at a high rate.
            let wanted = (wanted - kept).max(slice.rate / 5);
            let taken = wanted.min(slice.available(length, now));
            slice.taken = slice.taken.saturating_add(taken);
            left += taken;
        }
        let passed = wanted.min(left);
        let next = (writes || left > kept).then(|| of(slice));
        let permits = Some(Permits { began: slice.began, left: left - passed });
        Step { next, permits, ..Step::pass(Pass::Some(passed)) }
    }

    /// How long to hold back an event that may not be retried now. The time is drawn by the request id, so that events
    /// that are held back together don't come back together.
    pub fn hold(&self, request_id: &str, now: Timestamp) -> Duration {
        let minute = u32::try_from(now.timestamp() / 60).unwrap_or_default();
        let longest = match self.phase {
            Phase::Suspected { .. } => HOLD_SUSPECTED,
            Phase::Closed { .. }
            | Phase::Open { .. }
            | Phase::Probing { .. }
            | Phase::Ramping { .. } => HOLD,
        };
        Draw::seeded(request_id, minute).between(longest * 3 / 4, longest)
    }

    /// The step after CloudWatch's answer, if the circuit changes.
    pub fn after_cloudwatch(&self, minutes: &[Minute], now: Timestamp, draw: Draw) -> Option<Step> {
        let since = match &self.phase {
            Phase::Suspected { since, .. } | Phase::Open { since, .. } => *since,
            Phase::Closed { .. } => now - MINUTE * 6,
            Phase::Probing { .. } | Phase::Ramping { .. } => return None,
        };
        match (verdict(minutes, since, now), &self.phase) {
            (Verdict::Down, Phase::Suspected { .. }) => Some(self.reopen(since, 0, now, draw)),
            (Verdict::Down, Phase::Closed { .. }) => Some(self.reopen(now, 0, now, draw)),
            (Verdict::Up, Phase::Closed { cleared: None, .. }) => None,
            (Verdict::Up, _) => Some(self.close(Some(cleared(now)), now)),
            (Verdict::Down | Verdict::Unknown, _) => None,
        }
    }

    /// The circuit after a handler could not make its probe: open, with the next probe due at once.
    pub fn not_probed(&self, probe: &EventAttempt, now: Timestamp) -> Option<Self> {
        let Phase::Probing { since, interval_seconds, probe: there } = &self.phase else {
            return None;
        };
        let (since, interval_seconds) = (*since, *interval_seconds);
        let open = Phase::Open { since, next_at: now, interval_seconds, steady: None };
        (there.of == *probe).then(|| self.with(open))
    }

    fn with(&self, phase: Phase) -> Self {
        Self { phase, ..self.clone() }
    }

    fn close(&self, cleared: Option<Cleared>, now: Timestamp) -> Step {
        let next = Some(self.with(closed(now, cleared)));
        Step { next, ..Step::pass(Pass::Due) }
    }

    /// Opens the circuit until the next probe.
    fn reopen(&self, since: Timestamp, interval_seconds: u32, now: Timestamp, draw: Draw) -> Step {
        let interval = Duration::from_secs(interval_seconds.into());
        let interval = interval.clamp(INTERVAL_MIN, INTERVAL_MAX);
        let next_at = later(now, draw.between(interval / 2, interval));
        let interval_seconds = seconds(interval);
        let open = Phase::Open { since, next_at, interval_seconds, steady: None };
        let wakes = Some(WakeUps { count: WAKE_UPS, from: now, until: next_at });
        let asks = is_over(since, MINUTE * 2, now);
        Step { next: Some(self.with(open)), asks, wakes, ..Step::pass(Pass::Some(0)) }
    }

    /// Sets the patience to one and a half times what the probe took to fail, but at least to half of the old patience.
    fn learned(&self, probe: &Probe, now: Timestamp) -> Self {
        let took = between(probe.at, now);
        let patience = (took * 3 / 2).max(self.patience() / 2).clamp(PATIENCE_MIN, PATIENCE_MAX);
        Self { patience_seconds: seconds(patience), ..self.clone() }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_seconds.into()).clamp(PATIENCE_MIN, PATIENCE_MAX)
    }

    /// A slice lasts at least half of the patience. In a shorter one, the rate would double before failures arrive.
    fn slice_length(&self) -> Duration {
        (self.patience() / 2).max(SLICE_MIN)
    }
}

impl Step {
    fn pass(pass: Pass) -> Self {
        Self { next: None, pass, asks: false, wakes: None, permits: None }
    }
}

impl Counts {
    fn is_sample(&self) -> bool {
        self.invoked >= SAMPLE_MIN
    }
}

impl Slice {
    pub(super) fn new(rate: u32, now: Timestamp) -> Self {
        Self { began: now, rate: rate.clamp(1, RATE_MAX), taken: 0, failed: 0 }
    }

    fn plus(self, seen: Seen) -> Self {
        Self { failed: self.failed.saturating_add(seen.failed), ..self }
    }

    fn is_over(&self, length: Duration, now: Timestamp) -> bool {
        is_over(self.began, length, now)
    }

    /// The total number of permits.
    fn all(&self, length: Duration) -> u32 {
        self.rate.saturating_mul(seconds(length))
    }

    /// The permits of the seconds that have begun, minus those that were taken.
    fn available(&self, length: Duration, now: Timestamp) -> u32 {
        let begun = seconds(between(self.began, now)).saturating_add(1);
        let given = self.rate.saturating_mul(begun).min(self.all(length));
        given.saturating_sub(self.taken)
    }

    fn wakes(&self, length: Duration, now: Timestamp) -> WakeUps {
        let count = self.all(length).min(BROUGHT_MAX);
        WakeUps { count, from: now, until: later(now, length) }
    }
}

impl Steady {
    fn has_stopped(&self, now: Timestamp) -> bool {
        between(self.since, self.last) >= STEADY_MIN && between(self.last, now) >= SILENCE
    }
}

/// Updates the run of first failures, at most once per `NOTE_INTERVAL`.
fn noted(steady: Option<Steady>, seen: Seen, now: Timestamp) -> Option<Steady> {
    let recent = steady.filter(|it| !is_over(it.last, SILENCE, now));
    match (seen.first_failures, recent) {
        (0, _) => steady,
        (_, Some(it)) if between(it.last, now) < NOTE_INTERVAL => Some(it),
        (_, Some(it)) => Some(Steady { last: now, ..it }),
        (_, None) => Some(Steady { since: now, last: now }),
    }
}

pub(super) fn closed(now: Timestamp, cleared: Option<Cleared>) -> Phase {
    Phase::Closed { counts: counts_from(now), cleared }
}

pub(super) fn counts_from(since: Timestamp) -> Counts {
    Counts { since, invoked: 0, failed: 0 }
}

fn cleared(now: Timestamp) -> Cleared {
    Cleared { until: later(now, CLEARED_FOR), ask_at: later(now, ASK_INTERVAL_CLEARED) }
}

/// At least 95 %.
fn nearly_all(failed: u32, invoked: u32) -> bool {
    u64::from(failed) * 20 >= u64::from(invoked) * 19
}

/// At least half.
fn prevails(failed: u32, invoked: u32) -> bool {
    u64::from(failed) * 2 >= u64::from(invoked)
}

/// Judges the latest minutes that together make a sample. A minute that began before `since` can't show that the target
/// is up, because it may be from before the outage.
fn verdict(minutes: &[Minute], since: Timestamp, now: Timestamp) -> Verdict {
    let complete = |minute: &&Minute| {
        later(minute.began, MINUTE) <= now && since < later(minute.began, MINUTE)
    };
    let mut latest: Vec<_> = minutes.iter().filter(complete).collect();
    latest.sort_unstable_by_key(|minute| Reverse(minute.began));
    let (mut invocations, mut errors) = (0u32, 0u32);
    for minute in latest {
        invocations = invocations.saturating_add(minute.invocations);
        errors = errors.saturating_add(minute.errors);
        if invocations >= SAMPLE_MIN {
            return match nearly_all(errors, invocations) {
                true => Verdict::Down,
                false if since <= minute.began => Verdict::Up,
                false => Verdict::Unknown,
            };
        }
    }
    Verdict::Unknown
}

/// Whether `length` has passed since `since`. If `since` is in the future, the clock that wrote it was wrong.
fn is_over(since: Timestamp, length: Duration, now: Timestamp) -> bool {
    later(since, length) <= now || is_far(since, Duration::ZERO, now)
}

/// Whether a time is so far in the future that the clock that wrote it must be wrong.
fn is_far(at: Timestamp, most: Duration, now: Timestamp) -> bool {
    at > later(now, most.saturating_add(CLOCK_SKEW_MAX))
}

pub(super) fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}
