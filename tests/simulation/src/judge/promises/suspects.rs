//! A target is suspected only if nearly all of many retries fail that handlers have made.

use std::{collections::VecDeque, sync::Arc};

use comeback_core::Timestamp;
use rustc_hash::FxHashMap;

use super::{Check, Happens, Kept, Promise, ensure};
use crate::{
    judge::{
        happens::{Move, Turn},
        known::Known,
    },
    policy::Millis,
};

/// How many of a target's retries in a row must have been made within this time before the target is suspected, and how
/// many of these must have failed. A trial needs more, but some may be unknown to it.
const SAMPLE: usize = 20;
const SAMPLED_WITHIN: Millis = 240_000;
const SAMPLE_FAILED: usize = 15;

/// The latest retries of each target, by its name.
#[derive(Default)]
pub struct Suspects(FxHashMap<String, Retries>);

/// The retries of a target that may be a handler's sample: when, and whether each has failed.
#[derive(Default)]
struct Retries {
    made: VecDeque<(Timestamp, Arc<str>, bool)>,
    /// The number of each retry, by its request id, and of the first that is still known.
    numbers: FxHashMap<Arc<str>, usize>,
    first: usize,
}

impl Retries {
    fn add(&mut self, now: Timestamp, request_id: &Arc<str>) {
        let is_over = |(at, ..): &mut (Timestamp, Arc<str>, bool)| {
            (now - *at).num_milliseconds() > SAMPLED_WITHIN
        };
        while let Some((_, over, _)) = self.made.pop_front_if(is_over) {
            self.numbers.remove(&over);
            self.first += 1;
        }
        self.numbers.insert(Arc::clone(request_id), self.first + self.made.len());
        self.made.push_back((now, Arc::clone(request_id), false));
    }

    fn failed(&mut self, request_id: &str) {
        if let Some(number) = self.numbers.get(request_id)
            && let Some((.., failed)) = self.made.get_mut(number - self.first)
        {
            *failed = true;
        }
    }

    /// Whether of many in a row, most have failed.
    fn mostly_fail(&self, now: Timestamp) -> bool {
        let is_late = |at: Timestamp| (now - at).num_milliseconds() <= SAMPLED_WITHIN;
        let late = self.made.iter().filter(|(at, ..)| is_late(*at));
        let late: Vec<_> = late.map(|(.., failed)| *failed).collect();
        let failed = |sample: &[bool]| sample.iter().filter(|failed| **failed).count();
        late.windows(SAMPLE).any(|sample| failed(sample) >= SAMPLE_FAILED)
    }
}

impl Promise for Suspects {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        if let Happens::Retried(target, request_id) = happens {
            self.0.entry(target.to_owned()).or_default().add(known.now, request_id);
        }
        if let Happens::Failed(target, request_id) = happens
            && let Some(retries) = self.0.get_mut(target)
        {
            retries.failed(request_id);
        }
        if let Happens::Circuit(_, circuit, Move::Turned(Turn { was, is, .. })) = happens
            && is.is("suspected")
            && was.is("closed")
        {
            let name = circuit.split(':').nth(6).unwrap_or_default();
            let is_down = self.0.get(name).is_some_and(|retries| retries.mostly_fail(known.now));
            return ensure(is_down, Check::SuspectsTruly, || {
                format!("{circuit} is suspected, and most of its retries succeed")
            });
        }
        Ok(())
    }
}
