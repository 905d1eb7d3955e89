//! The handlers: production's code, run as Lambda runs it, one batch at a time in an environment.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use comeback_core::{Timestamp, arn::FunctionArn, time::later};
use comeback_flow::{
    batch::{Context as Invocation, Handler, RecordWithoutId},
    report::Report,
};
use comeback_local::model::{
    lambda::run::{Exit, Outcome, Run, RunId},
    sqs::{MessageAttribute, Outgoing},
};

use super::{Step, World, build};
use crate::{
    check::Check,
    judge::{Delivered, qualified},
    plan::Form,
    spell::Trouble,
    tally::Fault,
    wire::{Desk, Port},
};

/// A handler is killed before, between or after this many things that happen to its calls.
const KILLED_AFTER_MAX: u64 = 12;

type Answer = Result<Report, RecordWithoutId>;

/// Where a handler runs: its process keeps its clock from batch to batch.
pub(super) struct Environment {
    handler: Rc<Handler<Port, Port, Port, Port>>,
    desk: Rc<Desk>,
}

/// A batch with a handler.
pub(super) struct HandlerRun {
    id: RunId,
    request_id: Arc<str>,
    handler: usize,
    /// The queue that it is from.
    queue: Option<String>,
    event: SqsEvent,
    timeout: Duration,
    working: Option<Working>,
    /// After how many more things it is killed.
    killed_after: Option<u64>,
    /// How many of its calls have reached their services.
    pub(super) effects: u32,
}

struct Working {
    environment: Environment,
    future: Pin<Box<dyn Future<Output = Answer>>>,
}

impl World {
    /// Lambda hands a batch to a handler.
    #[allow(clippy::expect_used, reason = "the model writes the event as Lambda does")]
    pub(super) fn deliver(&mut self, handler: usize, run: Run) {
        let mut event: SqsEvent = serde_json::from_str(run.payload.get()).expect("an event of SQS");
        let key = self.next_run;
        self.next_run += 1;
        self.judge.tally.count("batches");
        self.spoil(&mut event);
        let batch = event.records.iter().map(delivered).collect();
        self.judge.delivered(self.now, key, batch);
        for record in &event.records {
            self.repeat(record);
        }
        let killed = self.judge.may_fork(key) && self.happens(|rates| rates.killed);
        let killed_after = killed.then(|| self.draw.number(0..=KILLED_AFTER_MAX));
        let timeout = run.configuration.timeout();
        let begun = HandlerRun {
            id: run.id,
            request_id: run.request_id,
            handler,
            queue: event.records.first().and_then(source),
            event,
            timeout,
            working: None,
            killed_after,
            effects: 0,
        };
        self.runs.insert(key, begun);
        if self.is(Trouble::BadDeploy { handler }) {
            self.judge.tally.fault(Fault::BadDeploy);
            return self.agenda.plan(self.after(Duration::from_millis(50)), Step::Kill(key));
        }
        // One that is later than its message is hidden has the message delivered again beside it.
        let delay = if self.judge.may_fork(key) && self.happens(|rates| rates.slow_start) {
            self.judge.tally.fault(Fault::LateDelivery);
            self.draw.millis(1_000..=600_000)
        } else {
            self.draw.millis(1..=20)
        };
        self.agenda.plan(self.after(delay), Step::Begin(key));
    }

    /// Delivers in another order, and counts wrongly.
    fn spoil(&mut self, event: &mut SqsEvent) {
        if event.records.len() > 1 && !self.plan.flawless && self.draw.happens(0.2) {
            self.judge.tally.fault(Fault::Reordered);
            let middle = self.draw.index(event.records.len());
            event.records.rotate_left(middle);
        }
        for record in &mut event.records {
            if !self.happens(|rates| rates.miscounted) {
                continue;
            }
            let count = receive_count(record);
            let wrong = if self.draw.happens(0.5) {
                self.judge.tally.fault(Fault::CountTooLow);
                count.saturating_sub(1) / 2
            } else {
                self.judge.tally.fault(Fault::CountTooHigh);
                count + u32::try_from(self.draw.number(1..=1_000)).unwrap_or(1)
            };
            record.attributes.insert("ApproximateReceiveCount".to_owned(), wrong.to_string());
        }
    }

    /// Sends a record twice, or delivers its message again.
    fn repeat(&mut self, record: &SqsMessage) {
        let trace = trace_of(record);
        let Some(target) = self.judge.repeatable(trace) else { return };
        let queue = self.plan.targets[target].queue;
        // When a bare message was sent is all that tells when its event failed.
        let has_time = self.plan.targets[target].form != Form::Bare;
        if has_time && self.happens(|rates| rates.copied) {
            self.judge.tally.fault(Fault::Duplicate);
            self.judge.copied(self.now, trace);
            let attributes = record.message_attributes.iter().filter_map(|(name, attribute)| {
                let value = attribute.string_value.clone()?;
                Some((name.clone(), MessageAttribute::string(value)))
            });
            let copy = Outgoing {
                body: record.body.as_deref().unwrap_or_default().into(),
                attributes: attributes.collect(),
                trace_header: Some(trace.to_owned()),
                ..Outgoing::default()
            };
            let delay = self.draw_delay();
            self.agenda.plan(self.after(delay), Step::Forward(queue, Box::new(copy)));
        }
        if self.happens(|rates| rates.redelivered) {
            self.judge.tally.fault(Fault::Redelivery);
            let handle = record.receipt_handle.clone().unwrap_or_default();
            let delay = self.draw.millis(0..=5_000);
            self.agenda.plan(self.after(delay), Step::Redeliver(queue, handle));
        }
    }

    /// A batch has reached its handler, which begins with it.
    #[allow(clippy::expect_used, reason = "the name of a handler is a function's")]
    pub(super) fn begin(&mut self, key: u64) {
        let Some(mut run) = self.runs.remove(&key) else { return };
        let environment =
            self.idle[run.handler].pop().unwrap_or_else(|| self.environment(run.handler));
        let home = FunctionArn::parse(&qualified(&self.plan.handlers[run.handler].name))
            .expect("the ARN of a function")
            .home();
        let (handler, event) = (Rc::clone(&environment.handler), std::mem::take(&mut run.event));
        let deadline = later(environment.desk.clock(), run.timeout);
        let request_id = run.request_id.clone();
        self.judge.ends_by(key, deadline);
        let future = Box::pin(async move {
            let context = Invocation { request_id: &request_id, home: &home, deadline };
            handler.handle(&event, &context).await
        });
        self.agenda.plan(self.after(run.timeout), Step::Cut(key));
        run.working = Some(Working { environment, future });
        self.runs.insert(key, run);
        if !self.survives(key) {
            return;
        }
        self.poll(key);
    }

    fn environment(&mut self, handler: usize) -> Environment {
        let skew = self.plan.handlers[handler].skew;
        let mut off = || self.draw.within(Duration::ZERO, skew);
        let (ahead, behind) = (off(), off());
        if ahead != behind {
            self.judge.tally.fault(Fault::ClockOff);
        }
        let desk =
            Rc::new(Desk { now: Rc::clone(&self.clock), ahead, behind, asked: RefCell::default() });
        let port = || Port(Rc::clone(&desk));
        let handler = Handler {
            settings: build::settings(&self.plan, handler),
            queues: port(),
            functions: port(),
            ledger: self.plan.handlers[handler].has_ledger.then(port),
            clock: port(),
        };
        Environment { handler: Rc::new(handler), desk }
    }

    /// Lets a handler go on, as far as it can without another answer.
    pub(super) fn poll(&mut self, key: u64) {
        let Some(working) = self.runs.get_mut(&key).and_then(|run| run.working.as_mut()) else {
            return;
        };
        let polled = working.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let clock = working.environment.desk.clock();
        let asked = working.environment.desk.asked.take();
        match polled {
            Poll::Ready(answer) => self.finish(key, answer),
            Poll::Pending => asked.into_iter().for_each(|asked| self.submit(key, clock, asked)),
        }
    }

    /// A handler has answered.
    fn finish(&mut self, key: u64, answer: Answer) {
        let Some(run) = self.runs.remove(&key) else { return };
        let Ok(report) = answer else {
            let what = format!("run {key} found a record without an id");
            return self.judge.violated(Check::ReportsTruly, self.now, None, what);
        };
        let lost = self.judge.may_fork(key) && self.happens(|rates| rates.answer_lost);
        let outcome = if lost {
            self.judge.tally.fault(Fault::KilledAfter);
            Outcome::Exited(Exit::Signal(9))
        } else {
            if let Some(working) = run.working {
                self.idle[run.handler].push(working.environment);
            }
            Outcome::Returned(serde_json::to_vec(&report.response()).unwrap_or_default())
        };
        self.cloud.finish(self.now, run.id, outcome);
        let sqs = &self.cloud.sqs;
        let stays = |handle: &str| run.queue.as_deref().is_some_and(|queue| sqs.has(queue, handle));
        self.judge.answered(self.now, key, &report, stays);
        self.observe();
    }

    /// Something has happened to a run; whether it lives on.
    pub(super) fn survives(&mut self, key: u64) -> bool {
        let Some(run) = self.runs.get_mut(&key) else { return false };
        match &mut run.killed_after {
            Some(0) => {
                self.kill(key);
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    pub(super) fn kill(&mut self, key: u64) {
        let Some(run) = self.runs.remove(&key) else { return };
        if run.killed_after.is_some() {
            let before = run.effects == 0;
            self.judge.tally.fault(if before { Fault::KilledBefore } else { Fault::KilledBetween });
        }
        self.judge.story.tell(self.now, None, || format!("run {key} is killed"));
        self.judge.cut(self.now, key);
        self.cloud.finish(self.now, run.id, Outcome::Exited(Exit::Signal(9)));
        self.observe();
    }

    /// A handler's time is up: if it still works, it did not answer in time.
    pub(super) fn cut(&mut self, key: u64) {
        if self.runs.contains_key(&key) {
            let what = format!("run {key} has no answer when its time is up");
            self.judge.violated(Check::AnswersInTime, self.now, None, what);
        }
    }

    /// Where the handler of a run sends its dead letters.
    pub(super) fn dead_letter_queue_of(&self, key: u64) -> String {
        let handler = self.runs.get(&key).map_or(0, |run| run.handler);
        self.plan.handlers[handler].dead_letter_queue.clone()
    }

    /// A delay between nothing and half an hour, short ones being likelier.
    fn draw_delay(&mut self) -> Duration {
        let most = 10_u64.pow(u32::try_from(self.draw.number(1..=6)).unwrap_or(1));
        self.draw.millis(0..=most)
    }
}

fn delivered(record: &SqsMessage) -> Delivered {
    Delivered {
        message_id: record.message_id.clone().unwrap_or_default(),
        handle: record.receipt_handle.clone().unwrap_or_default(),
        trace: trace_of(record).into(),
        receive_count: receive_count(record),
    }
}

/// The name of the queue that a record is from.
fn source(record: &SqsMessage) -> Option<String> {
    Some(record.event_source_arn.as_deref()?.rsplit(':').next()?.to_owned())
}

fn trace_of(record: &SqsMessage) -> &str {
    record.attributes.get("AWSTraceHeader").map(String::as_str).unwrap_or_default()
}

fn receive_count(record: &SqsMessage) -> u32 {
    let count = record.attributes.get("ApproximateReceiveCount");
    count.and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// The moment at which a virtual timer of this length ends, in whole milliseconds as everything here.
pub(super) fn timer_end(now: Timestamp, lasts: Duration) -> Timestamp {
    let millis = lasts.as_nanos().div_ceil(1_000_000);
    later(now, Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}
