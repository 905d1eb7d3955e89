//! Orders that attach a function or a queue, or detach it.

use serde::Serialize;

use crate::{
    account::{fault::Answer, function::Function},
    aws::Aws,
    failure::Failure,
    notice::{Notice, Tone},
    operate::{
        attach::{
            change,
            rules::{
                carry_out::carry_out,
                plan::Plan,
                steps::{Planned, Step},
            },
        },
        logbook::{Begun, Ledger},
        order::{
            Ended, Found, Go, Kind, Order, Work,
            steps::{Done, STEPS, Steps},
        },
    },
};

/// The order that `comeback attach` gives, and that of `comeback detach`.
pub type Attach = Change<true>;
pub type Detach = Change<false>;

/// The steps that attach a function or a queue, or detach it.
pub struct Change<const ATTACHES: bool> {
    pub aws: Aws,
    pub plan: Plan,
    /// The function or the queue.
    pub name: String,
    pub handler: Function,
    /// The arguments of `comeback detach` that undo the steps, if that is possible.
    pub undo: Option<String>,
}

/// The document of `--json`.
#[derive(Serialize)]
pub struct ChangeJson {
    function: String,
    queue: String,
    plan: Vec<Planned>,
    warnings: Vec<String>,
    waiting: u64,
    done: usize,
    error: Option<String>,
}

impl<const ATTACHES: bool> Work for Change<ATTACHES> {
    type Tally = Done<String>;

    const KIND: Kind = Kind {
        name: if ATTACHES { "attach" } else { "detach" },
        title: if ATTACHES { "Attach {}" } else { "Detach {}" },
        undo: Some(if ATTACHES { "detach" } else { "attach" }),
        ..STEPS
    };

    fn target(&self) -> Option<String> {
        Some(self.name.clone())
    }

    fn ledger(&self) -> Option<Ledger> {
        Some(Ledger { aws: self.aws.clone(), handler: self.handler.clone() })
    }

    fn filter(&self) -> Vec<(&'static str, String)> {
        vec![("function", self.name.clone()), ("queue", self.plan.queue.clone())]
    }

    async fn carry_out(
        &self,
        _: &Begun,
        mut goes_on: impl FnMut(&Done<String>) -> bool + Send,
    ) -> (Done<String>, Result<(), Failure>) {
        let (aws, steps) = (&self.aws, &self.plan.steps);
        let mut done = Done::default();
        let note = |planned: &Planned| {
            done.0.push(planned.what.clone());
            goes_on(&done)
        };
        let change = |step: Step| async move { change::change(aws, &step).await };
        let ended = carry_out(steps, aws, change, note).await.map_err(|stopped| {
            let undo = self.undo.as_ref();
            let undo = undo.map(|undo| format!(", or comeback detach {undo} to undo them"));
            let text = format!(
                "{stopped}; {} of {} steps were carried out: run the same command again to continue{}",
                stopped.done,
                steps.len(),
                undo.unwrap_or_default()
            );
            Failure::Refused(text)
        });
        (done, ended)
    }

    fn notices(&self, Done(done): &Done<String>) -> Vec<Notice> {
        done.iter().map(Notice::good).collect()
    }
}

impl<const ATTACHES: bool> Order for Change<ATTACHES> {
    type Plan = Steps;
    type Document = ChangeJson;

    async fn plan(
        &mut self,
        mut found: impl FnMut(Option<Found<'_>>) -> Go + Send,
    ) -> Answer<Steps> {
        for Planned { what, is, becomes, .. } in &self.plan.steps {
            found(Some(Found { key: what, state: &[is, becomes] }));
        }
        Ok(Steps(self.plan.steps.len() as u64))
    }

    fn place(&self) -> String {
        let (verb, queue) = (Self::KIND.title(&self.name), &self.plan.queue);
        let preposition = if ATTACHES { "to" } else { "from" };
        format!("{verb} {preposition} {queue} of {}", self.handler.name())
    }

    fn needs_plan(&self) -> bool {
        true
    }

    fn plan_notices(&self, _: &Steps) -> Vec<Notice> {
        let Plan { queue, steps, warnings, waiting } = &self.plan;
        let mut notices = Vec::new();
        for Planned { what, is, becomes, .. } in steps {
            notices.push(Notice::plain(what));
            notices.push(Notice { tone: Tone::Faint, text: format!("  is:      {is}") });
            notices.push(Notice::plain(format!("  will be: {becomes}")));
        }
        if steps.is_empty() {
            notices.push(Notice::nothing_to_do());
        }
        notices.extend(warnings.iter().map(Notice::warning));
        notices.extend((*waiting > 0).then(|| {
            Notice::warning(format!(
                "{queue} still has {waiting} messages, so the permissions and settings that their retries need are kept: run this again when it is empty, or with --now"
            ))
        }));
        notices
    }

    fn document(&self, _: Option<Steps>, ended: Option<Ended<Done<String>>>) -> ChangeJson {
        let Plan { queue, steps, warnings, waiting } = self.plan.clone();
        let (done, error) = ended.map_or((0, None), |it| (it.tally.0.len(), it.error));
        ChangeJson {
            function: self.name.clone(),
            queue,
            plan: steps,
            warnings,
            waiting,
            done,
            error,
        }
    }
}
