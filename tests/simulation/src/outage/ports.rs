//! The ports of all handlers, connected to the world. Every call is answered at once.

use std::{cell::RefCell, rc::Rc, time::Duration};

use comeback_core::{
    Timestamp,
    circuit::Minute,
    claim::Claim,
    dead_letter::DeadLetter,
    fault::{InvokeFault, StoreFault},
    register::Waiting,
    time::later,
};
use comeback_flow::ports::{
    CallFault, Clock, Delayed, Functions, Invocation, Ledger, Listed, NotExchanged, NotReplaced,
    Notes, Queues, VisibilityChange, Wanted,
};

use super::world::{B, Running, World};
use crate::{wire::outgoing, world::name_of};

const TARGET_TAKES: Duration = Duration::from_millis(50);

/// SQS bills one request for each 64 KiB of a send.
const BILLED_BYTES: usize = 64 * 1024;

#[derive(Clone)]
pub struct Port(pub Rc<RefCell<World>>);

impl Queues for Port {
    async fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let World { sqs, now, played, .. } = &mut *self.0.borrow_mut();
        played.sqs_requests += 1;
        let change = |change: &VisibilityChange<'_>| {
            let VisibilityChange { receipt_handle, timeout } = *change;
            let queue = name_of(queue_url);
            let changed = sqs.change_visibility(*now, queue, receipt_handle, timeout);
            changed.map_err(|error| CallFault(error.to_string()))
        };
        changes.iter().map(change).collect()
    }

    async fn in_flight(&self, queue_url: &str) -> Result<u64, CallFault> {
        let world = &mut *self.0.borrow_mut();
        world.played.sqs_requests += 1;
        let poller = world.pollers.iter().find(|poller| poller.queue == name_of(queue_url));
        Ok(poller.and_then(|poller| poller.counted.front()).copied().unwrap_or_default())
    }

    async fn send_again(
        &self,
        queue_url: &str,
        messages: &[&Delayed<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let World { outage, sqs, now, played, .. } = &mut *self.0.borrow_mut();
        if !outage.design.delays() {
            return vec![Err(CallFault("this design has no delays".to_owned())); messages.len()];
        }
        let bytes: usize = messages.iter().map(|message| message.size()).sum();
        played.sqs_requests += bytes.div_ceil(BILLED_BYTES).max(1) as u64;
        let send = |message: &&Delayed<'_>| {
            let sent = sqs.send(*now, name_of(queue_url), outgoing(message));
            sent.map(drop).map_err(|error| CallFault(error.to_string()))
        };
        messages.iter().map(send).collect()
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Vec<Result<(), CallFault>> {
        let world = &mut *self.0.borrow_mut();
        world.played.sqs_requests += 1;
        world.played.letters += letters.len() as u64;
        world.open -= letters.len();
        vec![Ok(()); letters.len()]
    }
}

impl Functions for Port {
    #[allow(clippy::expect_used, reason = "only envelopes of these events arrive")]
    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), InvokeFault> {
        let world = &mut *self.0.borrow_mut();
        let number = |after: &str| -> usize {
            let (_, rest) = invocation.payload.split_once(after).expect("an envelope");
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse().expect("a number")
        };
        let event = number(r#""event":"#);
        let attempt = number(r#""attempt":"#) as u8;
        let (made, whose) = &mut world.events[event];
        if attempt != made.wrapping_add(1) {
            world.played.forks += 1;
            return Ok(());
        }
        *made = attempt;
        let is_b = *whose == B;
        let takes = if is_b { None } else { world.retry(event, attempt) };
        let payload = invocation.payload;
        let fails = takes.is_some();
        let ends = later(world.now, takes.unwrap_or_default().max(TARGET_TAKES));
        let run = Running { ends, event, attempt, payload, fails };
        let slow = takes.is_some_and(|takes| takes > TARGET_TAKES);
        if slow { &mut world.slow } else { &mut world.running }.push_back(run);
        Ok(())
    }

    async fn minutes(
        &self,
        _function: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Minute>, CallFault> {
        Ok(self.0.borrow_mut().target.minutes(from, until))
    }
}

impl Ledger for Port {
    async fn replace(
        &self,
        key: &str,
        _seen: Option<&Claim>,
        _next: Option<&Claim>,
    ) -> Result<(), NotReplaced> {
        self.0.borrow_mut().target.leave(key);
        Ok(())
    }

    async fn enter(
        &self,
        key: &str,
        _seen: Option<&Claim>,
        _next: &Claim,
        waiting: &Waiting<'_>,
    ) -> Result<(), NotReplaced> {
        if is_a(waiting.target) {
            self.0.borrow_mut().target.enter(key, waiting);
        }
        Ok(())
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<Notes, StoreFault> {
        let stored = |target: &&str| {
            let stored = self.0.borrow().target.stored();
            is_a(target).then(|| ((*target).to_owned(), stored))
        };
        let circuits = wanted.targets.iter().filter_map(stored).collect();
        Ok(Notes { circuits, ..Notes::default() })
    }

    async fn exchange(&self, target: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let World { target: function, now, .. } = &mut *self.0.borrow_mut();
        if is_a(target) { function.exchange(seen, next, *now) } else { Ok(()) }
    }

    async fn list(
        &self,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> Result<Vec<Listed>, StoreFault> {
        let world = self.0.borrow();
        Ok(if is_a(target) { world.target.list(after, count) } else { Vec::new() })
    }
}

fn is_a(target: &str) -> bool {
    target.ends_with(":a:$LATEST")
}

impl Clock for Port {
    fn now(&self) -> Timestamp {
        self.0.borrow().now
    }

    /// No call takes time, so a timeout never ends before the work does.
    async fn sleep(&self, _duration: Duration) {
        std::future::pending().await
    }
}
