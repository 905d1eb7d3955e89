//! A record is read once in a batch, from a bucket that is listed, and with at most two others at the same time.

use super::{Check, Happens, Kept, Promise, broken, ensure};
use crate::judge::known::{Fetch, Known};

/// The most records that a handler reads at the same time: each may have 8 MiB, and a handler has 128.
const READS_AT_ONCE: usize = 3;

#[derive(Default)]
pub struct ReadsFew;

impl Promise for ReadsFew {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        let Happens::Reads(run, of, sought) = happens else { return Ok(()) };
        let Some(of) = of else {
            let what = format!("run {run} reads {sought}, which no unread notice names");
            return broken(Check::ReadsFew, None, what);
        };
        let at_once = known.batch(run).iter().filter(|it| it.fetch == Fetch::Asked).count() + 1;
        let target = &known.plan.targets[known.cases[of.case].of.target];
        ensure(!target.is_bucket_unlisted && at_once <= READS_AT_ONCE, Check::ReadsFew, || {
            format!("run {run} reads {sought}, {at_once} at the same time")
        })
    }
}
