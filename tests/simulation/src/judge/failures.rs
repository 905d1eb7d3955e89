//! How failures come to be, and the verdict on each.

use std::sync::Arc;

use comeback_core::Timestamp;

use super::{About, Event, Failure, INVOCATION_MAX, Judge, Said, Stranger, Verdict, Why};
use crate::{
    plan::{Form, Plan},
    rules::Facts,
};

impl Judge {
    /// Lambda has given an invocation up and put that into a queue.
    pub(crate) fn failed(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        request_id: &Arc<str>,
        condition: &str,
        said: Said,
    ) {
        let Some(open) = self.open.remove(request_id) else { return };
        self.story.tell(now, Some(open.event), || {
            format!("attempt {} failed ({condition}): {said:?}", open.attempt)
        });
        self.tally.count("failures");
        let (why, said) = match (plan.targets[open.target].form, condition) {
            (Form::Bare, _) => (Why::Failed, said.bare(condition)),
            (_, "ZeroReservedConcurrency") => (Why::Paused, said),
            (_, "RecursiveInvocation") => (Why::Stopped, said),
            (_, _) => (Why::Failed, said),
        };
        let about = About {
            event: open.event,
            target: open.target,
            request_id: Arc::clone(request_id),
            first_request: open.first_request,
        };
        let new = Failure::new(about, now, plan.has_ledger(open.target));
        let first = open.initial.map_or(new.at, |initial| new.at.min(initial * 1000));
        let mut failure = Failure { attempt: open.attempt, why, first, said, ..new };
        failure.verdict = self.verdict(plan, &failure, open.initial);
        self.by_trace.insert(open.trace, self.failures.len());
        self.failures.push(failure);
    }

    /// Somebody has put a message into a retry queue that no function wrote.
    pub(crate) fn stranger(
        &mut self,
        plan: &Plan,
        now: Timestamp,
        stranger: Stranger,
        trace: Arc<str>,
    ) {
        let event = self.events.len();
        self.story.tell(now, Some(event), || {
            let body = &stranger.body[..stranger.body.floor_char_boundary(80)];
            format!("a stranger's message, given up as {:?}: {body}", stranger.over)
        });
        self.tally.count("strangers");
        self.events.push(Event {
            payload: stranger.body,
            foreign: None,
            ends: 0,
            forks: 0,
            copies: 0,
        });
        let request_id: Arc<str> = stranger.request_id.into();
        let about = About {
            event,
            target: stranger.target,
            first_request: Arc::clone(&request_id),
            request_id,
        };
        let claimed = plan.has_ledger(stranger.target) && stranger.over != Some("unreadable");
        let mut failure = Failure { strange: true, ..Failure::new(about, now, claimed) };
        failure.verdict = match stranger.over {
            Some(reason) => Verdict::Over(reason),
            None => self.verdict(plan, &failure, None),
        };
        self.by_trace.insert(trace, self.failures.len());
        self.failures.push(failure);
    }

    /// A record was sent twice: each copy may be acted on.
    pub(crate) fn copied(&mut self, now: Timestamp, trace: &str) {
        let Some(&index) = self.by_trace.get(trace) else { return };
        self.failures[index].delivered_twice();
        let event = self.failures[index].event;
        self.events[event].copies += 1;
        self.story.tell(now, Some(event), || "its record is sent once more".to_owned());
    }

    /// The target whose failure has this trace, if Lambda wrote its record and it may be repeated.
    pub(crate) fn repeatable(&self, trace: &str) -> Option<usize> {
        let failure = &self.failures[*self.by_trace.get(trace)?];
        let may = !failure.strange && self.events[failure.event].may_fork();
        may.then_some(failure.target)
    }

    /// What is to become of a failure.
    fn verdict(&self, plan: &Plan, failure: &Failure, initial: Option<i64>) -> Verdict {
        let target = &plan.targets[failure.target];
        let rules = plan.rules(failure.target);
        if !target.allowed {
            return Verdict::Over("target_not_allowed");
        }
        if failure.why == Why::Stopped {
            return Verdict::Over("recursion_stopped");
        }
        if failure.said.never_heals(&rules.never) {
            return Verdict::Over("not_retryable");
        }
        let paused = failure.why == Why::Paused;
        let attempt = if paused { failure.attempt.max(1) } else { failure.attempt + 1 };
        if rules.attempts.is_some_and(|most| attempt > most) {
            return Verdict::Over("max_attempts_exceeded");
        }
        let wish = if paused { 0 } else { failure.said.wish().unwrap_or_default() };
        let facts = Facts { first: failure.first, at: failure.at, attempt, paused, wish };
        let Some(next) = rules.next(&facts) else { return Verdict::Over("max_age_exceeded") };
        let initial = initial.unwrap_or(failure.at.div_euclid(1000));
        let payload =
            self.expected_payload(failure.event, attempt, Some(initial), &failure.first_request);
        match payload.len() <= INVOCATION_MAX {
            true => Verdict::Next(next),
            false => Verdict::Over("payload_too_large"),
        }
    }
}
