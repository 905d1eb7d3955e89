//! The transitions of a circuit.

use std::{cmp::Reverse, time::Duration};

use super::{
    ASK_INTERVAL, ASK_INTERVAL_CLEARED, BROUGHT_MAX, Batch, CLEARED_FOR, Circuit, Cleared, Counts,
    EventAttempt, HOLD, HOLD_SUSPECTED, INTERVAL_MAX, INTERVAL_MIN, MINUTE, MIXED_MAX, Minute,
    PATIENCE_MAX, PATIENCE_MIN, Pass, Permits, Phase, Probe, RATE_MAX, REPORT_MIN, SAMPLE_MIN,
    SLICE_MIN, SUSPICION_MAX, Seen, Slice, Step, Trial, Verdict, WAKE_UPS, WATCHERS, WINDOW,
    WakeUps, Watch,
};
use crate::{
    Timestamp,
    backoff::Draw,
    claim::CLOCK_SKEW_MAX,
    time::{between, later},
};

/// What a step depends on, beside the circuit.
#[derive(Clone, Copy)]
struct Turn<'a> {
    batch: &'a Batch<'a>,
    now: Timestamp,
    draw: Draw,
}

impl Circuit {
    pub fn step(&self, batch: &Batch<'_>, now: Timestamp, draw: Draw) -> Step {
        self.turn(Turn { batch, now, draw }).watched(self, batch, now)
    }

    /// When the next step can be taken, or `None` if the circuit is closed.
    pub fn step_at(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Closed { .. } => None,
            Phase::Suspected { slice, .. } => Some(later(slice.began, SLICE_MIN)),
            Phase::Open { next_at, .. } => Some(*next_at),
            Phase::Probing { probe, .. } => Some(later(probe.at, self.patience())),
            Phase::Ramping { slice, .. } => Some(later(slice.began, self.slice_length())),
        }
    }

    fn turn(&self, turn: Turn<'_>) -> Step {
        match self.phase.clone() {
            Phase::Closed { counts, trial: Some(trial), .. } => {
                self.on_trial(counts, Some(&trial), trial.clone(), turn)
            }
            Phase::Closed { counts, cleared, trial: None } => self.closed(counts, cleared, turn),
            Phase::Suspected { since, ask_at, slice } => self.suspected(since, ask_at, slice, turn),
            Phase::Open { since, next_at, interval_seconds } => {
                self.open(since, next_at, interval_seconds, turn)
            }
            Phase::Probing { since, interval_seconds, probe } => {
                self.probing(since, interval_seconds, probe, turn)
            }
            Phase::Ramping { since, slice, mixed, probe } => {
                self.ramping(since, slice, mixed, probe, turn)
            }
        }
    }

    fn closed(&self, counts: Counts, cleared: Option<Cleared>, turn: Turn<'_>) -> Step {
        let Turn { batch, now, .. } = turn;
        let Seen { invoked, failed, .. } = batch.seen;
        let pass = Step::pass(Pass::Due);
        let invoked = invoked.saturating_add(batch.due);
        if !batch.reports || invoked.saturating_add(failed) < REPORT_MIN {
            return pass;
        }
        let is_over = is_over(counts.since, WINDOW, now);
        let counts = if is_over { counts_from(now) } else { counts };
        let counts = Counts {
            since: counts.since,
            invoked: counts.invoked.saturating_add(invoked),
            failed: counts.failed.saturating_add(failed),
        };
        let cleared = cleared.filter(|it| now < it.until && !is_far(it.until, CLEARED_FOR, now));
        let fails = counts.is_sample() && many(counts.failed, counts.invoked);
        match cleared {
            None if fails => self.on_trial(counts, None, Trial::new(now), turn),
            Some(it) if fails && it.ask_at <= now => {
                let cleared = Some(Cleared { ask_at: later(now, ASK_INTERVAL_CLEARED), ..it });
                let next = self.with(Phase::Closed { counts, cleared, trial: None });
                Step { asks: true, next: Some(next), ..pass }
            }
            cleared => {
                let next = self.with(Phase::Closed { counts, cleared, trial: None });
                Step { next: Some(next), ..pass }
            }
        }
    }

    /// The step of a closed circuit whose counts have raised a suspicion. The retries of a trial are written before
    /// they are made. Until nearly all of them have failed, nothing is limited.
    fn on_trial(
        &self,
        counts: Counts,
        found: Option<&Trial>,
        mut trial: Trial,
        turn: Turn<'_>,
    ) -> Step {
        let Turn { batch, now, .. } = turn;
        trial.fail(batch.failed);
        if trial.is_lost() {
            let slice = Slice::new(1, now);
            let (since, ask_at) = (counts.since, later(now, MINUTE));
            let suspected = self.with(Phase::Suspected { since, ask_at, slice });
            let reported = Batch { seen: Seen::default(), ..*batch };
            let turn = Turn { batch: &reported, ..turn };
            let step = suspected.suspected(since, ask_at, slice, turn);
            return Step { next: step.next.or(Some(suspected)), ..step };
        }
        if trial.is_over(now) {
            // Failures that take longer than a trial are known to CloudWatch alone.
            return Step { asks: true, ..self.close(None, now) };
        }
        trial.add(batch.attempts);
        let is_changed = found != Some(&trial);
        let next = || self.with(Phase::Closed { counts, cleared: None, trial: Some(trial) });
        Step { next: is_changed.then(next), ..Step::pass(Pass::Due) }
    }

    fn suspected(&self, since: Timestamp, ask_at: Timestamp, slice: Slice, turn: Turn<'_>) -> Step {
        let Turn { batch, now, .. } = turn;
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
        Step { asks, ..self.permit(slice, SLICE_MIN, batch.due, turn, writes, of) }
    }

    fn open(
        &self,
        since: Timestamp,
        next_at: Timestamp,
        interval_seconds: u32,
        turn: Turn<'_>,
    ) -> Step {
        let Turn { batch, now, .. } = turn;
        let is_time = next_at <= now || is_far(next_at, INTERVAL_MAX, now);
        if let (true, Some(candidate)) = (is_time, batch.candidate) {
            let probe = Probe { of: candidate.clone(), at: now };
            let next = self.with(Phase::Probing { since, interval_seconds, probe });
            return Step { next: Some(next), ..Step::pass(Pass::Probe) };
        }
        Step::pass(Pass::Some(0))
    }

    fn probing(
        &self,
        since: Timestamp,
        interval_seconds: u32,
        probe: Probe,
        turn: Turn<'_>,
    ) -> Step {
        let Turn { batch, now, draw } = turn;
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
            let step = ramping.ramping(since, slice, 0, probe, turn);
            let wakes = step.wakes.or(Some(slice.wakes(ramping.slice_length(), now)));
            return Step { next: step.next.or(Some(ramping)), wakes, ..step };
        }
        // The probe was not made: its handler has died, or another handler wrote before it could see its own write.
        let is_probe = batch.candidate == Some(&probe.of);
        Step::pass(if is_probe { Pass::Probe } else { Pass::Some(0) })
    }

    fn ramping(
        &self,
        since: Timestamp,
        slice: Slice,
        mixed: u32,
        probe: Probe,
        turn: Turn<'_>,
    ) -> Step {
        let Turn { batch, now, draw } = turn;
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
            return self.permit(slice, length, wanted, turn, reports, of);
        }
        // No handler has taken a step since this slice ended a minute ago, so its counts are stale.
        if is_over(slice.began, length + WINDOW, now) {
            return self.close(None, now);
        }
        let Slice { taken, failed, rate, .. } = seen;
        if taken > 0 && nearly_all(failed, taken) {
            return self.reopen(since, 0, now, draw);
        }
        // If more events wait, few retries don't mean that demand is met. The next slice tries it again.
        let few = taken < slice.all(length).min(BROUGHT_MAX) / 2;
        let again = few && slice.missed;
        let good = !many(failed, taken);
        let mixed = mixed.saturating_add(u32::from(!good && rate == 1));
        if (few && !again) || rate >= RATE_MAX {
            return self.close(None, now);
        }
        if mixed >= MIXED_MAX {
            // Some events fail permanently. Unless the target is cleared, their retries raise the next suspicion at
            // once. The other events were held back because of them, and come back now.
            let wakes = WakeUps { count: BROUGHT_MAX, from: now, until: later(now, HOLD / 2) };
            let step = self.close(Some(cleared(now)), now);
            return Step { wakes: Some(wakes), ..step };
        }
        let rate = match good {
            true if again => rate,
            true => rate.saturating_mul(2),
            false => (rate / 2).max(1),
        };
        let slice = Slice::new(rate, now);
        let of = |slice| self.with(Phase::Ramping { since, slice, mixed, probe });
        let wakes = Some(slice.wakes(length, now));
        Step { wakes, ..self.permit(slice, length, wanted, turn, true, of) }
    }

    /// Lets as many of the `wanted` events pass as there are permits.
    fn permit(
        &self,
        mut slice: Slice,
        length: Duration,
        wanted: u32,
        turn: Turn<'_>,
        writes: bool,
        of: impl FnOnce(Slice) -> Self,
    ) -> Step {
        let Turn { batch, now, .. } = turn;
        let kept = batch.permits.filter(|permits| permits.began == slice.began);
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
        let opened = |since| {
            let step = self.reopen(since, 0, now, draw);
            let until = step.next.as_ref().and_then(Self::step_at);
            let wakes = until.map(|until| WakeUps { count: WAKE_UPS, from: now, until });
            Some(Step { wakes, ..step })
        };
        match (verdict(minutes, since, now), &self.phase) {
            (Verdict::Down, Phase::Suspected { .. }) => opened(since),
            (Verdict::Down, Phase::Closed { .. }) => opened(now),
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
        let open = Phase::Open { since, next_at: now, interval_seconds };
        (there.of == *probe).then(|| self.with(open))
    }

    /// The circuit after not all events that wait were brought forward for its slice.
    pub fn more_wait(&self) -> Option<Self> {
        let mut next = self.clone();
        let Phase::Ramping { slice, .. } = &mut next.phase else { return None };
        slice.missed = true;
        Some(next).filter(|next| next != self)
    }

    /// The circuit in this phase. If its next step is another one, nobody waits for it yet.
    fn with(&self, phase: Phase) -> Self {
        let next = Self { phase, ..self.clone() };
        if next.step_at() == self.step_at() { next } else { Self { watchers: 0, ..next } }
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
        let open = Phase::Open { since, next_at, interval_seconds };
        let asks = is_over(since, MINUTE * 2, now);
        Step { next: Some(self.with(open)), asks, ..Step::pass(Pass::Some(0)) }
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
        Self { next: None, pass, asks: false, wakes: None, permits: None, watch: None }
    }

    /// Lets events that are not retried wait for the next step, unless enough others do. Nothing else makes sure that a
    /// batch of the target is there to take the step.
    fn watched(self, found: &Circuit, batch: &Batch<'_>, now: Timestamp) -> Self {
        let circuit = self.next.as_ref().unwrap_or(found);
        let may_wait = match circuit.phase {
            Phase::Closed { .. } => 0,
            Phase::Suspected { .. } => batch.due,
            Phase::Ramping { .. } => batch.due.saturating_add(batch.early),
            Phase::Open { .. } | Phase::Probing { .. } => {
                batch.due.saturating_add(batch.early).saturating_add(batch.fresh)
            }
        };
        let passed = match self.pass {
            Pass::Due => batch.due,
            Pass::Probe => 1,
            Pass::Some(passed) => passed,
        };
        let Some(step_at) = circuit.step_at().filter(|at| now < *at && *at <= later(now, HOLD))
        else {
            return self;
        };
        // If this handler's clock is slow, these may be the watchers, which have come back in time.
        let is_near = step_at <= later(now, CLOCK_SKEW_MAX);
        let most = if is_near { 2 * WATCHERS } else { WATCHERS };
        let others = circuit.watchers;
        let count = may_wait.saturating_sub(passed).min(most.saturating_sub(others));
        if count == 0 {
            return self;
        }
        let next = Circuit { watchers: others.saturating_add(count), ..circuit.clone() };
        Self { next: Some(next), watch: Some(Watch { step_at, others, count }), ..self }
    }
}

impl Counts {
    fn is_sample(&self) -> bool {
        self.invoked >= SAMPLE_MIN
    }
}

impl Slice {
    pub(super) fn new(rate: u32, now: Timestamp) -> Self {
        Self { began: now, rate: rate.clamp(1, RATE_MAX), taken: 0, failed: 0, missed: false }
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

pub(super) fn closed(now: Timestamp, cleared: Option<Cleared>) -> Phase {
    Phase::Closed { counts: counts_from(now), cleared, trial: None }
}

pub(super) fn counts_from(since: Timestamp) -> Counts {
    Counts { since, invoked: 0, failed: 0 }
}

fn cleared(now: Timestamp) -> Cleared {
    Cleared { until: later(now, CLEARED_FOR), ask_at: later(now, ASK_INTERVAL_CLEARED) }
}

/// At least 95 %.
pub(super) fn nearly_all(failed: u32, invoked: u32) -> bool {
    u64::from(failed) * 20 >= u64::from(invoked) * 19
}

/// More than a fifth.
fn many(failed: u32, invoked: u32) -> bool {
    failed > invoked / 5
}

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
pub(super) fn is_over(since: Timestamp, length: Duration, now: Timestamp) -> bool {
    later(since, length) <= now || is_far(since, Duration::ZERO, now)
}

/// Whether a time is so far in the future that the clock that wrote it must be wrong.
fn is_far(at: Timestamp, most: Duration, now: Timestamp) -> bool {
    at > later(now, most.saturating_add(CLOCK_SKEW_MAX))
}

pub(super) fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}
