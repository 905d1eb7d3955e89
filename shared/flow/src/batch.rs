//! A batch, from the event that Lambda delivers to the answer that it is given.

use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use comeback_core::{
    Timestamp,
    arn::Home,
    dead_letter::Reason,
    decision::{Decision, Reinvocation, visibility_timeout},
    fault::{FaultKind, StoreFault, Unaccepted, after_fault, after_unclaimed},
    settings::Settings,
    time::between,
};
use futures_util::{
    StreamExt,
    future::{join_all, join3, join4},
    stream,
};

use crate::{
    budget::{Budget, within},
    chunks,
    item::Item,
    log,
    once::Barred,
    ports::{Clock, ENTRIES_MAX, Functions, Invocation, Ledger, Queues, VisibilityChange},
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

/// The invocation of the handler in which a batch is handled.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Its own request id, which no other invocation has.
    pub request_id: &'a str,
    /// Where the handler lives.
    pub home: &'a Home,
    /// When Lambda kills it.
    pub deadline: Timestamp,
}

/// The retry handler.
pub struct Handler<Q, F, L, C> {
    /// How events are retried.
    pub settings: Settings,
    /// The retry queue and the dead-letter queue.
    pub queues: Q,
    /// The targets.
    pub functions: F,
    /// The claims on failures, where each is to be acted on once.
    pub ledger: Option<L>,
    /// The time.
    pub clock: C,
}

/// What is done with a message once, however often it is delivered.
enum Act<'a> {
    Invoke(&'a Reinvocation),
    GiveUp(Reason),
}

/// What is left to do for a message.
enum FollowUp {
    Nothing,
    Mark,
    Wait { until: Timestamp },
    GiveUp(Reason),
}

impl From<Unaccepted> for FollowUp {
    fn from(unaccepted: Unaccepted) -> Self {
        match unaccepted {
            Unaccepted::Wait { until } => Self::Wait { until },
            Unaccepted::DeadLetter(reason) => Self::GiveUp(reason),
        }
    }
}

impl<Q: Queues, F: Functions, L: Ledger, C: Clock> Handler<Q, F, L, C> {
    /// Handles a batch and answers before its deadline.
    ///
    /// # Errors
    ///
    /// If a record has no id, before anything is done.
    pub async fn handle(
        &self,
        event: &SqsEvent,
        context: &Context<'_>,
    ) -> Result<Report, RecordWithoutId> {
        let nameless = |id: &Option<String>| id.as_deref().is_none_or(str::is_empty);
        if event.records.iter().any(|record| nameless(&record.message_id)) {
            return Err(RecordWithoutId);
        }
        let now = self.clock.now();
        let judge = |record| Item::judge(record, context.home, &self.settings, now);
        let items: Vec<Item> = event.records.iter().enumerate().map(judge).collect();
        let budget = Budget::of(now, context.deadline);
        within(&self.clock, budget.all, self.carry_out(&items, context, budget)).await;
        items.iter().filter(|item| !item.is_reached()).for_each(log::not_reached);
        items.iter().filter(|item| item.is_unmarked()).for_each(log::unmarked);
        Ok(Report { entries: items.iter().map(Item::report).collect() })
    }

    /// Does what was decided, everything at once, so that no message waits for another's call.
    async fn carry_out(&self, items: &[Item<'_>], context: &Context<'_>, budget: Budget) {
        let (mut due, mut given_up) = (Vec::new(), Vec::new());
        let mut settlements = Settlements::default();
        for item in items {
            match &item.judgement.decision {
                Decision::Invoke(attempt) => due.push((item, Act::Invoke(attempt))),
                Decision::Wait { until } => settlements.wait(item, *until),
                Decision::DeadLetter(reason)
                    if self.ledger.is_some() && reason.concerns_failure() =>
                {
                    given_up.push((item, Act::GiveUp(*reason)));
                }
                // Together, in as few calls as can be.
                Decision::DeadLetter(reason) => settlements.give_up(item, *reason),
            }
        }
        join3(
            self.settle(&settlements),
            self.act_on_all(due, context, budget.acts),
            self.act_on_all(given_up, context, budget.acts),
        )
        .await;
    }

    /// Begins to act on one after the other for so long; what has begun by then goes on. What is left to
    /// do is done while other acts are still under way; those that ended at the same time share a call.
    async fn act_on_all(
        &self,
        acts: Vec<(&Item<'_>, Act<'_>)>,
        context: &Context<'_>,
        limit: Duration,
    ) {
        let acts =
            acts.into_iter().map(async |(item, act)| (item, self.act(item, act, context).await));
        stream::iter(acts)
            .take_until(self.clock.sleep(limit))
            .buffer_unordered(CALLS_AT_ONCE)
            .ready_chunks(ENTRIES_MAX)
            .for_each_concurrent(None, async |ended| {
                let mut settlements = Settlements::default();
                for (item, follow_up) in ended {
                    match follow_up {
                        FollowUp::Nothing => {}
                        FollowUp::Mark => settlements.mark(item),
                        FollowUp::Wait { until } => settlements.wait(item, until),
                        FollowUp::GiveUp(reason) => settlements.give_up(item, reason),
                    }
                }
                self.settle(&settlements).await;
            })
            .await;
    }

    /// Acts on a message if nobody has or does.
    async fn act(&self, item: &Item<'_>, act: Act<'_>, context: &Context<'_>) -> FollowUp {
        match (self.claim(item, context).await, act) {
            (Ok(()), Act::Invoke(attempt)) => self.invoke(item, attempt).await,
            (Ok(()), Act::GiveUp(reason)) => FollowUp::GiveUp(reason),
            (Err(Barred::Done), _) => {
                item.became(Outcome::Duplicate);
                log::duplicate(item);
                FollowUp::Nothing
            }
            (Err(Barred::Held { until }), _) => {
                log::held(item, until);
                FollowUp::Wait { until }
            }
            (Err(Barred::Unknown(fault)), act) => {
                item.met(Obstacle::Ledger);
                log::not_claimed(item, &fault);
                self.after_unclaimed(item, &act, &fault)
            }
        }
    }

    fn after_unclaimed(&self, item: &Item<'_>, act: &Act<'_>, fault: &StoreFault) -> FollowUp {
        let (schedule, reason) = match *act {
            Act::Invoke(attempt) => (Some(&attempt.schedule), Reason::MaxAgeExceeded),
            Act::GiveUp(reason) => (None, reason),
        };
        let Some(failure) = item.failure() else { return FollowUp::GiveUp(reason) };
        let (count, now) = (item.message.receive_count, self.clock.now());
        after_unclaimed(fault.passes, failure, schedule, reason, count, now).into()
    }

    /// Invokes the target, if its time is not over. Says what is left to do, be it accepted or not.
    async fn invoke(&self, item: &Item<'_>, attempt: &Reinvocation) -> FollowUp {
        let now = self.clock.now();
        // Its claim, or the calls before this one, may have taken until the age was over.
        if now > attempt.schedule.expiry {
            return FollowUp::GiveUp(Reason::MaxAgeExceeded);
        }
        let lateness = between(attempt.schedule.due, now);
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
                return FollowUp::Mark;
            }
            Err(fault) => fault,
        };
        match fault.kind {
            FaultKind::Transient { .. } => item.met(Obstacle::Throttled),
            FaultKind::Configuration => item.met(Obstacle::Configuration),
            FaultKind::Refused(_) => {}
        }
        log::not_accepted(item, &fault);
        after_fault(fault.kind, attempt, item.message.receive_count, self.clock.now()).into()
    }

    /// Puts back what waits, sends what is given up, and says of each claim what has become of it.
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
        let marks = settlements.marks.iter().map(|item| self.mark(item));
        let releases = settlements.releases.iter().map(|item| self.release(item));
        let at_once = Some(CALLS_AT_ONCE);
        join4(
            stream::iter(waits).for_each_concurrent(at_once, |call| call),
            stream::iter(letters).for_each_concurrent(at_once, |call| call),
            stream::iter(marks).for_each_concurrent(at_once, |call| call),
            stream::iter(releases).for_each_concurrent(at_once, |call| call),
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
        let claims = letters.iter().zip(answers).map(async |(letter, answer)| match answer {
            Ok(()) => {
                letter.item.became(Outcome::DeadLettered(letter.reason));
                log::dead_lettered(letter.item, letter.reason);
                self.mark(letter.item).await;
            }
            Err(fault) => {
                let queue_url = &self.settings.dead_letter_queue_url;
                letter.item.became(Outcome::DeadLetterNotSent);
                log::dead_letter_not_sent(letter.item, letter.reason, queue_url, &fault);
                self.release(letter.item).await;
            }
        });
        join_all(claims).await;
    }
}
