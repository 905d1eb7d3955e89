//! The handlers: production's code, run as Lambda runs it, one batch at a time in a process.

use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use comeback_core::{Timestamp, time::later};
use comeback_flow::{
    batch::{BatchRefused, Context as Invocation},
    ports::Clock as _,
    report::Report,
};
use comeback_local_model::{
    lambda::run::{Exit, Outcome, Run},
    sqs::{MessageAttribute, Outgoing},
};
use wire::{AwsHandler, Environment, Request};

use super::{Step, World, build};
use crate::{
    choices::Of,
    faults::{Fault, Trouble},
    judge::{Happens, receive_count, trace_of, was_moved},
    plan::Form,
    seen::Seen,
};

/// The most calls and answers after whose arrival a handler is killed.
const KILLED_AFTER_MAX: u64 = 12;

type Answer = Result<Report, BatchRefused>;
type Working = Pin<Box<dyn Future<Output = Answer>>>;

/// A process of a handler, which handles one batch after another with the same clock.
pub type Process = Rc<AwsHandler>;

/// A batch that a handler has received.
pub struct HandlerRun {
    run: Run,
    pub handler: usize,
    pub event: Rc<SqsEvent>,
    /// Of whom its first message is.
    pub of: Of,
    queue: String,
    working: Option<(Process, Working)>,
    /// The number of arrivals after which it is killed.
    killed_after: Option<u64>,
    /// How many of its calls have reached their service.
    pub effects: u32,
}

impl World {
    /// Lambda gives a batch to a handler.
    #[allow(clippy::expect_used, reason = "the model writes the event as Lambda does")]
    pub fn deliver(&mut self, handler: usize, run: Run) {
        let mut event: SqsEvent = serde_json::from_str(run.payload.get()).expect("an event of SQS");
        let key = self.next_run;
        self.next_run += 1;
        self.judge.known.tally.count(Seen::Step("batches"));
        let of = event.records.first().map_or_else(Of::default, |it| self.of_record(it));
        self.spoil(of, &mut event);
        event.records.iter().for_each(|record| self.end_order(trace_of(record)));
        let event = Rc::new(event);
        self.judge.delivered(key, &event);
        event.records.iter().for_each(|record| self.repeat(record));
        let may_fork = self.judge.known.may_fork(key);
        let is_killed = may_fork && self.draws(of, Fault::KilledBefore);
        let killed_after =
            is_killed.then(|| self.choices.number(of, "killed after", 0..=KILLED_AFTER_MAX));
        let source = event.records.first().and_then(|record| record.event_source_arn.as_deref());
        let begun = HandlerRun {
            run,
            handler,
            queue: source.and_then(|arn| arn.rsplit(':').next()).unwrap_or_default().to_owned(),
            event,
            of,
            working: None,
            killed_after,
            effects: 0,
        };
        self.runs.insert(key, begun);
        if self.is(Trouble::BadDeploy, handler) {
            self.judge.known.tally.count(Seen::Trouble(Trouble::BadDeploy));
            return self.after(Duration::from_millis(50), move |world| world.kill(key));
        }
        // A delay beyond the visibility timeout makes SQS deliver the message to another handler too.
        let delay = match may_fork && self.happens(of, Fault::LateDelivery) {
            true => self.choices.millis(of, "begins after", 1_000..=600_000),
            false => self.choices.millis(of, "begins after", 1..=20),
        };
        self.after(delay, move |world| world.begin(key));
    }

    /// Changes the order and the receive counts of a batch.
    fn spoil(&mut self, of: Of, event: &mut SqsEvent) {
        if event.records.len() > 1
            && !self.plan.flawless
            && self.choices.happens(of, Fault::Reordered, 0.2)
        {
            self.judge.known.tally.count(Seen::Fault(Fault::Reordered));
            let middle = self.choices.index(of, "first", event.records.len());
            event.records.rotate_left(middle);
        }
        for record in &mut event.records {
            if self.plan.moves_anew && was_moved(record) {
                let id = record.message_id.clone().unwrap_or_default();
                let first = self.moved.entry(id).or_insert(self.now).timestamp_millis();
                let name = "ApproximateFirstReceiveTimestamp".to_owned();
                record.attributes.insert(name, first.to_string());
            }
            let of = self.of_record(record);
            if !self.draws(of, Fault::CountTooLow) {
                continue;
            }
            let count = receive_count(record);
            let (fault, wrong) = match self.choices.happens(of, "halved", 0.5) {
                true => (Fault::CountTooLow, count.saturating_sub(1) / 2),
                false => {
                    let more = self.choices.number(of, "more", 1..=1_000) as u32;
                    (Fault::CountTooHigh, count + more)
                }
            };
            self.judge.known.tally.count(Seen::Fault(fault));
            record.attributes.insert("ApproximateReceiveCount".to_owned(), wrong.to_string());
        }
    }

    /// Sends a record twice, or delivers its message again.
    fn repeat(&mut self, record: &SqsMessage) {
        let trace = trace_of(record);
        let Some((case, target)) = self.judge.known.repeatable(trace) else { return };
        let of = self.of_trace(trace);
        let queue = self.plan.targets[target].queue;
        // The only time of a bare message is when it was sent, so a copy would have another time. And only SQS itself
        // can move a message.
        let form = self.plan.targets[target].form;
        let has_time = !matches!(form, Form::Bare | Form::Queue { .. })
            && !self.judge.known.is_undelivered(case);
        if has_time && self.happens(of, Fault::Duplicate) {
            self.judge.copied(case);
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
            // Up to almost 17 minutes; short delays are likelier.
            let most = 10_u64.pow(self.choices.number(of, "digits", 1..=6) as u32);
            let delay = self.choices.millis(of, "sent twice after", 0..=most);
            self.after(delay, move |world| world.forward(queue, copy));
        }
        if self.happens(of, Fault::Redelivery) {
            let handle = record.receipt_handle.clone().unwrap_or_default();
            let delay = self.choices.millis(of, "delivered again after", 0..=5_000);
            self.after(delay, move |world| world.redeliver(queue, &handle));
        }
    }

    /// A batch reaches its handler, which begins to handle it.
    fn begin(&mut self, key: u64) {
        let Some(mut run) = self.runs.remove(&key) else { return };
        let process = self.idle[run.handler].pop().unwrap_or_else(|| self.process(run.handler));
        let home = Rc::clone(&self.home);
        let timeout = run.run.configuration.timeout();
        let (handler, event) = (Rc::clone(&process), Rc::clone(&run.event));
        self.judge.begun(key, process.clock.0.number, timeout);
        self.publish_run(run.handler, "Invocations");
        let deadline = later(process.clock.now(), timeout);
        let request_id = run.run.request_id.clone();
        let future: Working = Box::pin(async move {
            let context = Invocation { request_id: &request_id, home: &home, deadline };
            handler.handle(&event, &context).await
        });
        run.working = Some((process, future));
        self.runs.insert(key, run);
        self.plan_step(timeout, Step::TimeUp(key));
        if self.survives(key) {
            self.poll(key);
        }
    }

    #[allow(clippy::expect_used, reason = "the settings of a plan are valid")]
    fn process(&mut self, handler: usize) -> Process {
        let skew = self.plan.handlers[handler].skew;
        let of = Of::handler(handler);
        let ahead = self.choices.within(of, "ahead", Duration::ZERO, skew);
        let behind = self.choices.within(of, "behind", Duration::ZERO, skew);
        if ahead != behind {
            self.judge.known.tally.count(Seen::Fault(Fault::ClockOff));
        }
        let variant = self.choices.index(of, "variant", 2);
        let is_turned = self.turned[handler];
        let number = self.judge.known.starts(is_turned);
        let (now, requests) = (Rc::clone(&self.clock), RefCell::default());
        let settings = build::settings(&self.plan, handler, variant, is_turned);
        let settings = settings.expect("a plan has valid settings");
        let environment = Environment { number, now, ahead, behind, requests };
        Rc::new(environment.handler(settings, self.plan.handlers[handler].has_ledger))
    }

    /// A handler is deployed again with other settings, as soon as none of its runs is under way.
    pub fn turn(&mut self, handler: usize) {
        if self.runs.values().any(|run| run.handler == handler) {
            return self.after(Duration::from_millis(700), move |world| world.turn(handler));
        }
        self.turned[handler] = true;
        self.idle[handler].clear();
        self.judge.known.tally.count(Seen::Step("deployments with another TRANSPARENT"));
        self.judge
            .known
            .story
            .tell(self.now, None, || format!("handler {handler} is deployed again"));
    }

    /// The time by the clock of a run.
    pub fn clock_of(&self, key: u64) -> Timestamp {
        let working = self.runs.get(&key).and_then(|run| run.working.as_ref());
        working.map_or(self.now, |(process, _)| process.clock.now())
    }

    /// Polls a handler until it waits for another answer.
    pub fn poll(&mut self, key: u64) {
        let working = self.runs.get_mut(&key).and_then(|run| run.working.as_mut());
        let Some((process, future)) = working else { return };
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let clock = process.clock.now();
        let requests = process.clock.0.requests.take();
        match polled {
            Poll::Ready(answer) => self.finish(key, answer),
            Poll::Pending => {
                let judge = &self.judge;
                let is_of_records = |(request, _): &(Request, _)| {
                    matches!(request, Request::Sleep(_) | Request::Read(_))
                        || judge.known.splits(request)
                };
                let is_reading = requests.iter().all(is_of_records);
                let is_of_recall = |call: &(Request, _)| {
                    let is_take = matches!(call.0, Request::Take { .. });
                    let is_closer =
                        matches!(call.0, Request::Siblings { only_children: false, .. });
                    let is_first =
                        matches!(call.0, Request::LookUp { .. }) && judge.known.recalls(key);
                    is_of_records(call) || is_first || is_closer || is_take
                };
                let is_recalling = requests.iter().all(is_of_recall);
                let divides = requests.iter().any(|(request, _)| judge.known.divides(request));
                if !is_reading || divides {
                    self.judge.known.is_past_records(key, is_recalling);
                }
                if !is_recalling {
                    self.judge.known.is_past_recall(key, clock);
                }
                for (request, _) in &requests {
                    if let Request::Write(write) = request {
                        self.judge.claims(key, write);
                    }
                }
                for (request, slot) in requests {
                    self.submit(key, clock, request, slot);
                }
            }
        }
    }

    fn finish(&mut self, key: u64, answer: Answer) {
        let Some(begun) = self.runs.remove(&key) else { return };
        let Ok(report) = answer else {
            return self.judge.shows(None, Happens::Fails(key));
        };
        if let Some((process, _)) = &begun.working {
            self.judge.known.is_past_recall(key, process.clock.now());
            self.publish_report(&report, process.clock.now());
        }
        let outcome =
            if self.judge.known.may_fork(key) && self.happens(begun.of, Fault::KilledAfter) {
                Outcome::Exited(Exit::Signal(9))
            } else {
                self.idle[begun.handler].extend(begun.working.map(|(process, _)| process));
                Outcome::Returned(serde_json::to_vec(&report.response()).unwrap_or_default())
            };
        self.cloud.finish(self.now, begun.run.id, outcome);
        let stays = |handle: &str| self.cloud.sqs.has(&begun.queue, handle);
        for over in self.judge.answered(key, &report, stays) {
            self.table.forget(&over);
        }
        self.observe();
    }

    /// A call or an answer of a run has arrived. Returns whether the run is still alive.
    pub fn survives(&mut self, key: u64) -> bool {
        let Some(run) = self.runs.get_mut(&key) else { return false };
        match &mut run.killed_after {
            Some(0) => {
                self.kill(key);
                return false;
            }
            Some(left) => *left -= 1,
            None => {}
        }
        true
    }

    fn kill(&mut self, key: u64) {
        let Some(run) = self.runs.remove(&key) else { return };
        if run.killed_after.is_some() {
            let is_first = run.effects == 0;
            let fault = if is_first { Fault::KilledBefore } else { Fault::KilledBetween };
            self.judge.known.tally.count(Seen::Fault(fault));
        }
        self.judge.known.story.tell(self.now, None, || format!("run {key} is killed"));
        self.judge.killed(key);
        self.publish_run(run.handler, "Errors");
        self.cloud.finish(self.now, run.run.id, Outcome::Exited(Exit::Signal(9)));
        self.observe();
    }

    /// The deadline of a handler passes without an answer.
    pub fn time_up(&mut self, key: u64) {
        self.judge.shows(None, Happens::TimeIsUp(key));
    }
}
