//! Acts on one message: claims its failure, and retries or gives up its event.

use comeback_core::{
    decision::{Decision, Settlement},
    fault::InvokeFault,
    log_line::decision,
    reason::Reason,
    settings::Settings,
    time::between,
};

use crate::{
    claims::{self, NotClaimed},
    faults,
    held::{Held, Progress},
    log,
    ports::{Clock, Functions, Invocation, Ledger, Resent},
    report::{Obstacle, Outcome},
    run::Run,
    task::Act,
};

/// The remaining work for a message that was acted on.
pub(crate) enum Next<'a> {
    /// Nothing: it has ended, or is left to the queue.
    Nothing,
    /// Its function was invoked. Its claim needs a mark.
    Invoked(Act<'a>),
    Settle(Act<'a>, Settlement),
    /// A queue's consumer failed: send this to the queue.
    SendBack(Act<'a>, Resent<'a>),
}

/// Acts on the messages of a batch.
pub(crate) struct Actor<'h, F, L, C> {
    pub(crate) settings: &'h Settings,
    pub(crate) functions: &'h F,
    pub(crate) run: &'h Run<'h, L, C>,
}

impl<F: Functions, L: Ledger, C: Clock> Actor<'_, F, L, C> {
    /// Acts on a message, unless it is late, or another invocation acts or has acted on its failure.
    pub(crate) async fn act<'a>(&self, act: Act<'a>) -> Next<'a> {
        let (item, run) = (act.item(), self.run);
        if run.is_late() {
            return Next::Nothing;
        }
        match claims::claim(act.task, run).await {
            // The claim took too long. Whoever receives the message next may act on it.
            Ok(held) if run.is_late() => {
                claims::release(item, held.as_ref(), run).await;
                Next::Nothing
            }
            Ok(held) => {
                let act = Act { held, ..act };
                match act.decision() {
                    Decision::Invoke => self.retry(act).await,
                    Decision::Settle(settlement) => Next::Settle(act, settlement),
                }
            }
            Err(NotClaimed::Done) => {
                run.results.end(item, Outcome::Duplicate);
                Next::Nothing
            }
            Err(NotClaimed::Held { until }) => {
                log::held(item, until);
                Next::Settle(act, item.judgement.after_held(until, run.clock.now()))
            }
            Err(NotClaimed::Unknown { fault, held }) => {
                log::ledger_failed(item, decision::CLAIM, &fault);
                let held = held.map(|held| *held);
                let act = Act { held, ..act.hindered(Some(Obstacle::Ledger), run) };
                Next::Settle(act, faults::unclaimed(item, &fault, run))
            }
        }
    }

    /// Retries an event, unless it has become too old by now. A function is invoked at once. A queue's message goes out
    /// with others.
    async fn retry<'a>(&self, act: Act<'a>) -> Next<'a> {
        // The claim and the calls before this one take time.
        let expiry = act.item().judgement.schedule.map(|schedule| schedule.expiry);
        if expiry.is_some_and(|expiry| self.run.clock.now() > expiry) {
            return Next::Settle(act, Settlement::DeadLetter(Reason::MaxAgeExceeded));
        }
        match act.item().sent_back() {
            Some(message) => Next::SendBack(act, message),
            None => self.invoke(act).await,
        }
    }

    /// Invokes the target. If Lambda does not accept the invocation, the message has to be settled.
    async fn invoke<'a>(&self, act: Act<'a>) -> Next<'a> {
        let (item, run) = (act.item(), self.run);
        let judgement = &item.judgement;
        let (Some(failure), Some(schedule), Some(envelope)) =
            (item.failure(), judgement.schedule, judgement.envelope())
        else {
            return Next::Nothing;
        };
        let lateness = between(schedule.due, run.clock.now());
        let policy = self.settings.rules.policies.of(failure.target.name());
        let tenant = policy.tenant(&envelope.payload);
        let invocation = |tenant_id| Invocation {
            function: failure.target.as_str(),
            payload: match failure.is_sent_bare() {
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
        let progress = Progress::of(&invoked);
        let act = Act { held: act.held.map(|held| Held { progress, ..held }), ..act };
        match invoked.answer {
            Ok(request_id) => {
                act.end(Outcome::Invoked { lateness, run: request_id }, run);
                Next::Invoked(act)
            }
            Err(fault) => {
                // The payload lacks what Lambda demands.
                let lacking = tenant.err().filter(|_| fault.is_about_tenant());
                let (settlement, obstacle) =
                    faults::not_accepted(item, &lacking.unwrap_or(fault), run);
                Next::Settle(act.hindered(obstacle, run), settlement)
            }
        }
    }
}
