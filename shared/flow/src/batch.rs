//! Handles a batch, from the event that Lambda delivers to the report of its outcomes.

use std::collections::BTreeMap;

use aws_lambda_events::event::sqs::SqsEvent;
use comeback_core::{
    Timestamp,
    arn::{Home, is_url_of, queue_url},
    decision::{Decision, Settlement},
    fault::{FaultKind, InvokeFault},
    log_line::decision,
    reason::Reason,
    settings::Settings,
    time::between,
};
use futures_util::{
    StreamExt,
    future::{join, join3},
    stream,
};

use crate::{
    answers::Answered,
    budget::{Budget, within},
    claims::{self, NotClaimed},
    fetch::{self, Fetched},
    held::Progress,
    in_flight::Gauges,
    item::Item,
    log,
    memory::CircuitMemory,
    outages::{LEDGER, Outages},
    ports::{Clock, ENTRIES_MAX, Functions, Invocation, Ledger, Queues, Records, Resent},
    probes,
    recall::{self, Recalled},
    register::{self, Steered},
    report::{Obstacle, Outcome, Report, TargetReport},
    run::Run,
    sends::{CALLS_AT_ONCE, by_size},
    settle::Settler,
    settlements::Settlements,
    split,
    task::Task,
};

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

pub struct Handler<Q, F, L, R, C> {
    pub settings: Settings,
    /// The retry queues, the dead-letter queue, and the queues whose consumers failed.
    pub queues: Q,
    pub functions: F,
    /// The ledger, if there is one, so that each failure is acted on once.
    pub ledger: Option<L>,
    /// The buckets with failure records, if there are any.
    pub records: Option<R>,
    pub clock: C,
    pub gauges: Gauges,
    /// What it remembers about the circuits of its targets between batches.
    pub memory: CircuitMemory,
    /// What it remembers about faults between batches.
    pub outages: Outages,
}

impl<Q, F, L, R, C> Handler<Q, F, L, R, C>
where
    Q: Queues,
    F: Functions,
    L: Ledger,
    R: Records,
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
            circuits: self.settings.probe.then_some(&self.memory),
        };
        let (settings, records) = (&self.settings, self.records.as_ref());
        let (several, items) = items.into_iter().partition(|it| !it.judgement.notices().is_empty());
        let (split, Fetched { items, unread }) = join(
            split::split(several, &self.queues, settings, budget.reads, &run),
            fetch::fetch(items, records, settings, context.home, budget.reads, &run),
        )
        .await;
        let Recalled { items, unknown } =
            recall::recall(items, &settings.rules, budget.recall, &run).await;
        let aside: Vec<_> = split.into_iter().chain(unread).chain(unknown).collect();
        // Without a box, the future is nested too deeply for rustc.
        let work = Box::pin(join(self.work(&items, &run), self.put_back(&aside, &run)));
        let worked = within(&self.clock, budget.all, work).await;
        let targets = worked.map(|(targets, ())| targets).unwrap_or_default();
        let mut items: Vec<_> = items.into_iter().chain(aside).collect();
        items.sort_unstable_by_key(|item| item.nth);
        let not_reached = items.iter().filter(|item| !item.has_ended());
        not_reached.for_each(|item| log::end(item, Outcome::NotReached));
        items.iter().filter(|item| item.is_unmarked()).for_each(log::unmarked);
        Ok(Report { entries: items.into_iter().map(Item::into_entry).collect(), targets })
    }

    /// Settles the messages that no later phase concerns: those that were not split, whose records were not read, or of
    /// which it is unknown which attempt has failed.
    async fn put_back(&self, aside: &[Item<'_>], run: &Run<'_, L, C>) {
        let unsettled = aside.iter().filter(|item| !item.has_ended());
        let tasks: Vec<_> = unsettled.map(|item| Task::of(item, None)).collect();
        let mut settlements = Settlements::default();
        for task in &tasks {
            if let Decision::Settle(settlement) = task.decision() {
                settlements.add(task, settlement);
            }
        }
        self.settle(settlements, run).await;
    }

    /// Makes the calls for the messages of a batch. Without a ledger, the tasks are what the messages alone say, and
    /// `carry_out` is all that happens. Returns what to report about targets.
    async fn work(&self, items: &[Item<'_>], run: &Run<'_, L, C>) -> Vec<TargetReport> {
        // Look and steer: what the ledger's table has may change what is to be done.
        let probed = probes::probed(items, run);
        let looked = register::look(items, &probed, run).await;
        let Steered { tasks, duplicates } = register::steer(items, &looked, run);
        duplicates.into_iter().for_each(|item| log::end(item, Outcome::Duplicate));
        let (tasks, steps) = probes::take_steps(items, tasks, &probed, looked.notes(), run).await;
        // Carry out and follow up.
        let carry_out = self.carry_out(&tasks, run);
        let follow_up = probes::follow_up(steps, &self.queues, &self.functions, run);
        let ((), followed_up) = join(carry_out, follow_up).await;
        probes::conclude(followed_up, run).await
    }

    /// Carries out all decisions concurrently, so that no message waits for another's call.
    async fn carry_out<'a>(&self, tasks: &'a [Task<'a>], run: &Run<'_, L, C>) {
        let (mut due, mut given_up) = (Vec::new(), Vec::new());
        let mut settlements = Settlements::default();
        for task in tasks {
            task.item.note_obstacle(task.obstacle);
            match task.decision() {
                Decision::Invoke => due.push(task),
                Decision::Settle(Settlement::DeadLetter(_))
                    if run.ledger.is_some() && task.item.accepted().is_some() =>
                {
                    given_up.push(task);
                }
                Decision::Settle(Settlement::DeadLetter(_)) if run.is_late() => {}
                // These need no claim, and go out together.
                Decision::Settle(settlement) => settlements.add(task, settlement),
            }
        }
        join3(
            self.settle(settlements, run),
            self.act_on_all(due, run),
            self.act_on_all(given_up, run),
        )
        .await;
    }

    /// Acts on up to [`CALLS_AT_ONCE`] messages at a time. When it is late it begins no more; those in progress go on.
    /// Messages are settled while others are in progress, and those that finish at the same time share their calls.
    async fn act_on_all<'a>(&self, tasks: Vec<&'a Task<'a>>, run: &Run<'_, L, C>) {
        let acts = tasks.into_iter().map(async |task| (task, self.act(task, run).await));
        stream::iter(acts)
            .buffer_unordered(CALLS_AT_ONCE)
            .ready_chunks(ENTRIES_MAX)
            .for_each_concurrent(None, async |ended| {
                let (mut settlements, mut sends) = (Settlements::default(), Vec::new());
                for (task, next) in ended {
                    match next {
                        Next::Done => settlements.done.push(task.item),
                        Next::Left => {}
                        Next::Settle(settlement) => settlements.add(task, settlement),
                        Next::SendBack(message) => sends.push((task, message)),
                    }
                }
                join(self.settle(settlements, run), self.send_back(sends, run)).await;
            })
            .await;
    }

    /// Acts on a message, unless it is late, or another invocation acts or has acted on its failure.
    async fn act<'a>(&self, task: &'a Task<'a>, run: &Run<'_, L, C>) -> Next<'a> {
        let item = task.item;
        if run.is_late() {
            return Next::Left;
        }
        match claims::claim(task, run).await {
            // The claim took too long. Whoever receives the message next may act on it.
            Ok(()) if run.is_late() => {
                claims::release(item, run).await;
                Next::Left
            }
            Ok(()) => match task.decision() {
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
                item.note_obstacle(Some(Obstacle::Ledger));
                log::not_written(item, decision::CLAIM, &fault);
                let now = self.clock.now();
                let since = self.outages.met(LEDGER, now);
                Next::Settle(item.judgement.after_unclaimed(fault.passes, since, now))
            }
        }
    }

    /// Retries an event, unless it has become too old by now. A function is invoked at once. A queue's message goes out
    /// with others.
    async fn retry<'a>(&self, item: &'a Item<'a>) -> Next<'a> {
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
            payload: match policy.transparent {
                true => envelope.payload.get().to_owned(),
                false => envelope.to_json(),
            },
            tenant_id,
            execution_name: policy
                .durable
                .then(|| envelope.metadata.execution_name(&item.key().run)),
            trace_header: item.trace_header(),
        };
        let tenant_id = tenant.as_ref().ok().cloned().flatten();
        let has_tenant = tenant_id.is_some();
        let mut invoked = self.functions.invoke(invocation(tenant_id)).await;
        // TENANT_ID may be set for all functions. Lambda refuses what it is not for, before anything runs.
        if has_tenant && invoked.answer.as_ref().is_err_and(InvokeFault::is_about_tenant) {
            invoked = self.functions.invoke(invocation(None)).await;
        }
        item.note_progress(Progress::of(&invoked));
        match invoked.answer {
            Ok(run) => {
                log::end(item, Outcome::Invoked { lateness, run });
                None
            }
            Err(fault) => {
                // The payload lacks what Lambda demands.
                let lacking = tenant.err().filter(|_| fault.is_about_tenant());
                Some(self.not_accepted(item, &lacking.unwrap_or(fault)))
            }
        }
    }

    async fn send_back<'a>(&self, sends: Vec<(&'a Task<'a>, Resent<'a>)>, run: &Run<'_, L, C>) {
        let mut queues: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (task, message) in sends {
            let failure = task.item.failure();
            let queue_url = failure.and_then(|failure| queue_url(failure.target.as_str()));
            queues.entry(queue_url).or_default().push((task, message));
        }
        let calls = queues.iter().flat_map(|(queue_url, sends)| {
            let parts = by_size(sends, |(_, message)| message.size()).into_iter();
            parts.map(|part| {
                self.send_part_back(queue_url.as_deref().unwrap_or_default(), part, run)
            })
        });
        stream::iter(calls).for_each_concurrent(CALLS_AT_ONCE, |call| call).await;
    }

    async fn send_part_back<'a>(
        &self,
        queue_url: &str,
        sends: &[(&'a Task<'a>, Resent<'a>)],
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
        for (&(task, _), answer) in answered.pairs() {
            let item = task.item;
            match answer {
                Ok(()) => {
                    let due = item.judgement.schedule.map_or(now, |schedule| schedule.due);
                    let lateness = between(due, now);
                    log::end(item, Outcome::Invoked { lateness, run: None });
                    settlements.done.push(item);
                }
                Err(fault) => settlements.add(task, self.not_accepted(item, &fault)),
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
            (Some(_), Some(failure)) => {
                item.note_obstacle(obstacle);
                self.outages.met(failure.target.as_str(), now)
            }
            _ => now,
        };
        log::not_accepted(item, fault);
        item.judgement.after_fault(fault.kind, since, now)
    }

    async fn settle(&self, settlements: Settlements<'_>, run: &Run<'_, L, C>) {
        let Self { settings, queues, gauges, .. } = self;
        Settler { settings, queues, gauges, run }.settle(settlements).await;
    }
}
