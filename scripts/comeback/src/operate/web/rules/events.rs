//! The latest events, each with its steps.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use comeback_core::{Timestamp, record::Condition, register::Entry, time::earlier};

use super::{
    event::{Event, EventFilter},
    pulse::{Counts, PARTS, Pulse, Range, count_step},
    standing::Standing,
};

use crate::{
    account::names::{is_queue, target_name},
    activity::runs::Run,
    events_of_runs::EventsOfRuns,
    groups::Groups,
    life::{Line, Step, StepKind, read, steps_of},
    typed::NONE,
};

const KEPT_MAX: usize = 100_000;

/// The most lines to keep about a run whose event is not known: the first one, which says when it has failed, and the
/// latest.
const LINES_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub struct Page<'a> {
    pub events: Vec<&'a Event>,
    pub of: usize,
    /// The number of matching events that are later than these.
    pub later: usize,
    /// The numbers with which the pages before and after this one begin.
    pub newer: Option<usize>,
    pub older: Option<usize>,
}

#[derive(Debug, Default)]
pub struct Events {
    /// The events, in the order in which they were first reported.
    kept: VecDeque<Event>,
    first: usize,
    numbers: HashMap<Arc<str>, usize>,
    /// The waiting events, by when they come back. This index exists because the live page queries it often.
    waiting: BTreeSet<(Timestamp, usize)>,
    /// Where the events of each function stand, but for the times of those that wait.
    standings: BTreeMap<String, Standing>,
    /// Counts of each function, by second and by minute.
    counted: BTreeMap<String, [BTreeMap<i64, Counts>; 2]>,
    /// Since when Lambda has refused to run the events of a function.
    refused: BTreeMap<String, Timestamp>,
    /// The events of runs, and the lines about each run whose event is not known yet.
    runs: EventsOfRuns<Line>,
}

impl Events {
    pub fn line(&mut self, line: &str) {
        let Some(line) = read(line) else { return };
        let awaited = self.runs.learn(&line);
        let mut lines: Vec<_> = awaited.into_iter().flat_map(|(_, _, lines)| lines).collect();
        lines.push(line);
        lines.sort_by_key(Line::at);
        lines.into_iter().for_each(|line| self.add_line(line));
    }

    /// Adds a line to its event. As long as that is not known, it may be that of an event that was retried, so the line
    /// is kept: it is no other event.
    fn add_line(&mut self, line: Line) {
        let (Some(at), Some(run)) = (line.at(), line.request_id.as_deref()) else { return };
        let Some(id) = self.runs.event_of(&line).map(str::to_owned) else {
            let lines = self.runs.awaits(run);
            lines.into_iter().for_each(|lines| {
                lines.push(line.clone());
                if lines.len() > LINES_MAX {
                    lines.remove(1);
                }
            });
            return;
        };
        let function = line.target.clone().unwrap_or_default();
        // The failure of a queue's message is its first receive. The consumer has had it since.
        let age = Duration::from_secs(line.age_seconds.unwrap_or_default());
        let began = if is_queue(&function) { earlier(at, age) } else { at };
        self.change(&id, &function, began, |event| {
            steps_of(at, line, &mut event.steps);
        });
    }

    /// Takes in which event a run is of, before the lines that may be about it.
    pub fn knows(&mut self, run: &Run) {
        let awaited = self.runs.know(&run.request_id, run.of());
        awaited.into_iter().for_each(|line| self.add_line(line));
    }

    pub fn accepted(&mut self, run: &Run, function: &str, at: Timestamp) {
        self.change(&run.event_id, function, at, |event| {
            event.queued = Some(Arc::clone(&run.request_id));
        });
    }

    pub fn started(&mut self, run: &Run, function: &str, at: Timestamp) {
        let function = run.queue.as_deref().unwrap_or(function);
        self.change(&run.event_id, function, at, |event| {
            event.queued.take_if(|queued| *queued == run.request_id);
            event.running = Some(Arc::clone(&run.request_id));
            event.started.push((Arc::clone(&run.request_id), at));
        });
    }

    /// Since when Lambda has refused to run the events of a function, if it still does as far as is known.
    pub fn refused_since(&self, function: &str) -> Option<Timestamp> {
        self.refused.get(function).copied()
    }

    pub fn runs_again(&mut self, function: &str) {
        self.refused.remove(function);
    }

    /// Records that Lambda gave an event up: this run was not made, or it was the last one. The event is lost if
    /// Lambda has no destination for it.
    pub fn given_up_by_lambda(
        &mut self,
        id: &str,
        run: Option<&Run>,
        at: Timestamp,
        condition: &str,
        is_lost: bool,
    ) {
        let id = run.map_or(id, |run| &run.event_id);
        if !self.numbers.contains_key(id) {
            return;
        }
        self.change(id, "", at, |event| {
            if let Some(Run { request_id, attempt, .. }) = run {
                event.queued.take_if(|queued| queued == request_id);
                let next = match condition {
                    Condition::PAUSED => (*attempt).max(1),
                    _ => attempt.saturating_add(1),
                };
                let what = StepKind::NotRun { condition: condition.to_owned() };
                fails(event, request_id, at, next, what);
            }
            if is_lost {
                let reason = format!("lost, because Lambda sends its failure nowhere: {condition}");
                let (what, request_id) = (StepKind::GivenUp { reason }, id.to_owned());
                event.steps.push(Step { at, attempt: None, request_id, policy: None, what });
            }
        });
    }

    /// Records the end of a run. The error has an optional type and a message.
    pub fn ended(&mut self, run: &Run, at: Timestamp, error: Option<(Option<String>, String)>) {
        let Run { request_id, attempt, event_id, .. } = run;
        if !self.numbers.contains_key(event_id) {
            return;
        }
        self.change(event_id, "", at, |event| {
            event.running.take_if(|running| running == request_id);
            let (attempt, what) = match error {
                None => (*attempt, StepKind::Succeeded),
                Some((error_type, message)) => {
                    let error_message = Some(message).filter(|message| !message.is_empty());
                    (attempt.saturating_add(1), StepKind::Failed { error_type, error_message })
                }
            };
            fails(event, request_id, at, attempt, what);
        });
    }

    /// Adds an event from the register. It may have begun to wait before the first log line that was read.
    pub fn registered(&mut self, entry: &Entry, now: Timestamp) {
        let step = |what| Step {
            at: entry.first_failure,
            attempt: Some(entry.attempt),
            request_id: entry.request_id().to_owned(),
            policy: entry.policy.clone(),
            what,
        };
        let id = self.runs.event(entry.request_id(), Some(&entry.event_id));
        let id = id.unwrap_or_default().to_owned();
        self.change(&id, &entry.target, entry.first_failure, |event| {
            match event.steps.iter_mut().rfind(|it| it.what.is_failure()) {
                Some(Step { request_id, what: StepKind::Failed { error_message, .. }, .. })
                    if *request_id == entry.request_id() =>
                {
                    *error_message = entry.error_message.clone();
                }
                Some(_) => {}
                None => {
                    let (error_type, error_message) =
                        (entry.error_type.clone(), entry.error_message.clone());
                    event.steps.push(step(StepKind::Failed { error_type, error_message }));
                    let waits =
                        StepKind::Waits { due_at: Some(entry.due), until: entry.due, again: 0 };
                    event.steps.push(Step { at: now.min(entry.due), ..step(waits) });
                }
            }
        });
    }

    /// Changes an event, which is added if it is not known.
    fn change(&mut self, id: &str, function: &str, at: Timestamp, change: impl FnOnce(&mut Event)) {
        let number = match self.numbers.get(id) {
            Some(number) => *number,
            None => self.add(id, function, at),
        };
        let Some(event) = self.kept.get_mut(number - self.first) else { return };
        let (before, known) = (event.waits_until(), event.steps.len());
        let place = event.place();
        change(event);
        if event.steps.len() > known {
            let counted = self.counted.entry(event.function.clone()).or_default();
            event.steps[known..].iter().for_each(|step| count_step(counted, step));
        }
        for step in &event.steps[known..] {
            match &step.what {
                StepKind::NotRun { condition } if condition == Condition::PAUSED => {
                    self.refused.entry(event.function.clone()).or_insert(step.at);
                }
                StepKind::Failed { .. } | StepKind::Succeeded => {
                    self.refused.remove(&event.function);
                }
                StepKind::NotRun { .. }
                | StepKind::Undelivered { .. }
                | StepKind::Waits { .. }
                | StepKind::Retried { .. }
                | StepKind::Delivered { .. }
                | StepKind::GivenUp { .. }
                | StepKind::Dropped
                | StepKind::Trouble { .. } => {}
            }
        }
        move_late_retry(&mut event.steps);
        if let Some(standing) = self.standings.get_mut(&event.function) {
            standing.moves(Some(place), Some(event.place()));
        }
        let after = event.waits_until();
        if before != after {
            before.map(|until| self.waiting.remove(&(until, number)));
            self.waiting.extend(after.map(|until| (until, number)));
        }
    }

    fn add(&mut self, id: &str, function: &str, at: Timestamp) -> usize {
        let event = Event {
            id: id.into(),
            function: target_name(function).into_owned(),
            steps: Vec::new(),
            queued: None,
            running: None,
            began: at,
            started: Vec::new(),
        };
        let standing = self.standings.entry(event.function.clone()).or_default();
        standing.moves(None, Some(event.place()));
        let number = self.first + self.kept.len();
        self.numbers.insert(Arc::clone(&event.id), number);
        self.kept.push_back(event);
        if self.kept.len() > KEPT_MAX
            && let Some(oldest) = self.kept.pop_front()
        {
            self.first += 1;
            self.numbers.remove(&oldest.id);
            let standing = self.standings.get_mut(&oldest.function);
            standing.into_iter().for_each(|it| it.moves(Some(oldest.place()), None));
            let until = oldest.waits_until();
            until.map(|until| self.waiting.remove(&(until, self.first - 1)));
        }
        number
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The counts of a function, or of all functions, in the range before `now`.
    pub fn pulse(&self, function: Option<&str>, range: Range, now: Timestamp) -> Pulse {
        let (by, unit, length) = match range {
            Range::Minute => (0, 1, 1),
            Range::Hour => (1, 60, 1),
            Range::Day => (1, 60, 24),
        };
        let last = now.timestamp().div_euclid(unit);
        let mut parts = [Counts::default(); PARTS];
        for (name, counted) in &self.counted {
            if function.is_none_or(|wanted| wanted == name) {
                for (at, counts) in counted[by].range(last - length * PARTS as i64 + 1..=last) {
                    let part =
                        &mut parts[PARTS - 1 - usize::try_from((last - at) / length).unwrap_or(0)];
                    *part = std::array::from_fn(|kind| part[kind] + counts[kind]);
                }
            }
        }
        Pulse(parts)
    }

    /// The functions and the last error types of all events, by which the list can be filtered.
    pub fn choices(&self) -> [BTreeSet<&str>; 2] {
        [
            self.kept.iter().map(|event| &*event.function).collect(),
            self.kept.iter().filter_map(|event| event.error().0).collect(),
        ]
    }

    pub fn get(&self, id: &str) -> Option<&Event> {
        self.kept.get(*self.numbers.get(id)? - self.first)
    }

    /// A page of the events that match a filter, the latest first, from the event with this number. A page that begins
    /// with a number doesn't move while more events come.
    pub fn page(&self, wanted: &EventFilter, from: Option<usize>, length: usize) -> Page<'_> {
        let from = from.unwrap_or(usize::MAX);
        let is_wanted = |event| wanted.is_everything() || wanted.matches(event);
        let all: Vec<_> = self.numbered().filter(|(_, event)| is_wanted(event)).collect();
        let later = all.partition_point(|(number, _)| *number > from);
        let number = |nth: usize| all.get(nth).map(|(number, _)| *number);
        Page {
            events: all[later..].iter().take(length).map(|(_, event)| *event).collect(),
            of: all.len(),
            later,
            newer: number(later.saturating_sub(length)).filter(|_| later > 0),
            older: number(later.saturating_add(length)),
        }
    }

    /// The next newer and the next older event that match a filter.
    pub fn neighbours(&self, id: &str, wanted: &EventFilter) -> [Option<&Event>; 2] {
        let Some(nth) = self.numbers.get(id).map(|number| number - self.first) else {
            return [None; 2];
        };
        let is_wanted = |event: &&Event| wanted.matches(event);
        [self.kept.range(nth + 1..).find(is_wanted), self.kept.range(..nth).rev().find(is_wanted)]
    }

    /// The latest failed events of each of these functions, at most the wanted number.
    pub fn latest_failed(&self, wanted: &[(&str, usize)]) -> Vec<Vec<&Event>> {
        let mut found = vec![Vec::new(); wanted.len()];
        let mut left: usize = wanted.iter().map(|(_, length)| length).sum();
        for (_, event) in self.numbered() {
            if left == 0 {
                break;
            }
            let nth = wanted.iter().position(|(function, _)| *function == event.function);
            let Some(nth) = nth.filter(|nth| found[*nth].len() < wanted[*nth].1) else { continue };
            if event.has_failed() {
                found[nth].push(event);
                left -= 1;
            }
        }
        found
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &Event)> {
        (self.first..self.first + self.kept.len()).zip(&self.kept).rev()
    }

    pub fn groups(&self, wanted: &EventFilter) -> Groups {
        let mut groups = Groups::default();
        for event in self.kept.iter().filter(|event| wanted.matches(event)) {
            let error = event.error().0.unwrap_or(NONE).to_owned();
            let key = vec![event.function.clone(), error, event.state().name().to_owned()];
            groups.count(key, event.steps.last().map(|step| step.at));
        }
        groups
    }

    /// Where the events of each function stand now.
    pub fn standings(&self) -> BTreeMap<String, Standing> {
        let mut all = self.standings.clone();
        for (until, number) in &self.waiting {
            let Some(event) = self.kept.get(number - self.first) else { continue };
            let Some(of) = all.get_mut(&event.function) else { continue };
            of.next = of.next.or(Some(*until));
            of.oldest = of.oldest.into_iter().chain(event.failed_at()).min();
        }
        all
    }

    /// Whether older events were forgotten, because there were too many.
    pub fn has_forgotten(&self) -> bool {
        self.first > 0
    }
}

/// The first of each list in turn, up to `length` in all, but in the order of the lists.
pub fn shared_out<T: Copy>(lists: &[Vec<T>], length: usize) -> Vec<T> {
    let mut shares = vec![0; lists.len()];
    for _ in 0..length.min(lists.iter().map(Vec::len).sum()) {
        let open = (0..lists.len()).filter(|nth| shares[*nth] < lists[*nth].len());
        if let Some(least) = open.min_by_key(|nth| shares[*nth]) {
            shares[least] += 1;
        }
    }
    lists.iter().zip(shares).flat_map(|(list, share)| &list[..share]).copied().collect()
}

/// Adds what became of a run to the steps of its event. The handler may have logged it before, without its message.
fn fails(event: &mut Event, request_id: &str, at: Timestamp, attempt: u32, what: StepKind) {
    let logged =
        event.steps.iter_mut().find(|step| step.request_id == request_id && step.what.is_failure());
    match logged {
        Some(step) => step.what = what,
        None => {
            let (attempt, request_id) = (Some(attempt), request_id.to_owned());
            event.steps.push(Step { at, attempt, request_id, policy: None, what });
        }
    }
}

/// Moves a retry that was reported late before the steps that resulted from it. The handler logs a retry after Lambda
/// has accepted it. By then, the run may have ended, and its result may already be among the steps.
fn move_late_retry(steps: &mut [Step]) {
    let [.., last] = &*steps else { return };
    let (StepKind::Retried { .. }, Some(attempt)) = (&last.what, last.attempt) else { return };
    let request_id = last.request_id.clone();
    let is_later = |step: &Step| match &step.what {
        StepKind::Succeeded => step.attempt == Some(attempt),
        // The attempt that was not run is made again.
        StepKind::NotRun { .. } => step.request_id != request_id,
        StepKind::Failed { .. }
        | StepKind::Undelivered { .. }
        | StepKind::Waits { .. }
        | StepKind::Trouble { .. }
        | StepKind::Dropped => step.attempt == Some(attempt + 1),
        StepKind::Retried { .. } | StepKind::Delivered { .. } | StepKind::GivenUp { .. } => false,
    };
    let later = steps.iter().rev().skip(1).take_while(|step| is_later(step)).count();
    let from = steps.len() - 1 - later;
    steps[from..].rotate_right(1);
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    use crate::{
        life::tests::{GIVEN_UP, RETRIED, RULE, at, delivered, line},
        operate::{
            attempts::attempts,
            waiting::rules::stand_in::{event, second},
            web::rules::event::State,
        },
    };

    fn waits(seconds: u32) -> String {
        format!(r#""decision":"wait","delay_seconds":{seconds}.0"#)
    }

    fn run(request_id: &str, event_id: &str, attempt: u32) -> Run {
        let (request_id, event_id) = (request_id.into(), event_id.into());
        Run { request_id, attempt, event_id, queue: None }
    }

    /// The events after these reports about the event `a`, such as `4 starts b`: at second 4, its run `b` starts. The
    /// first run has the id `a`.
    fn told(reports: &str) -> Events {
        let mut events = Events::default();
        for report in reports.split(", ") {
            let words: Vec<_> = report.split(' ').collect();
            let (second, request) = (words[0].parse().unwrap(), words[2]);
            let run = run(request, "a", u32::from(request != "a"));
            let down = || Some((Some("Down".to_owned()), "503".to_owned()));
            match words[1] {
                "accepted" => events.accepted(&run, "orders", at(second)),
                "refused" => events.given_up_by_lambda(
                    request,
                    Some(&run),
                    at(second),
                    Condition::PAUSED,
                    false,
                ),
                "lost" => events.given_up_by_lambda(request, None, at(second), "Spent", true),
                "starts" => events.started(&run, "orders", at(second)),
                "fails" => events.ended(&run, at(second), down()),
                "succeeds" => events.ended(&run, at(second), None),
                "waits" => events.line(&line(second, "a", request, &waits(2))),
                "retried" => events.line(&line(second, "a", request, RETRIED)),
                other => panic!("{other}"),
            }
        }
        events
    }

    #[test]
    fn an_event_is_followed_whichever_source_reports_first() {
        for (reports, state, steps) in [
            ("0 accepted a", State::AtLambda, ""),
            ("0 accepted a, 3 starts a", State::Running, ""),
            ("0 starts a", State::Running, ""),
            ("0 starts a, 1 fails a", State::Queued, "failed"),
            ("0 starts a, 1 fails a, 2 waits a", State::Waiting, "failed waits"),
            ("0 starts a, 2 waits a, 1 fails a, 1 fails a", State::Waiting, "failed waits"),
            (
                "0 starts a, 1 fails a, 2 waits a, 4 retried a",
                State::Retried,
                "failed waits retried",
            ),
            (
                "0 starts a, 1 fails a, 2 waits a, 4 retried a, 4 starts b, 5 succeeds b",
                State::Succeeded,
                "failed waits retried succeeded",
            ),
            ("0 starts a, 1 fails a, 2 waits a, 4 accepted b", State::AtLambda, "failed waits"),
            // Lambda does not run it, and the handler is told so.
            (
                "0 starts a, 1 fails a, 2 waits a, 4 accepted b, 4 retried a, 5 refused b, 6 waits b",
                State::Waiting,
                "failed waits retried refused waits",
            ),
            ("0 accepted a, 1 refused a", State::Queued, "refused"),
            // The lines of the handler that were read together with Lambda's reports come before these.
            ("1 waits a, 0 accepted a, 1 refused a", State::Waiting, "refused waits"),
            (
                "0 accepted a, 1 refused a, 2 waits a, 9 retried a, 9 waits b, 9 accepted b, 9 refused b",
                State::Waiting,
                "refused waits retried refused waits",
            ),
            (
                "0 accepted a, 1 refused a, 2 waits a, 9 accepted b, 9 refused b, 9 retried a",
                State::Queued,
                "refused waits retried refused",
            ),
            ("0 starts a, 1 fails a, 1 lost a", State::GivenUp, "failed other"),
            // The decision to retry is older than the run b.
            (
                "0 starts a, 1 fails a, 2 waits a, 4 retried a, 4 starts b, 5 fails b",
                State::Queued,
                "failed waits retried failed",
            ),
            // The retry is reported late.
            (
                "0 starts a, 0 fails a, 0 waits a, 2 starts b, 2 succeeds b, 2 retried a",
                State::Succeeded,
                "failed waits retried succeeded",
            ),
        ] {
            let events = told(reports);
            let event = events.get("a").unwrap();
            let names = event.steps.iter().map(|step| match step.what {
                StepKind::Failed { .. } => "failed",
                StepKind::NotRun { .. } => "refused",
                StepKind::Waits { .. } => "waits",
                StepKind::Retried { .. } => "retried",
                StepKind::Succeeded => "succeeded",
                StepKind::Undelivered { .. }
                | StepKind::Delivered { .. }
                | StepKind::GivenUp { .. }
                | StepKind::Dropped
                | StepKind::Trouble { .. } => "other",
            });
            let names = names.collect::<Vec<_>>().join(" ");
            assert_eq!((event.state(), &*names), (state, steps), "{reports}");
            let next = events.standings()["orders"].next;
            assert_eq!(next.is_some(), state == State::Waiting, "{reports}");
        }
        let events =
            told("0 starts a, 1 fails a, 2 waits a, 4 retried a, 4 starts b, 5 succeeds b");
        let event = events.get("a").unwrap();
        assert_eq!(event.error(), (Some("Down"), Some("503")));
        assert_eq!((event.attempt(), &*event.function), (1, "orders"));
        let pulse = events.pulse(None, Range::Minute, at(5));
        let seconds = [0, 1, 2, 3].map(|kind| {
            let has = |nth: &usize| pulse.0[*nth][kind] > 0;
            (0..PARTS).filter(has).map(|nth| nth + 6 - PARTS).collect::<Vec<_>>()
        });
        assert_eq!(seconds, [vec![1], vec![4], vec![5], vec![]]);
    }

    /// A line about a run of which it is not known which event it continues, and the line of the retry that started it.
    fn unknown(second: u32, request: &str) -> String {
        line(second, "any", request, &waits(20)).replace(r#""event_id":"any","attempt":1,"#, "")
    }

    fn retried_as(second: u32, event: &str, request: &str, retry: &str) -> String {
        line(second, event, request, &format!(r#"{RETRIED},"retry_request_id":"{retry}""#))
    }

    #[test]
    fn a_retry_without_an_envelope_is_no_event_of_its_own_whichever_line_is_read_first() {
        let failed = line(1, "a", "a", &waits(2));
        let (retried, failed_again) = (retried_as(3, "a", "a", "b"), unknown(4, "b"));
        for lines in [[&failed, &retried, &failed_again], [&failed, &failed_again, &retried]] {
            let mut events = Events::default();
            lines.into_iter().for_each(|line| events.line(line));
            let event = events.get("a").unwrap();
            assert_eq!((event.state(), event.failures()), (State::Waiting, 2), "{lines:?}");
            let it = &events.standings()["orders"];
            assert_eq!((it.failed(), it.waiting(), it.next), (1, 1, Some(at(24))));
        }
        // Its own next line says the event, too. Until then it is counted nowhere.
        let mut events = Events::default();
        (0..2 * 8).for_each(|nth| events.line(&unknown(nth, "b")));
        assert!(events.is_empty());
        events.line(&line(40, "a", "b", &waits(2)));
        let event = events.get("a").unwrap();
        assert_eq!((&*event.function, event.failed_at()), ("orders", Some(at(0))));
        assert_eq!(events.standings()["orders"].failed(), 1);
    }

    #[test]
    fn what_lambda_did_not_run_is_no_failed_run_and_says_since_when_it_is_refused() {
        let facts = |reports: &str| {
            let events = told(reports);
            let event = events.get("a").unwrap();
            let [failed, ..] = events.pulse(None, Range::Hour, at(60)).sum();
            let since = events.refused_since("orders");
            (event.failures(), failed, event.refusals(), event.attempt(), since)
        };
        let refused =
            "0 accepted a, 1 refused a, 2 waits a, 9 retried a, 9 accepted b, 9 refused b";
        assert_eq!(facts(refused), (0, 0, 2, 1, Some(at(1))));
        let runs = format!("{refused}, 10 waits b, 20 retried b, 20 starts c, 21 succeeds c");
        assert_eq!(facts(&runs), (0, 0, 2, 1, None));
        let fails = "0 starts a, 1 fails a, 2 waits a, 9 retried a, 9 accepted b, 9 refused b";
        assert_eq!(facts(fails), (1, 1, 1, 1, Some(at(9))));
    }

    #[test]
    fn a_first_failure_whose_run_was_seen_waits_though_it_may_be_of_another_events_retry() {
        let mut events = Events::default();
        let first = run("a", "a", 0);
        events.knows(&first);
        events.started(&first, "orders", at(0));
        events.ended(&first, at(1), Some((None, "503".to_owned())));
        events.line(&unknown(2, "a"));
        assert_eq!(events.get("a").unwrap().state(), State::Waiting);
    }

    #[test]
    fn a_page_has_the_latest_events_that_match() {
        let mut events = Events::default();
        for nth in 0..10 {
            let id = format!("e{nth}");
            events.line(&line(nth, &id, &id, if nth % 2 == 0 { RETRIED } else { GIVEN_UP }));
        }
        let all = EventFilter::default();
        let given_up = EventFilter { state: Some(State::GivenUp), ..EventFilter::default() };
        for (wanted, from, ids, of, cursors) in [
            (&all, None, "e9 e8 e7", 10, (None, 0, Some(6))),
            (&all, Some(6), "e6 e5 e4", 10, (Some(9), 3, Some(3))),
            (&given_up, None, "e9 e7 e5", 5, (None, 0, Some(3))),
            (&given_up, Some(3), "e3 e1", 5, (Some(9), 3, None)),
        ] {
            let page = events.page(wanted, from, 3);
            let found: Vec<_> = page.events.iter().map(|event| &*event.id).collect();
            assert_eq!((&*found.join(" "), page.of), (ids, of), "{wanted:?} {from:?}");
            assert_eq!((page.newer, page.later, page.older), cursors, "{wanted:?} {from:?}");
        }
        let latest = events.latest_failed(&[("other", 2), ("orders", 2)]);
        let ids = latest.iter().map(|of| of.iter().map(|it| &*it.id).collect::<Vec<_>>());
        assert_eq!(ids.collect::<Vec<_>>(), [vec![], vec!["e9", "e8"]]);
        let text = |text: &str| Some(text.to_owned());
        for (wanted, of) in [
            (EventFilter { function: text("order"), ..all.clone() }, 0),
            (EventFilter { function: text("ord*"), ..all.clone() }, 10),
            (EventFilter { error: text(NONE), ..all.clone() }, 0),
            (EventFilter { text: text("E3"), ..all.clone() }, 1),
        ] {
            assert_eq!(events.page(&wanted, None, 3).of, of, "{wanted:?}");
        }
        let groups = events.groups(&all);
        let groups = groups.largest_first();
        let found: Vec<_> = groups.iter().map(|(key, group)| (&*key[2], group.count)).collect();
        assert_eq!(found, [("given up", 5), ("retried", 5)]);
    }

    #[test]
    fn an_event_has_a_newer_and_an_older_one_that_match_the_filter() {
        let mut events = Events::default();
        for nth in 0..6 {
            let id = format!("e{nth}");
            events.line(&line(nth, &id, &id, if nth % 2 == 0 { RETRIED } else { GIVEN_UP }));
        }
        let all = EventFilter::default();
        let given_up = EventFilter { state: Some(State::GivenUp), ..EventFilter::default() };
        for (id, wanted, expected) in [
            ("e2", &all, [Some("e3"), Some("e1")]),
            ("e2", &given_up, [Some("e3"), Some("e1")]),
            ("e3", &given_up, [Some("e5"), Some("e1")]),
            ("e5", &all, [None, Some("e4")]),
            ("e0", &all, [Some("e1"), None]),
            ("gone", &all, [None, None]),
        ] {
            let found = events.neighbours(id, wanted).map(|it| it.map(|event| &*event.id));
            assert_eq!(found, expected, "{id} {wanted:?}");
        }
    }

    #[test]
    fn the_oldest_events_are_dropped_when_there_are_too_many() {
        let mut events = Events::default();
        for nth in 0..KEPT_MAX + 5 {
            let id = nth.to_string();
            events.started(&run(&id, &id, 0), "orders", at(0));
        }
        assert!(events.get("4").is_none() && events.get("5").is_some());
        events.ended(&run("4", "4", 0), at(1), None);
        assert_eq!(events.kept.len(), KEPT_MAX, "the end of an event that is forgotten adds none");
    }

    #[test]
    fn the_waiting_events_of_a_function_have_a_next_and_an_oldest_one() {
        let mut events = Events::default();
        for (nth, seconds) in [(0, 30), (1, 5)] {
            let id = nth.to_string();
            events.line(&line(nth, &id, &id, &waits(seconds)));
        }
        let waiting = |events: &Events| {
            let all = events.standings();
            let it = &all["orders"];
            (it.waiting(), it.next, it.oldest)
        };
        assert_eq!(waiting(&events), (2, Some(at(6)), Some(at(0))));
        events.line(&line(7, "1", "1", RETRIED));
        assert_eq!(waiting(&events), (1, Some(at(30)), Some(at(0))), "one waits no longer");
    }

    proptest! {
        /// Whatever is reported, and in whatever order: each failed event is counted once, where its state says.
        #[test]
        fn each_failed_event_waits_or_is_at_lambda_or_is_back_or_was_given_up(
            reports in vec((0..3_u32, 0..3_u32, 0..8_u32), 0..60),
        ) {
            let mut events = Events::default();
            for (second, (event, attempt, what)) in (0..).zip(reports) {
                let id = format!("e{event}");
                let request = if attempt == 0 { id.clone() } else { format!("{id}-{attempt}") };
                let (run, at) = (run(&request, &id, attempt), at(second));
                match what {
                    0 => events.accepted(&run, "orders", at),
                    1 => events.started(&run, "orders", at),
                    2 => events.ended(&run, at, Some((None, "503".to_owned()))),
                    3 => events.ended(&run, at, None),
                    4 => events.given_up_by_lambda(
                        &request,
                        Some(&run),
                        at,
                        Condition::PAUSED,
                        second % 2 == 0,
                    ),
                    5 => events.line(&line(second, &id, &request, &waits(2))),
                    6 => events.line(&line(second, &id, &request, RETRIED)),
                    _ => events.line(&line(second, &id, &request, GIVEN_UP)),
                }
                let all = events.standings();
                let it = Standing::sum(all.values());
                let parts = it.waiting() + it.at_lambda() + it.back() + it.given_up();
                let failed = events.kept.iter().filter(|event| event.has_failed()).count();
                prop_assert_eq!((it.failed(), parts), (failed as u64, failed as u64));
                let number = |state: State| {
                    let is_there = |event: &&Event| event.has_failed() && event.state() == state;
                    events.kept.iter().filter(is_there).count() as u64
                };
                prop_assert_eq!(it.waiting(), number(State::Waiting) + number(State::Queued));
                prop_assert_eq!(it.at_lambda(), it.queued() + number(State::Running));
                prop_assert_eq!(it.back(), number(State::Succeeded));
            }
        }
    }

    #[test]
    fn an_event_that_was_never_delivered_is_done_once_it_is_accepted() {
        let mut events = Events::default();
        let expected = [
            (State::Waiting, [1, 1, 0]),
            (State::Waiting, [1, 1, 0]),
            (State::Delivered, [1, 0, 1]),
            (State::Delivered, [2, 1, 1]),
        ];
        for (line, (state, numbers)) in delivered().iter().zip(expected) {
            events.line(line);
            let event = events.get("first").unwrap();
            assert_eq!((event.state(), event.undelivered_by()), (state, Some(RULE)));
            assert_eq!((event.error(), event.failures()), ((Some("Down"), None), 0));
            let it = &events.standings()["orders"];
            assert_eq!([it.failed(), it.waiting(), it.back()], numbers, "{line}");
            assert_eq!(it.at_lambda(), 0);
        }
        let first = events.get("first").unwrap();
        let [missed, delivered] = &attempts(first.began, &first.steps)[..] else {
            panic!("{first:?}")
        };
        assert_eq!((missed.undelivered_by.as_deref(), missed.attempt), (Some(RULE), 0));
        assert_eq!((delivered.is_delivered, delivered.ended), (true, Some(at(5))));
        assert_eq!(delivered.request_id.as_deref(), Some("second"));
    }

    #[test]
    fn the_first_run_of_a_queues_message_begins_with_its_receive() {
        let mut events = Events::default();
        let of_queue = line(9, "m", "m", &format!(r#"{},"age_seconds":5"#, waits(2)));
        events.line(&of_queue.replace(
            "lambda:us-east-1:1:function:orders:$LATEST",
            "sqs:us-east-1:123456789012:mails",
        ));
        events.line(&line(9, "a", "a", &format!(r#"{},"age_seconds":5"#, waits(2))));
        let began = |id: &str| {
            let event = events.get(id).unwrap();
            (event.began, attempts(event.began, &event.steps)[0].ended)
        };
        assert_eq!((began("m"), began("a")), ((at(4), Some(at(9))), (at(9), Some(at(9)))));
    }

    #[test]
    fn each_function_has_its_share_of_the_lines_and_the_most_urgent_the_rest() {
        for (lists, length, expected) in [
            (vec![vec![1, 2, 3], vec![7, 8, 9]], 4, vec![1, 2, 7, 8]),
            (vec![vec![1, 2, 3], vec![7, 8, 9]], 5, vec![1, 2, 3, 7, 8]),
            (vec![vec![1], vec![7, 8, 9]], 3, vec![1, 7, 8]),
            (vec![vec![], vec![7]], 3, vec![7]),
            (vec![], 3, vec![]),
        ] {
            assert_eq!(shared_out(&lists, length), expected, "{lists:?} {length}");
        }
    }

    #[test]
    fn a_forgotten_event_is_counted_nowhere() {
        let mut events = Events::default();
        events.line(&line(0, "old", "old", &waits(2)));
        assert_eq!(events.standings()["orders"].failed(), 1);
        for nth in 0..KEPT_MAX {
            let id = nth.to_string();
            events.accepted(&run(&id, &id, 0), "orders", at(1));
        }
        let standings = events.standings();
        let it = &standings["orders"];
        assert_eq!((it.failed(), it.first_runs(), it.next), (0, KEPT_MAX as u64, None));
        assert!(events.has_forgotten());
    }

    #[test]
    fn an_obstacle_to_an_attempt_is_known_until_the_attempt_is_made() {
        let refused = r#""decision":"invoke","error":"AccessDenied: no""#;
        let unlisted = r#""decision":"register","error":"Throttled: later""#;
        let mut events = Events::default();
        let mut obstacles = |second, what: &str| {
            events.line(&line(second, "a", "a", what));
            let event = events.get("a").unwrap();
            let all = event.obstacles().map(|(at, said, error)| {
                (at, said.to_owned(), error.unwrap_or_default().to_owned())
            });
            all.collect::<Vec<_>>()
        };
        let refusal = |second| (at(second), "said".to_owned(), "AccessDenied: no".to_owned());
        assert_eq!(obstacles(0, &waits(2)), []);
        assert_eq!(obstacles(1, unlisted), [], "it waits all the same");
        assert_eq!(obstacles(2, refused), [refusal(2)]);
        assert_eq!(obstacles(2, &waits(60)), [refusal(2)]);
        assert_eq!(obstacles(62, refused), [refusal(62), refusal(2)]);
        assert_eq!(obstacles(90, RETRIED), []);
    }

    #[test]
    fn a_range_has_the_steps_of_its_time_and_of_its_function() {
        let mut events = Events::default();
        events.line(&line(0, "a", "a", RETRIED));
        events.line(&line(600, "b", "b", RETRIED));
        for (function, range, retries) in [
            (None, Range::Minute, 1),
            (None, Range::Hour, 2),
            (Some("orders"), Range::Day, 2),
            (Some("other"), Range::Day, 0),
        ] {
            assert_eq!(events.pulse(function, range, at(610)).sum()[1], retries, "{function:?}");
        }
    }

    #[test]
    fn the_register_adds_events_that_are_in_no_log_line() {
        let mut events = Events::default();
        let entry = Entry { event_id: "old".to_owned(), attempt: 3, ..event("r2", 50) };
        for _ in 0..2 {
            events.registered(&entry, second(10));
        }
        let event = events.get("old").unwrap();
        assert_eq!((event.state(), event.steps.len()), (State::Waiting, 2));
        assert_eq!(event.error(), (Some("app.Down"), Some("no route to host")));
        events.line(&line(50, "old", "r2", RETRIED));
        events.registered(&entry, second(51));
        assert_eq!(events.get("old").unwrap().state(), State::Retried, "the log is later");
    }
}
