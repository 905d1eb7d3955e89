//! Handles a batch, from the event that Lambda delivers to the report of its outcomes.

use std::{borrow::Cow, collections::BTreeMap};

use aws_lambda_events::event::sqs::SqsEvent;
use comeback_core::{
    Timestamp,
    arn::{Home, is_url_of, queue_url},
    decision::{Decision, Settlement, visibility_timeout},
    fault::{FaultKind, InvokeFault},
    in_flight::delay_seconds,
    log_line::decision,
    reason::Reason,
    settings::Settings,
    time::between,
};
use futures_util::{
    StreamExt,
    future::{join, join_all, join3},
    stream,
};

use crate::{
    Run,
    answers::Answered,
    budget::{Budget, within},
    claims::NotClaimed,
    in_flight::Gauges,
    item::Item,
    log,
    memory::CircuitMemory,
    message::Source,
    outages::{LEDGER, Outages},
    ports::{
        CallFault, Clock, ENTRIES_MAX, Functions, Invocation, Ledger, Queues, Resent,
        VisibilityChange,
    },
    register,
    report::{Obstacle, Outcome, Report},
    sends::by_size,
    settlements::{Letter, Settlements, Wait},
};

/// How many calls of each kind run at the same time. A batch has ten messages by default, and a function of 128 MB
/// has CPU for no more.
const CALLS_AT_ONCE: usize = 10;

/// Why a batch is refused. Nothing was done, and the whole batch comes back.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BatchRefused {
    /// A record has no message id, so it could not be reported as failed.
    #[error("expected every record to have a messageId, got one without")]
    RecordWithoutId,
    /// Dead letters would go to the queue that the batch came from, and come back for ever.
    #[error(
        "expected DEAD_LETTER_QUEUE_URL to be another queue than the retry queue, got {0}, which sent this batch"
    )]
    OwnDeadLetterQueue(String),
}

/// The remaining work for a message that was acted on.
enum Next<'a> {
    /// Nothing but the mark of its claim.
    Done,
    /// Nothing: it is left to the queue.
    Left,
    Settle(Settlement),
    /// A queue's consumer failed: send this to the queue.
    SendBack(Resent<'a>),
}

#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Its request id, which is unique.
    pub request_id: &'a str,
    /// The handler's own account and region.
    pub home: &'a Home,
    /// When Lambda kills it.
    pub deadline: Timestamp,
}

pub struct Handler<Q, F, L, C> {
    pub settings: Settings,
    /// The retry queues, the dead-letter queue, and the queues whose consumers failed.
    pub queues: Q,
    pub functions: F,
    /// The ledger, if there is one, so that each failure is acted on once.
    pub ledger: Option<L>,
    pub clock: C,
    pub gauges: Gauges,
    /// What it remembers about the circuits of its targets between batches.
    pub memory: CircuitMemory,
    /// What it remembers about faults between batches.
    pub outages: Outages,
}

impl<Q, F, L, C> Handler<Q, F, L, C>
where
    Q: Queues,
    F: Functions,
    L: Ledger,
    C: Clock,
{
    pub async fn handle(
        &self,
        event: &SqsEvent,
        context: &Context<'_>,
    ) -> Result<Report, BatchRefused> {
        let has_no_id = |id: &Option<String>| id.as_deref().is_none_or(str::is_empty);
        if event.records.iter().any(|record| has_no_id(&record.message_id)) {
            return Err(BatchRefused::RecordWithoutId);
        }
        let dead_letters = &self.settings.dead_letter_queue_url;
        let mut sources = event.records.iter().filter_map(|it| it.event_source_arn.as_deref());
        if sources.any(|source| is_url_of(dead_letters, source)) {
            return Err(BatchRefused::OwnDeadLetterQueue(dead_letters.clone()));
        }
        let now = self.clock.now();
        let judge = |record| Item::judge(record, context.home, &self.settings, now);
        let items: Vec<Item> = event.records.iter().enumerate().map(judge).collect();
        self.gauges.begin(&items);
        let budget = Budget::of(now, context.deadline);
        let run = Run {
            id: context.request_id,
            deadline: context.deadline,
            acts_until: budget.acts,
            clock: &self.clock,
            ledger: self.ledger.as_ref(),
            outages: &self.outages,
            registers: self.settings.register,
        };
        let work = async {
            let probed = self.probed(&items);
            let notes = register::look(&items, &probed, &run).await;
            if let Some(notes) = &notes {
                register::steer(&items, notes, &run);
            }
            let mut steps = self.take_steps(&items, &probed, notes, &run).await;
            let carry_out = self.carry_out(&items, &run);
            join(carry_out, self.follow_up(&mut steps, &run)).await;
            self.conclude(steps, &run).await
        };
        // Without a box, the future is nested too deeply for rustc.
        let targets = within(&self.clock, budget.all, Box::pin(work)).await.unwrap_or_default();
        let not_reached = items.iter().filter(|item| !item.has_ended());
        not_reached.for_each(|item| log::end(item, Outcome::NotReached));
        items.iter().filter(|item| item.is_unmarked()).for_each(log::unmarked);
        Ok(Report { entries: items.into_iter().map(Item::into_entry).collect(), targets })
    }

    /// Carries out all decisions concurrently, so that no message waits for another's call.
    async fn carry_out(&self, items: &[Item<'_>], run: &Run<'_, L, C>) {
        let (mut due, mut given_up) = (Vec::new(), Vec::new());
        let mut settlements = Settlements::default();
        for item in items.iter().filter(|item| !item.has_ended()) {
            match item.decision() {
                Decision::Invoke => due.push(item),
                Decision::Settle(Settlement::DeadLetter(_))
                    if run.ledger.is_some() && item.accepted().is_some() =>
                {
                    given_up.push(item);
                }
                Decision::Settle(Settlement::DeadLetter(_)) if run.is_late() => {}
                // These need no claim, and go out together.
                Decision::Settle(settlement) => settlements.add(item, settlement),
            }
        }
        join3(
            self.settle(settlements, run),
            self.act_on_all(due, run),
            self.act_on_all(given_up, run),
        )
        .await;
    }

    /// Acts on up to [`CALLS_AT_ONCE`] items at a time. When it is late it begins no more; those in progress go on.
    /// Items are settled while others are in progress, and those that finish at the same time share their calls.
    async fn act_on_all(&self, items: Vec<&Item<'_>>, run: &Run<'_, L, C>) {
        let acts = items.into_iter().map(async |item| (item, self.act(item, run).await));
        stream::iter(acts)
            .buffer_unordered(CALLS_AT_ONCE)
            .ready_chunks(ENTRIES_MAX)
            .for_each_concurrent(None, async |ended| {
                let (mut settlements, mut sends) = (Settlements::default(), Vec::new());
                for (item, next) in ended {
                    match next {
                        Next::Done => settlements.done.push(item),
                        Next::Left => {}
                        Next::Settle(settlement) => settlements.add(item, settlement),
                        Next::SendBack(message) => sends.push((item, message)),
                    }
                }
                join(self.settle(settlements, run), self.send_back(sends, run)).await;
            })
            .await;
    }

    /// Acts on an item, unless it is late, or another invocation acts or has acted on its failure.
    async fn act<'a>(&self, item: &'a Item<'_>, run: &Run<'_, L, C>) -> Next<'a> {
        if run.is_late() {
            return Next::Left;
        }
        match run.claim(item).await {
            // The claim took too long. Whoever receives the message next may act on it.
            Ok(()) if run.is_late() => {
                run.release(item).await;
                Next::Left
            }
            Ok(()) => match item.decision() {
                Decision::Invoke => self.retry(item).await,
                Decision::Settle(settlement) => Next::Settle(settlement),
            },
            Err(NotClaimed::Done) => {
                log::end(item, Outcome::Duplicate);
                Next::Done
            }
            Err(NotClaimed::Held { until }) => {
                log::held(item, until);
                Next::Settle(item.judgement.after_held(until, self.clock.now()))
            }
            Err(NotClaimed::Unknown(fault)) => {
                item.note_obstacle(Obstacle::Ledger);
                log::not_written(item, decision::CLAIM, &fault);
                let now = self.clock.now();
                let since = self.outages.met(LEDGER, now);
                Next::Settle(item.judgement.after_unclaimed(fault.passes, since, now))
            }
        }
    }

    /// Retries an event, unless it has become too old by now. A function is invoked at once. A queue's message goes out
    /// with others.
    async fn retry<'a>(&self, item: &'a Item<'_>) -> Next<'a> {
        // The claim and the calls before this one take time.
        let expiry = item.judgement.schedule.map(|schedule| schedule.expiry);
        if expiry.is_some_and(|expiry| self.clock.now() > expiry) {
            return Next::Settle(Settlement::DeadLetter(Reason::MaxAgeExceeded));
        }
        match item.sent_back() {
            Some(message) => Next::SendBack(message),
            None => self.invoke(item).await.map_or(Next::Done, Next::Settle),
        }
    }

    /// Invokes the target. Returns how to settle the message if Lambda has not accepted the invocation.
    async fn invoke(&self, item: &Item<'_>) -> Option<Settlement> {
        let judgement = &item.judgement;
        let (Some(failure), Some(schedule), Some(envelope)) =
            (item.failure(), judgement.schedule, judgement.envelope())
        else {
            return None;
        };
        let lateness = between(schedule.due, self.clock.now());
        let policy = self.settings.rules.policies.of(failure.target.name());
        let tenant = policy.tenant(&envelope.payload);
        let invocation = |tenant_id| Invocation {
            function: failure.target.as_str(),
            payload: envelope.to_json(),
            tenant_id,
            execution_name: policy
                .durable
                .then(|| envelope.metadata.execution_name(&failure.request_id)),
            trace_header: item.trace_header(),
        };
        let tenant_id = tenant.as_ref().ok().cloned().flatten();
        let has_tenant = tenant_id.is_some();
        let mut answer = self.functions.invoke(invocation(tenant_id)).await;
        // TENANT_ID may be set for all functions. Lambda refuses what it is not for, before anything runs.
        if has_tenant && answer.as_ref().is_err_and(InvokeFault::is_about_tenant) {
            answer = self.functions.invoke(invocation(None)).await;
        }
        match answer {
            Ok(()) => {
                log::end(item, Outcome::Invoked { lateness });
                None
            }
            Err(fault) => {
                // The payload lacks what Lambda demands.
                let lacking = tenant.err().filter(|_| fault.is_about_tenant());
                Some(self.not_accepted(item, &lacking.unwrap_or(fault)))
            }
        }
    }

    async fn send_back(&self, sends: Vec<(&Item<'_>, Resent<'_>)>, run: &Run<'_, L, C>) {
        let mut queues: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (item, message) in sends {
            let queue_url = item.failure().and_then(|failure| queue_url(failure.target.as_str()));
            queues.entry(queue_url).or_default().push((item, message));
        }
        let calls = queues.iter().flat_map(|(queue_url, sends)| {
            let parts = by_size(sends, |(_, message)| message.size()).into_iter();
            parts.map(|part| {
                self.send_part_back(queue_url.as_deref().unwrap_or_default(), part, run)
            })
        });
        stream::iter(calls).for_each_concurrent(CALLS_AT_ONCE, |call| call).await;
    }

    async fn send_part_back(
        &self,
        queue_url: &str,
        sends: &[(&Item<'_>, Resent<'_>)],
        run: &Run<'_, L, C>,
    ) {
        let messages: Vec<_> = sends.iter().map(|(_, message)| message).collect();
        let now = self.clock.now();
        let answers = self.queues.send_again(queue_url, &messages).await;
        let answered = Answered::of(sends, answers);
        if answered.are_refused_together() {
            let alone = sends.chunks(1).map(|one| self.send_part_back(queue_url, one, run));
            let alone = stream::iter(alone).for_each_concurrent(CALLS_AT_ONCE, |call| call);
            return Box::pin(alone).await;
        }
        let mut settlements = Settlements::default();
        for (&(item, _), answer) in answered.pairs() {
            match answer {
                Ok(()) => {
                    let due = item.judgement.schedule.map_or(now, |schedule| schedule.due);
                    log::end(item, Outcome::Invoked { lateness: between(due, now) });
                    settlements.done.push(item);
                }
                Err(fault) => settlements.add(item, self.not_accepted(item, &fault)),
            }
        }
        self.settle(settlements, run).await;
    }

    fn not_accepted(&self, item: &Item<'_>, fault: &InvokeFault) -> Settlement {
        let now = self.clock.now();
        let obstacle = match fault.kind {
            FaultKind::Transient { .. } => Some(Obstacle::Throttled),
            FaultKind::Configuration => Some(Obstacle::Configuration),
            FaultKind::Refused(_) => None,
        };
        let since = match (obstacle, item.failure()) {
            (Some(obstacle), Some(failure)) => {
                item.note_obstacle(obstacle);
                self.outages.met(failure.target.as_str(), now)
            }
            _ => now,
        };
        log::not_accepted(item, fault);
        item.judgement.after_fault(fault.kind, since, now)
    }

    async fn settle(&self, settlements: Settlements<'_, '_>, run: &Run<'_, L, C>) {
        let Settlements { waits, letters, done } = settlements;
        let waits = waits.into_iter().map(|(source, waits)| {
            let queue_url = source.and_then(Source::url);
            self.keep(queue_url, waits, run)
        });
        let letters = by_size(&letters, |letter| letter.content.size());
        let letters = letters.into_iter().map(|part| self.give_up(part, run));
        let marks = done.into_iter().map(|item| run.mark(item));
        let at_once = Some(CALLS_AT_ONCE);
        join3(
            stream::iter(waits).for_each_concurrent(at_once, |call| call),
            stream::iter(letters).for_each_concurrent(at_once, |call| call),
            stream::iter(marks).for_each_concurrent(at_once, |call| call),
        )
        .await;
    }

    /// Keeps the waits of one queue in flight, or as delays if too many messages are in flight.
    async fn keep(
        &self,
        queue_url: Option<Cow<'_, str>>,
        waits: Vec<Wait<'_, '_>>,
        run: &Run<'_, L, C>,
    ) {
        let queue_url = queue_url.as_deref();
        let Some(url) = queue_url else { return self.put_all_back(None, &waits, run).await };
        let max = self.settings.in_flight_max;
        let asked_at = self.clock.now();
        let (delayed, stay) = self.gauges.divide(waits, &self.queues, url, max, asked_at).await;
        // Asking takes time, and a delay begins after it.
        let now = self.clock.now();
        join(self.put_all_back(queue_url, &stay, run), async {
            let delayed: Vec<_> = delayed
                .into_iter()
                .filter_map(|wait| {
                    let Wait { item, until } = wait;
                    let delay = delay_seconds(&item.failure()?.request_id, until, now);
                    Some((wait, item.resent(delay)?))
                })
                .collect();
            let parts = by_size(&delayed, |(_, message)| message.size());
            let parts = parts.into_iter().map(|part| self.delay(url, part, run));
            stream::iter(parts).for_each_concurrent(CALLS_AT_ONCE, |call| call).await;
        })
        .await;
    }

    /// Sends messages again as delays. A message that can't be sent is put back.
    async fn delay(
        &self,
        queue_url: &str,
        delayed: &[(Wait<'_, '_>, Resent<'_>)],
        run: &Run<'_, L, C>,
    ) {
        let messages: Vec<_> = delayed.iter().map(|(_, message)| message).collect();
        let now = self.clock.now();
        let answers = self.queues.send_again(queue_url, &messages).await;
        let (mut sent, mut refused) = (Vec::new(), Vec::new());
        for ((wait, _), answer) in Answered::of(delayed, answers).pairs() {
            match answer {
                Ok(()) => {
                    log::end(wait.item, Outcome::Delayed { delay: between(now, wait.until) });
                    sent.push(*wait);
                }
                Err(fault) => {
                    log::not_sent_again(wait.item, &fault);
                    refused.push(*wait);
                }
            }
        }
        join(
            self.put_all_back(Some(queue_url), &refused, run),
            register::enter_all(&sent, false, run),
        )
        .await;
    }

    async fn put_all_back(
        &self,
        queue_url: Option<&str>,
        waits: &[Wait<'_, '_>],
        run: &Run<'_, L, C>,
    ) {
        let parts = waits.chunks(ENTRIES_MAX).map(|part| self.put_back(queue_url, part, run));
        stream::iter(parts).for_each_concurrent(CALLS_AT_ONCE, |call| call).await;
    }

    async fn put_back(&self, queue_url: Option<&str>, waits: &[Wait<'_, '_>], run: &Run<'_, L, C>) {
        let now = self.clock.now();
        let changes: Vec<_> = waits
            .iter()
            .map(|wait| VisibilityChange {
                receipt_handle: wait.item.receipt_handle(),
                timeout: visibility_timeout(wait.until, now),
            })
            .collect();
        let put_back = async {
            let answers = match queue_url {
                Some(queue_url) => self.queues.change_visibility(queue_url, &changes).await,
                None => {
                    let unknown = "its eventSourceARN names no queue: set RETRY_QUEUE_URL";
                    vec![Err(CallFault(unknown.to_owned())); waits.len()]
                }
            };
            for (wait, answer) in Answered::of(waits, answers).pairs() {
                log::end(
                    wait.item,
                    match answer {
                        Ok(()) => Outcome::Waits { delay: between(now, wait.until) },
                        Err(fault) => Outcome::LeftToQueue(fault),
                    },
                );
            }
        };
        let ((), ordered) = join(put_back, register::enter_all(waits, true, run)).await;
        self.bring_back(queue_url, &ordered).await;
    }

    /// Brings messages back at once, because an operator has given orders for their events. If the call fails, they
    /// come back when they are due.
    async fn bring_back(&self, queue_url: Option<&str>, items: &[&Item<'_>]) {
        let changes: Vec<_> = items
            .iter()
            .map(|item| VisibilityChange { receipt_handle: item.receipt_handle(), timeout: 0 })
            .collect();
        if let Some(queue_url) = queue_url.filter(|_| !changes.is_empty()) {
            self.queues.change_visibility(queue_url, &changes).await;
        }
    }

    async fn give_up(&self, letters: &[Letter<'_, '_>], run: &Run<'_, L, C>) {
        let contents: Vec<_> = letters.iter().map(|letter| &letter.content).collect();
        let answers = self.queues.send_dead_letters(&contents).await;
        let answered = Answered::of(letters, answers);
        if answered.are_refused_together() {
            let alone = letters.chunks(1).map(|one| self.give_up(one, run));
            let alone = stream::iter(alone).for_each_concurrent(CALLS_AT_ONCE, |call| call);
            return Box::pin(alone).await;
        }
        let settled = answered.pairs().map(async |(letter, answer)| {
            let &Letter { item, reason, .. } = letter;
            match answer {
                Ok(()) => {
                    log::end(item, Outcome::DeadLettered(reason));
                    run.mark(item).await;
                }
                Err(fault) => {
                    let queue_url = self.settings.dead_letter_queue_url.clone();
                    let fault = CallFault(fault.to_string());
                    log::end(item, Outcome::DeadLetterNotSent { reason, queue_url, fault });
                    run.release(item).await;
                }
            }
        });
        join_all(settled).await;
    }
}
