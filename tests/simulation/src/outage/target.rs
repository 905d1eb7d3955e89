//! A function that fails in one of nine ways, its CloudWatch metrics, and the table with its circuit.
//!
//! The function receives first invocations all the time. It fails while it is down, or at a certain rate. CloudWatch's
//! sums of a minute become visible one or two minutes after the minute's end.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use clap::ValueEnum;
use comeback_core::{
    Timestamp,
    circuit::{Circuit, Minute},
    time::{at_millis, between, later},
};
use comeback_flow::ports::{Listed, Stored};

use super::Outage;
use wire::Entry;

use crate::world::BEGAN_AT;

/// How long a run takes that fails because its upstream doesn't answer.
const SLOW_FAILURE: Duration = Duration::from_secs(60);

/// How the function fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Kind {
    /// All invocations fail until the function is mended.
    Down,
    /// As down, but each failure takes a minute.
    Slow,
    /// Down and up in turn, for some minutes each, until it is mended.
    Flapping,
    /// Half of the invocations fail, until it is mended.
    Half,
    /// Nine of ten invocations fail, until it is mended.
    Mostly,
    /// 30 % of the events always fail. All others succeed in their first invocation.
    Poison,
    /// As down, and then 30 % of the waiting events fail for good.
    DownPoison,
    /// Down for a minute.
    Brief,
    /// Down, and first invocations arrive only in its first minute.
    Burst,
}

/// The function, its metrics, its circuit and its register.
pub struct Target {
    outage: Outage,
    mended: Timestamp,
    /// Invocations and failures in each minute since the beginning.
    minutes: Vec<(u32, u32)>,
    second: (i64, u64),
    stored: Stored,
    /// The events that wait in flight, by the end of their wait, and the time under which each is listed.
    waiting: BTreeMap<(Timestamp, String), Listed>,
    places: HashMap<String, Timestamp>,
    pub watched: Watched,
}

/// What was observed about the circuit.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// When it opened for the first time.
    pub opened_at: Option<Timestamp>,
    pub probes: u64,
    pub writes: u64,
    pub questions: u64,
    /// Retries while it was open, other than the probe.
    pub non_probe_retries: u64,
    /// Probes that were taken while another one was under way.
    pub overlapping_probes: u64,
    /// The latest that an attempt was while the target was up.
    pub late_while_up: Duration,
    /// How often it opened while the target was up.
    pub false_openings: u64,
    /// The latest that a probe was made, or counted as a success, after the time of that step.
    pub late_step: Duration,
}

fn hash(seed: u64, number: u64) -> u64 {
    // SplitMix64.
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb_u64] {
        z = (z ^ (z >> 30)).wrapping_mul(factor);
    }
    z ^ (z >> 31)
}

impl Target {
    pub fn new(outage: Outage, mended: Timestamp) -> Self {
        Self {
            outage,
            mended,
            minutes: Vec::new(),
            second: (0, 0),
            stored: Stored::default(),
            waiting: BTreeMap::new(),
            places: HashMap::new(),
            watched: Watched::default(),
        }
    }

    /// When the function is mended for good.
    pub fn mended(&self) -> Timestamp {
        let brief = later(at_millis(BEGAN_AT), Duration::from_mins(1));
        if self.outage.kind == Kind::Brief { brief } else { self.mended }
    }

    /// Whether first invocations arrive at this time.
    pub fn has_traffic(&self, now: Timestamp) -> bool {
        let began = at_millis(BEGAN_AT);
        match self.outage.arrivals {
            Some(seconds) => now < later(began, Duration::from_secs(seconds)),
            None if self.outage.kind == Kind::Burst => now < later(began, Duration::from_mins(1)),
            None => now < later(self.mended, Duration::from_mins(90)),
        }
    }

    /// How many percent of the invocations fail at this time, apart from poison.
    fn failing(&self, now: Timestamp) -> u64 {
        if now >= self.mended() {
            return 0;
        }
        match self.outage.kind {
            Kind::Poison => 0,
            Kind::Half => 50,
            Kind::Mostly => 90,
            Kind::Flapping => {
                let period = 120 + hash(self.outage.seed, 7) % 240;
                let passed = between(at_millis(BEGAN_AT), now).as_secs();
                if (passed / period).is_multiple_of(2) { 100 } else { 0 }
            }
            Kind::Down | Kind::Slow | Kind::DownPoison | Kind::Brief | Kind::Burst => 100,
        }
    }

    fn is_down(&self, now: Timestamp) -> bool {
        self.failing(now) == 100
    }

    /// For how long the function was up between these times.
    fn up_between(&self, from: Timestamp, until: Timestamp) -> Duration {
        let steps = between(from, until).as_secs();
        let up = (0..steps).filter(|&step| !self.is_down(later(from, Duration::from_secs(step))));
        Duration::from_secs(up.count() as u64)
    }

    /// Whether this first invocation is of an event that always fails.
    pub fn is_poison(&self, nth: u64, now: Timestamp) -> bool {
        let poison = hash(self.outage.seed, nth) % 100 < 30 && now < self.mended;
        poison && matches!(self.outage.kind, Kind::Poison | Kind::DownPoison)
    }

    /// Invokes the function. Returns how long the run takes if it fails.
    pub fn invoke(
        &mut self,
        event: u64,
        attempt: u8,
        is_poison: bool,
        now: Timestamp,
    ) -> Option<Duration> {
        let draw = hash(self.outage.seed ^ 0x5555, event << 8 | u64::from(attempt)) % 100;
        if self.second.0 != now.timestamp() {
            self.second = (now.timestamp(), 0);
        }
        self.second.1 += 1;
        let fails = draw < self.failing(now) || is_poison || self.second.1 > self.outage.capacity;
        let minute = between(at_millis(BEGAN_AT), now).as_secs() as usize / 60;
        if self.minutes.len() <= minute {
            self.minutes.resize(minute + 1, (0, 0));
        }
        self.minutes[minute].0 += 1;
        self.minutes[minute].1 += u32::from(fails);
        let takes = if self.outage.kind == Kind::Slow { SLOW_FAILURE } else { Duration::ZERO };
        fails.then_some(takes)
    }

    /// Records the lateness of an attempt that is made now.
    pub fn late(&mut self, lateness: Duration, now: Timestamp) {
        if lateness > self.watched.late_while_up {
            let up = self.up_between(now - lateness, now);
            self.watched.late_while_up = self.watched.late_while_up.max(up);
        }
    }

    /// Records a retry.
    pub fn retried(&mut self, event: usize, attempt: u8) {
        let Some(text) = &self.stored.text else { return };
        let of = format!(r#""event":"{}.{event}-0","attempt":{attempt}"#, self.outage.seed);
        let is_limited = text.contains(r#"{"open":"#) || text.contains(r#"{"probing":"#);
        if is_limited && !text.contains(&of) {
            self.watched.non_probe_retries += 1;
        }
    }

    pub fn stored(&self) -> Stored {
        self.stored.clone()
    }

    /// Replaces the circuit, unless another one is there than the one that the handler has seen.
    pub fn exchange(&mut self, seen: u64, next: String, now: Timestamp) -> Result<(), Stored> {
        if self.stored.version != seen {
            return Err(self.stored.clone());
        }
        let read = |text: &str| Circuit::read(text).unwrap_or_else(|| Circuit::new(now));
        let found = read(self.stored.text.as_deref().unwrap_or_default());
        let (was, is) = (found.name(), read(&next).name());
        self.watched.writes += 1;
        if was != is {
            if is == "open" {
                self.watched.opened_at.get_or_insert(now);
            }
            let opened = is == "open" && was != "probing";
            self.watched.false_openings += u64::from(opened && !self.is_down(now));
            self.watched.probes += u64::from(is == "probing");
            if let ("probing" | "ramping", Some(step_at)) = (is, found.step_at()) {
                self.watched.late_step = self.watched.late_step.max(between(step_at, now));
            }
            self.watched.overlapping_probes += u64::from(is == "probing" && was != "open");
        }
        self.stored = Stored { version: seen + 1, text: Some(next) };
        Ok(())
    }

    /// The minutes that CloudWatch shows now.
    pub fn minutes(&mut self, from: Timestamp, now: Timestamp) -> Vec<Minute> {
        self.watched.questions += 1;
        let slow = if self.outage.kind == Kind::Slow { SLOW_FAILURE } else { Duration::ZERO };
        let of = |(nth, &(invocations, errors)): (usize, &(u32, u32))| {
            let began = later(at_millis(BEGAN_AT), Duration::from_secs(60 * nth as u64));
            let lag = Duration::from_secs(120 + hash(self.outage.seed, nth as u64) % 60);
            let is_visible = later(began, lag + slow) <= now && from <= began && invocations > 0;
            is_visible.then_some(Minute { began, invocations, errors })
        };
        self.minutes.iter().enumerate().filter_map(of).collect()
    }

    /// Lists an event if it waits in flight, or removes one that is acted on.
    pub fn enter(&mut self, key: String, waiting: Option<Entry>) {
        if let Some(due) = self.places.remove(&key) {
            self.waiting.remove(&(due, key.clone()));
        }
        let Some(Entry { due, queue_url, receipt_handle: Some(receipt_handle), .. }) = waiting
        else {
            return;
        };
        self.places.insert(key.clone(), due);
        self.waiting.insert((due, key), Listed { queue_url, receipt_handle });
    }

    pub fn list(&self, after: Timestamp, count: u32) -> Vec<Listed> {
        let range = self.waiting.range((later(after, Duration::from_nanos(1)), String::new())..);
        range.take(count as usize).map(|(_, listed)| listed.clone()).collect()
    }
}
