//! The targets: what becomes of their runs, and what the judge is told of it.

use std::{rc::Rc, sync::Arc};

use comeback_local::{
    journal::{Ending, Event},
    model::lambda::run::{Exit, Outcome, Run, RunId},
};
use serde_json::Value;

use super::{Step, World};
use crate::{draw::Draw, judge::Said, plan::NEVER, spell::Trouble, tally::Fault};

/// By turns of so many minutes a flapping target works and fails.
const FLAP_MINUTES: i64 = 7;

impl World {
    /// A target runs: what will become of it is known now, and seen when it ends.
    pub(super) fn run_target(&mut self, run: &Run) {
        let Some(&target) = self.targets.get(&run.configuration.name) else { return };
        self.judge.began(self.now, &run.request_id, run.payload.get(), &run.trace_header);
        let outcome = self.outcome(target, run);
        let lasts = match matches!(outcome, Outcome::TimedOut) {
            true => run.configuration.timeout(),
            false => self.draw.millis(5..=2_000),
        };
        self.agenda.plan(self.after(lasts), Step::TargetEnds(run.id, Box::new(outcome)));
    }

    fn outcome(&mut self, target: usize, run: &Run) -> Outcome {
        let event = self.judge.open(&run.request_id).map_or(0, |open| open.event);
        // Drawn once for an event, and not for each of its runs.
        let stubborn = Draw::seeded(self.plan.seed.wrapping_add(event as u64)).unit();
        let fails = if stubborn < self.plan.stubborn {
            true
        } else if self.calm {
            false
        } else if self.is(Trouble::TargetDown { target }) {
            true
        } else if self.is(Trouble::TargetFlaps { target }) {
            (self.now.timestamp() / 60 / FLAP_MINUTES) % 2 == 0
        } else {
            self.draw.happens(self.plan.targets[target].failing)
        };
        if fails { self.failure() } else { Outcome::Returned(b"null".to_vec()) }
    }

    fn failure(&mut self) -> Outcome {
        let count = self.draw.number(1..=300);
        let unit = *self.draw.pick(&["s", "s", "s", "", "m", "h"]);
        let (error_type, message) = match self.draw.number(0..=99) {
            0..=5 => {
                self.judge.tally.fault(Fault::TargetCrashed);
                return Outcome::Exited(Exit::Status(1));
            }
            6..=9 => {
                self.judge.tally.fault(Fault::TargetTimedOut);
                return Outcome::TimedOut;
            }
            10..=12 => {
                let odd =
                    *self.draw.pick(&["\"no\"", "[1]", "{\"errorType\":7}", "null", "<html>"]);
                return Outcome::Failed(odd.as_bytes().to_vec());
            }
            13..=20 => {
                self.judge.tally.fault(Fault::TargetAskedToWait);
                let kind = *self.draw.pick(&["RetryAfter", "kit::RetryAfter"]);
                (kind, format!("{count}{unit}: the upstream says 429"))
            }
            21..=22 => ("RetryAfter", "soon: no duration".to_owned()),
            23..=25 => {
                (*self.draw.pick(&["PermanentFailure", "app.PermanentFailure"]), String::new())
            }
            26..=29 => (self.draw.pick(&NEVER).1, "it never heals".to_owned()),
            30..=32 => ("NotPermanentFailure", "é".repeat(800)),
            33..=34 => ("Error", "\\u0001 \\uffff".to_owned()),
            _ => ("Error", "the upstream is down".to_owned()),
        };
        let report = format!(r#"{{"errorType":"{error_type}","errorMessage":"{message}"}}"#);
        Outcome::Failed(report.into_bytes())
    }

    pub(super) fn target_ends(&mut self, run: RunId, outcome: Outcome) {
        self.cloud.finish(self.now, run, outcome);
        self.observe();
    }

    /// Sees what has happened in the cloud.
    pub(super) fn observe(&mut self) {
        let plan = Rc::clone(&self.plan);
        let mut happened = self.cloud.take_happened().into_iter().peekable();
        // What a failed run said is told before what becomes of it.
        let mut said = Said::default();
        while let Some(event) = happened.next() {
            // Nothing else says how an invocation ended.
            if let Event::Finished { request_id, outcome, response, .. } = event {
                if outcome == Ending::Succeeded {
                    self.judge.succeeded(self.now, &request_id);
                } else if self.judge.open(&request_id).is_some() {
                    said = read(response.get());
                }
            } else if let Event::GivenUp { request_id, condition, .. } = event {
                match happened.next_if(|next| is_delivery_of(next, &request_id)) {
                    Some(Event::DestinationSent { .. }) => {
                        let said = std::mem::take(&mut said);
                        self.judge.failed(&plan, self.now, &request_id, condition, said);
                    }
                    Some(_) => {
                        self.judge.tally.fault(Fault::RecordTooLarge);
                        self.judge.lost(self.now, &request_id, "its record is too large");
                    }
                    None => self.judge.lost(self.now, &request_id, "its function is gone"),
                }
            }
        }
    }
}

fn is_delivery_of(event: &Event, of: &Arc<str>) -> bool {
    if let Event::DestinationSent { request_id, .. } | Event::DestinationFailed { request_id, .. } =
        event
    {
        request_id == of
    } else {
        false
    }
}

/// What a failed run said of its error, as far as it can be read.
fn read(response: &str) -> Said {
    let response: Value = serde_json::from_str(response).unwrap_or_default();
    let text = |name| response.get(name).and_then(Value::as_str).map(str::to_owned);
    Said { error_type: text("errorType"), message: text("errorMessage") }
}
