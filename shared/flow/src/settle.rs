//! Makes the remaining calls for messages: puts them back, sends them again as delays, sends them back to the queues
//! whose consumers failed, gives them up, and marks their claims.

use std::{borrow::Cow, collections::BTreeMap};

use comeback_core::{
    arn::queue_url, decision::visibility_timeout, in_flight::delay_seconds, settings::Settings,
    time::between,
};
use futures_util::{
    StreamExt,
    future::{join, join_all, join4},
    stream,
};

use crate::{
    answers::Answered,
    claims, faults,
    in_flight::Gauges,
    item::Item,
    log,
    message::Source,
    ports::{CallFault, Clock, ENTRIES_MAX, Ledger, Queues, Resent, VisibilityChange},
    register,
    report::Outcome,
    run::Run,
    sends::{CALLS_AT_ONCE, by_size},
    settlements::{Letter, Return, Settlements, Wait},
};

/// Settles the messages of a batch.
pub(crate) struct Settler<'h, Q, L, C> {
    pub(crate) settings: &'h Settings,
    pub(crate) queues: &'h Q,
    pub(crate) gauges: &'h Gauges,
    pub(crate) run: &'h Run<'h, L, C>,
}

impl<Q: Queues, L: Ledger, C: Clock> Settler<'_, Q, L, C> {
    pub(crate) async fn settle(&self, settlements: Settlements<'_>) {
        let Settlements { waits, letters, returns, done } = settlements;
        let waits = waits.into_iter().map(|(source, waits)| {
            let queue_url = source.and_then(Source::url);
            self.keep(queue_url, waits)
        });
        let letters = by_size(&letters, |letter| letter.content.size());
        let letters = letters.into_iter().map(|part| self.give_up(part));
        let marks = done.iter().map(|act| claims::mark(act, self.run));
        let at_once = Some(CALLS_AT_ONCE);
        join4(
            stream::iter(waits).for_each_concurrent(at_once, |call| call),
            stream::iter(letters).for_each_concurrent(at_once, |call| call),
            stream::iter(marks).for_each_concurrent(at_once, |call| call),
            self.send_back(&returns),
        )
        .await;
    }

    /// Keeps the waits of one queue in flight, or as delays if too many messages are in flight.
    async fn keep(&self, queue_url: Option<Cow<'_, str>>, waits: Vec<Wait<'_>>) {
        let queue_url = queue_url.as_deref();
        let Some(url) = queue_url else { return self.put_all_back(None, &waits).await };
        let max = self.settings.in_flight_max;
        let asked_at = self.run.clock.now();
        let (delayed, stay) = self.gauges.divide(waits, self.queues, url, max, asked_at).await;
        // Asking takes time, and a delay begins after it.
        let now = self.run.clock.now();
        join(self.put_all_back(queue_url, &stay), async {
            let delayed: Vec<_> = delayed
                .into_iter()
                .filter_map(|wait| {
                    let item = wait.act.item();
                    let delay = delay_seconds(&item.failure()?.request_id, wait.until, now);
                    Some((wait, item.resent(delay)?))
                })
                .collect();
            let parts = by_size(&delayed, |(_, message)| message.size());
            let parts = parts.into_iter().map(|part| self.delay(url, part));
            stream::iter(parts).for_each_concurrent(CALLS_AT_ONCE, |call| call).await;
        })
        .await;
    }

    /// Sends messages again as delays. A message that can't be sent is put back.
    async fn delay(&self, queue_url: &str, delayed: &[(Wait<'_>, Resent<'_>)]) {
        let messages: Vec<_> = delayed.iter().map(|(_, message)| message).collect();
        let now = self.run.clock.now();
        let answers = self.queues.send_again(queue_url, &messages).await;
        let (mut sent, mut refused) = (Vec::new(), Vec::new());
        for ((wait, _), answer) in Answered::of(delayed, answers).pairs() {
            let item = wait.act.item();
            match answer {
                Ok(()) => {
                    let delay = between(now, wait.until);
                    self.run.results.end(item, Outcome::Delayed { delay });
                    sent.push(wait.clone());
                }
                Err(fault) => {
                    log::not_sent_again(item, &fault);
                    refused.push(wait.clone());
                }
            }
        }
        join(
            self.put_all_back(Some(queue_url), &refused),
            register::enter_all(&sent, false, self.run),
        )
        .await;
    }

    async fn put_all_back(&self, queue_url: Option<&str>, waits: &[Wait<'_>]) {
        let parts = waits.chunks(ENTRIES_MAX).map(|part| self.put_back(queue_url, part));
        stream::iter(parts).for_each_concurrent(CALLS_AT_ONCE, |call| call).await;
    }

    async fn put_back(&self, queue_url: Option<&str>, waits: &[Wait<'_>]) {
        let now = self.run.clock.now();
        let changes: Vec<_> = waits
            .iter()
            .map(|wait| VisibilityChange {
                receipt_handle: wait.act.item().receipt_handle(),
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
                let outcome = match answer {
                    Ok(()) => Outcome::Waits { delay: between(now, wait.until) },
                    Err(fault) => Outcome::LeftToQueue(fault),
                };
                self.run.results.end(wait.act.item(), outcome);
            }
        };
        let ((), ordered) = join(put_back, register::enter_all(waits, true, self.run)).await;
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

    async fn give_up(&self, letters: &[Letter<'_>]) {
        let contents: Vec<_> = letters.iter().map(|letter| &letter.content).collect();
        let answers = self.queues.send_dead_letters(&contents).await;
        let answered = Answered::of(letters, answers);
        if answered.are_refused_together() {
            let alone = letters.chunks(1).map(|one| self.give_up(one));
            let alone = stream::iter(alone).for_each_concurrent(CALLS_AT_ONCE, |call| call);
            return Box::pin(alone).await;
        }
        let settled = answered.pairs().map(async |(letter, answer)| {
            let &Letter { ref act, reason, .. } = letter;
            match answer {
                Ok(()) => {
                    act.end(Outcome::DeadLettered(reason), self.run);
                    claims::mark(act, self.run).await;
                }
                Err(fault) => {
                    let queue_url = self.settings.dead_letter_queue_url.clone();
                    let fault = CallFault(fault.to_string());
                    let outcome = Outcome::DeadLetterNotSent { reason, queue_url, fault };
                    self.run.results.end(act.item(), outcome);
                    claims::release(act.item(), act.held.as_ref(), self.run).await;
                }
            }
        });
        join_all(settled).await;
    }

    /// Sends messages back to the queues whose consumers failed.
    async fn send_back(&self, returns: &[Return<'_>]) {
        let mut queues: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for back in returns {
            let failure = back.act.item().failure();
            let queue_url = failure.and_then(|failure| queue_url(failure.target.as_str()));
            queues.entry(queue_url).or_default().push(back);
        }
        let calls = queues.iter().flat_map(|(queue_url, returns)| {
            let parts = by_size(returns, |back| back.message.size()).into_iter();
            parts.map(|part| self.send_part_back(queue_url.as_deref().unwrap_or_default(), part))
        });
        stream::iter(calls).for_each_concurrent(CALLS_AT_ONCE, |call| call).await;
    }

    /// Sends messages back to a queue. Those that are not accepted are settled once more.
    async fn send_part_back(&self, queue_url: &str, returns: &[&Return<'_>]) {
        let messages: Vec<_> = returns.iter().map(|back| &back.message).collect();
        let now = self.run.clock.now();
        let answers = self.queues.send_again(queue_url, &messages).await;
        let answered = Answered::of(returns, answers);
        if answered.are_refused_together() {
            let alone = returns.chunks(1).map(|one| self.send_part_back(queue_url, one));
            let alone = stream::iter(alone).for_each_concurrent(CALLS_AT_ONCE, |call| call);
            return Box::pin(alone).await;
        }
        let mut settlements = Settlements::default();
        for (back, answer) in answered.pairs() {
            let (act, item) = (back.act.clone(), back.act.item());
            match answer {
                Ok(()) => {
                    let due = item.judgement.schedule.map_or(now, |schedule| schedule.due);
                    let lateness = between(due, now);
                    act.end(Outcome::Invoked { lateness, run: None }, self.run);
                    settlements.done.push(act);
                }
                Err(fault) => {
                    let (settlement, obstacle) = faults::not_accepted(item, &fault, self.run);
                    settlements.add(act.hindered(obstacle, self.run), settlement);
                }
            }
        }
        Box::pin(self.settle(settlements)).await;
    }
}
