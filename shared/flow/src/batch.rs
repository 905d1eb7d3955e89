//! A batch, from the event that Lambda delivers to the answer that it is given.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use comeback_core::{
    Timestamp,
    arn::Home,
    decision::{Decision, Reinvocation, visibility_timeout},
    fault::{FaultKind, Unaccepted, after_fault},
    settings::Settings,
    time::between,
};
use futures_util::{StreamExt, future::join, stream};

use crate::{
    budget::{Budget, within},
    chunks,
    item::Item,
    log,
    ports::{Clock, ENTRIES_MAX, Functions, Invocation, Queues, VisibilityChange},
    report::{Obstacle, Outcome, Report},
    settlements::{Letter, Settlements, Wait},
};

/// How many calls of each kind are under way at once. A batch is of ten messages by default, and a
/// function of 128 MB has CPU for no more.
const CALLS_AT_ONCE: usize = 10;

/// Lambda delivered a record that it could not be told of: without an id, a message can't be reported
/// as failed. Nothing was done, and the whole batch comes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected every record to have a messageId, got one without")]
pub struct RecordWithoutId;

/// The retry handler.
pub struct Handler<Q, F, C> {
    /// How events are retried.
    pub settings: Settings,
    /// The retry queue and the dead-letter queue.
    pub queues: Q,
    /// The targets.
    pub functions: F,
    /// The time.
    pub clock: C,
}

impl<Q: Queues, F: Functions, C: Clock> Handler<Q, F, C> {
    /// Handles a batch at `home` and answers before `deadline`.
    ///
    /// # Errors
    ///
    /// If a record has no id, before anything is done.
    pub async fn handle(
        &self,
        event: &SqsEvent,
        home: &Home,
        deadline: Timestamp,
    ) -> Result<Report, RecordWithoutId> {
        let nameless = |id: &Option<String>| id.as_deref().is_none_or(str::is_empty);
        if event.records.iter().any(|record| nameless(&record.message_id)) {
            return Err(RecordWithoutId);
        }
        let now = self.clock.now();
        let judge = |record| Item::judge(record, home, &self.settings, now);
        let items: Vec<Item> = event.records.iter().map(judge).collect();
        let budget = Budget::of(now, deadline);
        within(&self.clock, budget.all, self.act(&items, budget)).await;
        items.iter().filter(|item| !item.is_reached()).for_each(log::not_reached);
        Ok(Report { entries: items.iter().map(Item::report).collect() })
    }

    /// Does what was decided, everything at once, so that no message waits for another's call.
    async fn act(&self, items: &[Item<'_>], budget: Budget) {
        let mut due = Vec::new();
        let mut settlements = Settlements::default();
        for item in items {
            match &item.judgement.decision {
                Decision::Invoke(attempt) => due.push((item, attempt)),
                Decision::Wait { until } => settlements.wait(item, *until),
                Decision::DeadLetter(reason) => settlements.give_up(item, *reason),
            }
        }
        join(self.settle(&settlements), self.invoke_all(due, budget.invocations)).await;
    }

    /// Invokes what is due, for so long. What was not accepted is settled while other invocations are
    /// still under way; those that were answered at the same time share a call.
    async fn invoke_all(&self, due: Vec<(&Item<'_>, &Reinvocation)>, limit: Duration) {
        let calls =
            due.into_iter().map(async |(item, attempt)| (item, self.invoke(item, attempt).await));
        stream::iter(calls)
            .buffer_unordered(CALLS_AT_ONCE)
            .take_until(self.clock.sleep(limit))
            .ready_chunks(ENTRIES_MAX)
            .for_each_concurrent(None, async |answered| {
                let mut settlements = Settlements::default();
                for (item, instead) in answered {
                    match instead {
                        None => {}
                        Some(Unaccepted::Wait { until }) => settlements.wait(item, until),
                        Some(Unaccepted::DeadLetter(reason)) => settlements.give_up(item, reason),
                    }
                }
                self.settle(&settlements).await;
            })
            .await;
    }

    /// Invokes the target. Says what is to be done instead where that was not accepted.
    async fn invoke(&self, item: &Item<'_>, attempt: &Reinvocation) -> Option<Unaccepted> {
        let lateness = between(attempt.schedule.due, self.clock.now());
        let payload = attempt.envelope.to_json();
        let invocation = Invocation {
            function: attempt.target.as_str(),
            payload: &payload,
            trace_header: item.trace_header(),
        };
        let fault = match self.functions.invoke(invocation).await {
            Ok(()) => {
                item.became(Outcome::Invoked { lateness });
                log::invoked(item, lateness);
                return None;
            }
            Err(fault) => fault,
        };
        item.met(match fault.kind {
            FaultKind::Transient { .. } => Some(Obstacle::Throttled),
            FaultKind::Configuration => Some(Obstacle::Configuration),
            FaultKind::Refused(_) => None,
        });
        log::not_accepted(item, &fault);
        Some(after_fault(fault.kind, attempt, item.message.receive_count, self.clock.now()))
    }

    /// Puts back what waits and sends what is given up.
    async fn settle(&self, settlements: &Settlements<'_, '_>) {
        let waits = settlements
            .waits
            .iter()
            .flat_map(|(queue_url, waits)| {
                waits.chunks(ENTRIES_MAX).map(move |part| (queue_url, part))
            })
            .map(|(queue_url, part)| self.put_back(queue_url, part));
        let letters = chunks::by_size(&settlements.letters, |letter| letter.content.size());
        let letters = letters.into_iter().map(|part| self.give_up(part));
        let at_once = Some(CALLS_AT_ONCE);
        join(
            stream::iter(waits).for_each_concurrent(at_once, |call| call),
            stream::iter(letters).for_each_concurrent(at_once, |call| call),
        )
        .await;
    }

    async fn put_back(&self, queue_url: &str, waits: &[Wait<'_, '_>]) {
        let now = self.clock.now();
        let changes: Vec<_> = waits
            .iter()
            .map(|wait| VisibilityChange {
                receipt_handle: wait.item.receipt_handle(),
                timeout: visibility_timeout(wait.until, now),
            })
            .collect();
        let answers = self.queues.change_visibility(queue_url, &changes).await;
        for (wait, answer) in waits.iter().zip(answers) {
            match answer {
                Ok(()) => {
                    wait.item.became(Outcome::Waits);
                    log::waits(wait.item, wait.until, now);
                }
                Err(fault) => wait.item.left_to_queue("wait", &fault),
            }
        }
    }

    async fn give_up(&self, letters: &[Letter<'_, '_>]) {
        let contents: Vec<_> = letters.iter().map(|letter| &letter.content).collect();
        let answers = self.queues.send_dead_letters(&contents).await;
        for (letter, answer) in letters.iter().zip(answers) {
            match answer {
                Ok(()) => {
                    letter.item.became(Outcome::DeadLettered(letter.reason));
                    log::dead_lettered(letter.item, letter.reason);
                }
                Err(fault) => letter.item.left_to_queue("dead_letter", &fault),
            }
        }
    }
}
