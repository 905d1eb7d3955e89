//! What has become of each event so far, told by what happens in the local cloud.
//!
//! The story only ever learns from outside: from the request ids that Invoke returned, from runs and
//! their ends, and from the retry handler's own words. It does not know what the demo has planned.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use comeback_core::Timestamp;
use comeback_local::journal::Ending;

use crate::{
    deploy::HANDLER,
    happening::{Decided, Decision, Error, Happening, Run, What},
};

/// Everything that happened to the events of a demo.
#[derive(Debug)]
pub struct Story {
    /// When it began.
    pub began: Timestamp,
    /// The events' lives, in the order in which they are sent.
    pub lives: Vec<Life>,
    /// How late each re-invocation was.
    pub latenesses: Vec<Lateness>,
    /// What is wrong with the arrangement.
    pub troubles: Vec<String>,
    /// The events by the request ids of their first invocations.
    by_event: HashMap<Arc<str>, usize>,
    /// The attempts, with their events, by the request ids of their runs.
    by_run: HashMap<Arc<str>, (usize, u32)>,
    /// The request ids of the retry handler's runs that have not ended.
    handling: HashSet<Arc<str>>,
}

/// The life of one event.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// Its name.
    pub name: String,
    /// Whether it is one that shows something of its own.
    pub notable: bool,
    /// What happened to it, in order.
    pub steps: Vec<Step>,
}

/// Something that happened to an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: Turn,
}

impl Step {
    fn waits(&self) -> Option<Duration> {
        if let Turn::Waits { delay, .. } = self.what { Some(delay) } else { None }
    }
}

/// What can happen to an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// It was sent, and accepted.
    Sent,
    /// Its function was given it.
    Started {
        /// Which re-invocation this is; 0 is Lambda's own invocation.
        attempt: u32,
        /// The event without its envelope.
        payload: Box<str>,
    },
    /// The run failed.
    Failed {
        /// Which it was.
        attempt: u32,
        /// How.
        ending: Ending,
        /// With what.
        error: Error,
    },
    /// The run succeeded.
    Succeeded {
        /// Which it was.
        attempt: u32,
    },
    /// Its function could not be given it: paused, or out of concurrency.
    TurnedAway,
    /// It waits for its next attempt.
    Waits {
        /// Which that is.
        attempt: u32,
        /// When it is due.
        due: Timestamp,
        /// How long that was when the handler decided.
        delay: Duration,
    },
    /// It was given up.
    GivenUp {
        /// Why.
        reason: String,
    },
}

/// How late a re-invocation was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lateness {
    /// From its due time to its Invoke.
    pub total: Duration,
    /// The part that SQS adds, which counts a wait in whole seconds.
    pub rounding: Duration,
}

impl Lateness {
    /// What Comeback and the machine add.
    pub fn own(self) -> Duration {
        self.total.saturating_sub(self.rounding)
    }
}

/// Where an event stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It is not sent yet.
    Unsent,
    /// Its function is at it, or about to be.
    Running,
    /// It waits for its next attempt, or for the decision about it.
    Waiting,
    /// It succeeded.
    Succeeded,
    /// It is in the dead-letter queue.
    GivenUp,
}

impl Life {
    /// Where it stands.
    pub fn standing(&self) -> Standing {
        match self.steps.last().map(|step| &step.what) {
            None => Standing::Unsent,
            Some(Turn::Sent | Turn::Started { .. }) => Standing::Running,
            Some(Turn::Failed { .. } | Turn::TurnedAway | Turn::Waits { .. }) => Standing::Waiting,
            Some(Turn::Succeeded { .. }) => Standing::Succeeded,
            Some(Turn::GivenUp { .. }) => Standing::GivenUp,
        }
    }

    /// Whether its function was given it since it last began to wait.
    fn ran_since_it_waited(&self) -> bool {
        let last = self.steps.iter().rev().find(|step| {
            matches!(step.what, Turn::Sent | Turn::Started { .. } | Turn::Waits { .. })
        });
        last.is_some_and(|step| matches!(step.what, Turn::Started { .. }))
    }
}

impl Story {
    /// The beginning, with the names of its events, and whether each is notable.
    pub fn begin(began: Timestamp, events: impl IntoIterator<Item = (String, bool)>) -> Self {
        let life = |(name, notable)| Life { name, notable, steps: Vec::new() };
        Self {
            began,
            lives: events.into_iter().map(life).collect(),
            latenesses: Vec::new(),
            troubles: Vec::new(),
            by_event: HashMap::new(),
            by_run: HashMap::new(),
            handling: HashSet::new(),
        }
    }

    /// The event was accepted under this request id.
    pub fn sent(&mut self, event: usize, request_id: &str, at: Timestamp) {
        self.by_event.insert(request_id.into(), event);
        self.step(event, at, Turn::Sent);
    }

    /// Takes in what happened.
    pub fn observe(&mut self, happening: &Happening) {
        let Happening { at, function, what } = happening;
        if **function == *HANDLER {
            return self.observe_handler(*at, what);
        }
        match what {
            What::Started(run) => self.started(*at, run),
            What::Ended { request_id, ending, error } => {
                self.ended(*at, request_id, *ending, error.as_ref());
            }
            What::Trouble(trouble) => self.trouble(function, trouble),
            // Of what Lambda gives up the retry handler is told, and says what comes of it.
            What::GivenUpByLambda { .. } | What::Decided(_) | What::Said(_) => {}
        }
    }

    /// Whether every event has ended, and the retry handler is not busy with what was its message.
    pub fn is_over(&self) -> bool {
        let ended =
            |life: &Life| matches!(life.standing(), Standing::Succeeded | Standing::GivenUp);
        self.lives.iter().all(ended) && self.handling.is_empty()
    }

    /// When the last thing happened to an event.
    pub fn last_step_at(&self) -> Timestamp {
        let last = self.lives.iter().filter_map(|life| Some(life.steps.last()?.at)).max();
        last.unwrap_or(self.began)
    }

    fn observe_handler(&mut self, at: Timestamp, what: &What) {
        match what {
            What::Started(run) => {
                self.handling.insert(Arc::clone(&run.request_id));
            }
            What::Ended { request_id, error, .. } => {
                self.handling.remove(request_id);
                if let Some(error) = error {
                    self.trouble(HANDLER, &error.message);
                }
            }
            What::Decided(Decided { event_id, decision }) => {
                if let Some(&event) = self.by_event.get(event_id) {
                    self.decided(event, at, decision);
                }
            }
            What::Trouble(trouble) => self.trouble(HANDLER, trouble),
            What::GivenUpByLambda { .. } | What::Said(_) => {}
        }
    }

    fn started(&mut self, at: Timestamp, run: &Run) {
        if let Some(&event) = self.by_event.get(&run.event_id) {
            self.by_run.insert(Arc::clone(&run.request_id), (event, run.attempt));
            let turn = Turn::Started { attempt: run.attempt, payload: run.payload.clone() };
            self.step(event, at, turn);
        }
    }

    fn ended(&mut self, at: Timestamp, run: &Arc<str>, ending: Ending, error: Option<&Error>) {
        if let Some((event, attempt)) = self.by_run.remove(run) {
            let turn = match error.cloned() {
                None => Turn::Succeeded { attempt },
                Some(error) => Turn::Failed { attempt, ending, error },
            };
            self.step(event, at, turn);
        }
    }

    fn decided(&mut self, event: usize, at: Timestamp, decision: &Decision) {
        match decision {
            Decision::Wait { attempt, due, delay } => {
                if !self.lives[event].ran_since_it_waited() {
                    self.step(event, at, Turn::TurnedAway);
                }
                self.step(event, at, Turn::Waits { attempt: *attempt, due: *due, delay: *delay });
            }
            Decision::Invoke { lateness, .. } => {
                let waited = self.lives[event].steps.iter().rev().find_map(Step::waits);
                let rounding = waited.map_or(Duration::ZERO, rounding);
                self.latenesses.push(Lateness { total: *lateness, rounding });
            }
            Decision::DeadLetter { reason } => {
                self.step(event, at, Turn::GivenUp { reason: reason.clone() });
            }
        }
    }

    fn step(&mut self, event: usize, at: Timestamp, what: Turn) {
        self.lives[event].steps.push(Step { at, what });
    }

    fn trouble(&mut self, function: &str, trouble: &str) {
        self.troubles.push(format!("{function}: {trouble}"));
    }
}

/// What SQS, which counts in whole seconds, adds to a wait.
fn rounding(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)) - wait
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::testing::{at, decides, ends, fails, starts, story};

    fn turns(story: &Story) -> Vec<String> {
        story.lives[0]
            .steps
            .iter()
            .map(|step| match &step.what {
                Turn::Sent => "sent".to_owned(),
                Turn::Started { attempt, .. } => format!("started {attempt}"),
                Turn::Failed { attempt, .. } => format!("failed {attempt}"),
                Turn::Succeeded { attempt } => format!("succeeded {attempt}"),
                Turn::TurnedAway => "turned away".to_owned(),
                Turn::Waits { attempt, .. } => format!("waits for {attempt}"),
                Turn::GivenUp { reason } => reason.clone(),
            })
            .collect()
    }

    fn wait(attempt: u32, due: f64, delay: f64) -> Decision {
        Decision::Wait { attempt, due: at(due), delay: Duration::from_secs_f64(delay) }
    }

    #[test]
    fn an_event_is_followed_by_its_first_request_id_through_all_its_runs() {
        let mut story = story(1, &["order-1"]);
        for happening in [
            starts(0.1, "r0", "r0", 0),
            fails(0.2, "r0"),
            decides(0.3, "r0", wait(1, 1.3, 1.0)),
            decides(1.5, "r0", Decision::Invoke { attempt: 1, lateness: Duration::from_millis(7) }),
            starts(1.6, "other", "other", 0),
            starts(1.6, "r9", "r0", 1),
            ends(1.7, "r9"),
        ] {
            story.observe(&happening);
        }
        let expected = ["sent", "started 0", "failed 0", "waits for 1", "started 1", "succeeded 1"];
        assert_eq!(turns(&story), expected);
        assert!(story.is_over());
        assert_eq!(story.last_step_at(), at(1.7));
    }

    #[test]
    fn a_wait_without_a_run_before_it_means_that_the_event_was_turned_away() {
        let mut story = story(1, &["paused-1"]);
        story.observe(&decides(0.3, "r0", wait(1, 3.0, 2.7)));
        story.observe(&decides(3.4, "r0", wait(1, 6.0, 2.6)));
        let expected = ["sent", "turned away", "waits for 1", "turned away", "waits for 1"];
        assert_eq!(turns(&story), expected);
    }

    #[test]
    fn lateness_is_told_apart_from_the_rounding_of_sqs() {
        let mut story = story(1, &["order-1"]);
        story.observe(&decides(0.3, "r0", wait(1, 1.7, 1.4)));
        let lateness = Duration::from_millis(620);
        story.observe(&decides(2.32, "r0", Decision::Invoke { attempt: 1, lateness }));
        let lateness = story.latenesses[0];
        assert_eq!(lateness.rounding, Duration::from_millis(600));
        assert_eq!(lateness.own(), Duration::from_millis(20));
        assert_eq!(rounding(Duration::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn a_story_is_not_over_while_the_handler_is_busy() {
        let mut story = story(1, &["invalid-1"]);
        let handler = |happening: Happening| Happening { function: HANDLER.into(), ..happening };
        story.observe(&handler(starts(0.2, "h", "h", 0)));
        story.observe(&decides(0.3, "r0", Decision::DeadLetter { reason: "why".to_owned() }));
        assert_eq!(turns(&story), ["sent", "why"]);
        assert!(!story.is_over());
        story.observe(&handler(ends(0.4, "h")));
        assert!(story.is_over());
    }

    #[test]
    fn what_is_wrong_with_the_arrangement_is_kept() {
        let mut story = story(1, &["order-1"]);
        let what = What::Trouble("no such queue".to_owned());
        story.observe(&Happening { at: at(0.1), function: "example-target".into(), what });
        story.observe(&Happening { function: HANDLER.into(), ..fails(0.2, "h") });
        assert_eq!(story.troubles, ["example-target: no such queue", "retry-handler: 503"]);
    }
}
