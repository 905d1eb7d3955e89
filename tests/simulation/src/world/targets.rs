//! The targets: how their runs end, and what the judge is told of it.

use std::sync::Arc;

use comeback_local::{
    journal::{Ending, Event},
    model::lambda::run::{Exit, Outcome, Run, RunId},
};
use serde_json::Value;

use super::{Step, World};
use crate::{
    dice::Dice,
    judge::ErrorReport,
    plan::NEVER,
    tally::{Fault, Seen},
};

impl World {
    /// A target runs. How the run ends is drawn now, and happens later.
    pub(super) fn run_target(&mut self, run: &Run) {
        let Some(&target) = self.targets.get(&run.configuration.name) else { return };
        self.judge.began(&run.request_id, run.payload.get(), &run.trace_header);
        let outcome = self.outcome(target, run);
        let lasts = match matches!(outcome, Outcome::TimedOut) {
            true => run.configuration.timeout(),
            false => self.dice.millis(5..=2_000),
        };
        self.after(lasts, Step::TargetEnds(run.id, Box::new(outcome)));
    }

    fn outcome(&mut self, target: usize, run: &Run) -> Outcome {
        let event = self.judge.open(&run.request_id).map_or(0, |open| open.event);
        // Drawn once for an event, and not for each of its runs.
        let is_hopeless = || {
            let seed = self.plan.seed.wrapping_add(event as u64);
            Dice::seeded(seed).unit() < self.plan.hopeless
        };
        let fails = if self.plan.hopeless > 0.0 && is_hopeless() {
            true
        } else if self.is_calm {
            false
        } else {
            let is_down = self.is_down(target);
            is_down.unwrap_or_else(|| self.dice.happens(self.plan.targets[target].failing))
        };
        if fails { self.failure() } else { Outcome::Returned(b"null".to_vec()) }
    }

    fn failure(&mut self) -> Outcome {
        let count = self.dice.number(1..=300);
        let unit = self.dice.pick(&["s", "s", "s", "", "m", "h"]);
        let (error_type, message) = match self.dice.number(0..=99) {
            0..=5 => {
                self.judge.tally.count(Seen::Fault(Fault::TargetCrashed));
                return Outcome::Exited(Exit::Status(1));
            }
            6..=9 => {
                self.judge.tally.count(Seen::Fault(Fault::TargetTimedOut));
                return Outcome::TimedOut;
            }
            10..=12 => {
                let odd = ["\"no\"", "[1]", "{\"errorType\":7}", "null", "<html>"];
                return Outcome::Failed(self.dice.pick(&odd).as_bytes().to_vec());
            }
            13..=20 => {
                self.judge.tally.count(Seen::Fault(Fault::TargetAskedToWait));
                let error_type = self.dice.pick(&["RetryAfter", "kit::RetryAfter"]);
                (error_type, format!("{count}{unit}: the upstream says 429"))
            }
            21..=22 => ("RetryAfter", "soon: no duration".to_owned()),
            23..=25 => {
                (self.dice.pick(&["PermanentFailure", "app.PermanentFailure"]), String::new())
            }
            26..=29 => (self.dice.pick(&NEVER).1, "it never heals".to_owned()),
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

    /// Tells the judge what has happened in the cloud.
    pub(super) fn observe(&mut self) {
        let mut happened = self.cloud.take_happened().into_iter().peekable();
        // What a failed run reported comes before what becomes of it.
        let mut error = ErrorReport::default();
        while let Some(event) = happened.next() {
            if let Event::Finished { request_id, outcome, response, .. } = event {
                if outcome == Ending::Succeeded {
                    self.judge.succeeded(&request_id);
                } else if self.judge.open(&request_id).is_some() {
                    error = read(response.get());
                }
            } else if let Event::GivenUp { request_id, condition, .. } = event {
                match happened.next_if(|next| is_delivery_of(next, &request_id)) {
                    Some(Event::DestinationSent { .. }) => {
                        self.judge.failed(&request_id, condition, std::mem::take(&mut error));
                    }
                    Some(_) => {
                        self.judge.tally.count(Seen::Fault(Fault::RecordTooLarge));
                        self.judge.lost(&request_id, "its record is too large");
                    }
                    None => self.judge.lost(&request_id, "its function is gone"),
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

/// What a failed run reported, as far as it can be read.
fn read(response: &str) -> ErrorReport {
    let response: Value = serde_json::from_str(response).unwrap_or_default();
    let text = |name| response.get(name).and_then(Value::as_str).map(str::to_owned);
    ErrorReport { error_type: text("errorType"), message: text("errorMessage") }
}
