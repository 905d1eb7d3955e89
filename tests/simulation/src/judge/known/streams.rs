//! Batches of streams: those that a mapping has given up, and those of which a function has processed only a part.
//!
//! A function that names records in its answer has succeeded in Lambda's eyes. What it has not processed is an event
//! from then on, which goes on with the attempts of the whole batch.

use std::{rc::Rc, sync::Arc};

use comeback_core::error_type::ErrorReport;
use serde_json::Value;

use super::{
    Event, Known, Open, Stranger,
    cases::{Case, Condition},
    records::NOTHING,
};
use crate::{
    seen::Seen,
    stream::{Batch, INVOCATION_MAX},
};

impl Event {
    /// The batch of a stream that it is.
    pub fn batch(&self) -> Option<&Rc<Batch>> {
        self.original.as_ref()?.batch.as_ref()
    }
}

impl Case {
    /// Whether a mapping has written its record. The mapping has invoked the function itself, so this was no retry.
    pub fn is_of_mapping(&self) -> bool {
        self.condition == Condition::OfBatch
    }
}

impl Known {
    /// The batch with which a run was started.
    pub fn batch_of_run(&self, request_id: &str) -> Option<&Rc<Batch>> {
        self.events[self.open.get(request_id)?.event].batch()
    }

    /// Whether this is a batch that no invocation can carry, so that it is sent in parts.
    pub fn is_in_parts(&self, case: &Case) -> bool {
        let batch = self.events[case.of.event].batch();
        case.is_of_mapping() && batch.is_some_and(|batch| !batch.parts().is_empty())
    }

    /// Whether no invocation can carry its payload, so that a handler doesn't keep it.
    pub fn stays_in_bucket(&self, case: &Case) -> bool {
        case.is_of_mapping() && self.payload(case.of.event).len() > INVOCATION_MAX
    }

    /// A queue has accepted the first notice of a part of a batch. It is an event of its own from then on.
    pub fn has_part_of_batch(
        &mut self,
        whole: usize,
        nth: usize,
        name: &str,
        trace: &str,
    ) -> Option<usize> {
        let case = &self.cases[whole];
        let batch = self.events[case.of.event].batch()?;
        let part = batch.part(batch.parts().get(nth)?);
        let (target, at, place) = (case.of.target, case.at, case.place().cloned());
        let id = format!("{}.{name}", case.request_id);
        let event = self.events.len();
        self.tally.count(Seen::Step("parts of batches"));
        self.story.tell(self.now, event, || format!("it is part {name} of a batch, {id}"));
        let text = part.text();
        let open = Open {
            event,
            target,
            attempt: 0,
            initial: None,
            first_request: id.as_str().into(),
            is_foreign: false,
            is_unwrapped: false,
            trace: trace.into(),
        };
        let stranger =
            Stranger { place, ..Stranger::new("a part of a batch", String::new(), &id, "") };
        self.events.push(Event::new(event, text, None, None).of_batch(part.into()));
        let cause = (Condition::OfBatch, ErrorReport::default());
        let case = self.open_case(open, id.as_str().into(), at, cause, Some(&stranger));
        self.cases[case].is_part(name);
        Some(case)
    }

    /// What a run has not processed, by its answer, if that is a failure.
    fn unprocessed(&self, request_id: &str, answer: &str) -> Option<Batch> {
        let named = named(answer)?;
        let named: Vec<_> = named.iter().map(String::as_str).collect();
        Some(self.batch_of_run(request_id)?.rest_from(&named))
    }

    /// The record of a run that has succeeded was too large for its queue.
    pub fn success_lost(&mut self, request_id: &str, answer: &str) -> bool {
        let is_lost = self.unprocessed(request_id, answer).is_some();
        match is_lost {
            true => self.lost(request_id, "the record of its success is too large"),
            false => self.succeeded(request_id),
        }
        is_lost
    }

    /// The record of a run that has succeeded is in a retry queue. It is no event, and ends without an act.
    fn is_about_no_failure(&mut self, of: Open, request_id: &str) {
        let event = self.events.len();
        self.tally.count(Seen::Step("records of successes"));
        self.events.push(Event::new(event, String::new(), None, None));
        let open = Open { event, attempt: 0, initial: None, is_unwrapped: false, ..of };
        let stranger = Stranger::new("the record of a success", String::new(), request_id, "");
        let stranger = Stranger { over: Some(NOTHING), ..stranger };
        let (cause, at) =
            ((Condition::Failed, ErrorReport::default()), self.now.timestamp_millis());
        self.open_case(open, request_id.into(), at, cause, Some(&stranger));
    }

    /// A run has succeeded, and the record of that is in a retry queue. Returns its case, if records have failed.
    pub fn success_recorded(&mut self, request_id: &Arc<str>, answer: &str) -> Option<usize> {
        let rest = self.unprocessed(request_id, answer);
        let Some(rest) = rest else {
            let open = self.open.get(request_id)?.clone();
            self.succeeded(request_id);
            self.is_about_no_failure(open, request_id);
            return None;
        };
        let mut open = self.open.remove(request_id)?;
        let whole = open.event;
        self.tally.count(Seen::Step("answers that name records"));
        self.story.tell(self.now, whole, || format!("attempt {} answers {answer}", open.attempt));
        let is_cut = self.events[whole].batch().is_some_and(|batch| batch.len() > rest.len());
        if is_cut {
            self.tally.count(Seen::Step("batches of which records have failed"));
            open.event = self.events.len();
            let story = format!("it is what has failed of event {whole}");
            self.story.tell(self.now, open.event, || story);
            let event = Event::new(open.event, rest.text(), None, None);
            self.events.push(event.of_batch(rest.into()));
            self.events[whole].ends += 1;
        }
        let cause = (Condition::Failed, ErrorReport::default());
        let at = self.now.timestamp_millis();
        let case = self.open_case(open, (&**request_id).into(), at, cause, None);
        if is_cut {
            self.cases[case].is_cut_from(whole);
        }
        Some(case)
    }
}

/// The names in an answer, or `None` if it says that all was processed. What is no name is an empty one.
fn named(answer: &str) -> Option<Vec<String>> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let name = |failure: &Value| {
        let name = failure.get("itemIdentifier").and_then(Value::as_str);
        name.unwrap_or_default().to_owned()
    };
    let failures = answer.get("batchItemFailures").filter(|it| !it.is_null())?;
    let Some(failures) = failures.as_array() else { return Some(vec![String::new()]) };
    (!failures.is_empty()).then(|| failures.iter().map(name).collect())
}
