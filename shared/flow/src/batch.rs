//! Handles a batch, from the event that Lambda delivers to the report of its outcomes.

use aws_lambda_events::event::sqs::SqsEvent;
use comeback_core::{
    arn::is_url_of,
    decision::{Decision, Settlement},
    settings::Settings,
};
use futures_util::{
    StreamExt,
    future::{join, join3},
    stream,
};

pub use crate::run::Context;
use crate::{
    act::{Actor, Next},
    budget::{Budget, within},
    fetch,
    in_flight::Gauges,
    item::Item,
    memory::CircuitMemory,
    outages::Outages,
    phase::{Done, Phase},
    ports::{Clock, ENTRIES_MAX, Functions, Ledger, Queues, Records},
    probes, recall, register,
    report::{Outcome, Report, TargetReport},
    results::Results,
    run::Run,
    sends::CALLS_AT_ONCE,
    settle::Settler,
    settlements::{Return, Settlements},
    split,
    task::{Act, Task},
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
        self.check(event)?;
        let now = self.clock.now();
        let budget = Budget::of(now, context.deadline);
        let results = Results::of(event.records.len());
        let run = Run {
            context,
            acts_until: budget.acts,
            clock: &self.clock,
            ledger: self.ledger.as_ref(),
            outages: &self.outages,
            registers: self.settings.register,
            circuits: self.settings.probe.then_some(&self.memory),
            results: &results,
        };
        let judge = |record| Item::judge(record, context.home, &self.settings, now);
        let items: Vec<Item> = event.records.iter().enumerate().map(judge).collect();
        self.gauges.begin(&items);
        let Phase { go_on, done } = self.read(items, &budget, &run).await;
        // Without a box, the future is nested too deeply for rustc.
        let work = Box::pin(join(self.work(&go_on, &run), self.finish(&done, &run)));
        let worked = within(&self.clock, budget.all, work).await;
        let targets = worked.map(|(targets, ())| targets).unwrap_or_default();
        let items = go_on.into_iter().chain(done.into_iter().map(Done::into_item)).collect();
        Ok(Report { entries: results.entries(items), targets })
    }

    /// Refuses a batch whose outcomes could not be reported, or whose dead letters would come back.
    fn check(&self, event: &SqsEvent) -> Result<(), BatchRefused> {
        let has_no_id = |id: &Option<String>| id.as_deref().is_none_or(str::is_empty);
        if event.records.iter().any(|record| has_no_id(&record.message_id)) {
            return Err(BatchRefused::RecordWithoutId);
        }
        let dead_letters = &self.settings.dead_letter_queue_url;
        let mut sources = event.records.iter().filter_map(|it| it.event_source_arn.as_deref());
        if sources.any(|source| is_url_of(dead_letters, source)) {
            return Err(BatchRefused::OwnDeadLetterQueue(dead_letters.clone()));
        }
        Ok(())
    }

    /// Completes what the messages say: by the notices of single objects, by records in buckets, by the parts of the
    /// batches in them, and by what the ledger knows of earlier attempts.
    async fn read<'e>(
        &'e self,
        items: Vec<Item<'e>>,
        budget: &Budget,
        run: &Run<'_, L, C>,
    ) -> Phase<Item<'e>, Done<'e>> {
        let Self { settings, queues, .. } = self;
        let (several, single) = items.into_iter().partition(|it| !it.judgement.notices.is_empty());
        let (split, fetched) = join(
            split::split(several, queues, settings, budget.reads, run),
            fetch::fetch(single, self.records.as_ref(), settings, budget.reads, run),
        )
        .await;
        let of_parts = |item: &Item<'_>| !item.judgement.parts().is_empty();
        let (in_parts, whole) = fetched.go_on.into_iter().partition(of_parts);
        let (divided, recalled) = join(
            split::split(in_parts, queues, settings, budget.recall, run),
            recall::recall(whole, &settings.rules, budget.recall, run),
        )
        .await;
        let done =
            split.into_iter().chain(fetched.done).chain(divided).chain(recalled.done).collect();
        Phase { go_on: recalled.go_on, done }
    }

    /// Ends or settles the messages that no later phase concerns.
    async fn finish(&self, done: &[Done<'_>], run: &Run<'_, L, C>) {
        let mut tasks = Vec::new();
        for message in done {
            match message {
                Done::Ended(item, outcome) => run.results.end(item, outcome.clone()),
                Done::Settled(item) => tasks.push(Task::of(item, None)),
            }
        }
        let mut settlements = Settlements::default();
        for task in &tasks {
            if let Decision::Settle(settlement) = task.decision() {
                settlements.add(Act::of(task, run), settlement);
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
        let Phase { go_on: tasks, done: duplicates } = register::steer(items, &looked, run);
        duplicates.into_iter().for_each(|item| run.results.end(item, Outcome::Duplicate));
        let (tasks, steps) = probes::take_steps(items, tasks, &probed, looked.found(), run).await;
        // Carry out and follow up.
        let carry_out = self.carry_out(&tasks, run);
        let follow_up = probes::follow_up(steps, &self.queues, &self.functions, run);
        let (invoked, followed_up) = join(carry_out, follow_up).await;
        probes::conclude(followed_up, &invoked, run).await
    }

    /// Carries out all decisions concurrently, so that no message waits for another's call. Returns the places of the
    /// items whose functions were invoked.
    async fn carry_out<'a>(&self, tasks: &'a [Task<'a>], run: &Run<'_, L, C>) -> Vec<usize> {
        let (mut due, mut given_up) = (Vec::new(), Vec::new());
        let mut settlements = Settlements::default();
        for task in tasks {
            let act = Act::of(task, run);
            match task.decision() {
                Decision::Invoke => due.push(act),
                Decision::Settle(Settlement::DeadLetter(_))
                    if run.ledger.is_some() && task.item.accepted().is_some() =>
                {
                    given_up.push(act);
                }
                Decision::Settle(Settlement::DeadLetter(_)) if run.is_late() => {}
                // These need no claim, and go out together.
                Decision::Settle(settlement) => settlements.add(act, settlement),
            }
        }
        let ((), mut invoked, others) = join3(
            self.settle(settlements, run),
            self.act_on_all(due, run),
            self.act_on_all(given_up, run),
        )
        .await;
        invoked.extend(others);
        invoked
    }

    /// Acts on up to [`CALLS_AT_ONCE`] messages at a time. When it is late it begins no more; those in progress go on.
    /// Messages are settled while others are in progress, and those that finish at the same time share their calls.
    /// Returns the places of the items whose functions were invoked.
    async fn act_on_all<'a>(&self, acts: Vec<Act<'a>>, run: &Run<'_, L, C>) -> Vec<usize> {
        let actor = Actor { settings: &self.settings, functions: &self.functions, run };
        let mut invoked = Vec::new();
        stream::iter(acts.into_iter().map(|act| actor.act(act)))
            .buffer_unordered(CALLS_AT_ONCE)
            .inspect(|next| {
                if let Next::Invoked(act) = next {
                    invoked.push(act.item().nth);
                }
            })
            .ready_chunks(ENTRIES_MAX)
            .for_each_concurrent(None, async |ended| {
                let mut settlements = Settlements::default();
                for next in ended {
                    match next {
                        Next::Nothing => {}
                        Next::Invoked(act) => settlements.done.push(act),
                        Next::Settle(act, settlement) => settlements.add(act, settlement),
                        Next::SendBack(act, message) => {
                            settlements.returns.push(Return { act, message });
                        }
                    }
                }
                self.settle(settlements, run).await;
            })
            .await;
        invoked
    }

    async fn settle(&self, settlements: Settlements<'_>, run: &Run<'_, L, C>) {
        let Self { settings, queues, gauges, .. } = self;
        Settler { settings, queues, gauges, run }.settle(settlements).await;
    }
}
