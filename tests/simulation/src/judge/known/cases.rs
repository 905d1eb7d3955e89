//! Failures that reach a retry queue, and the judge's verdict on each.

use std::{
    collections::{HashSet, VecDeque},
    num::NonZero,
    ops::{Deref, DerefMut},
    rc::Rc,
    sync::Arc,
};

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{Timestamp, claim::Order, error_type::ErrorReport, lineage::Key};
use comeback_local_model::sqs::Outgoing;

use super::{
    Event, Known, Open, Subject,
    deliveries::{time_of, trace_of, was_moved},
    records::{NOTHING, Place},
    split::SPLIT,
    undelivered::Undelivered,
};
use crate::{
    choices::{Choices, Of},
    ids::{Id, Trace},
    payload::Foreign,
    plan::Form,
    policy::{Millis, NEVER, Next, STOPPED},
    seen::Seen,
    stream::{Batch, INVOCATION_MAX},
};

/// The maximum payload of an asynchronous invocation, and the maximum message of SQS, in bytes.
const SIZE_MAX: usize = INVOCATION_MAX;

const ATTRIBUTES_MAX: usize = 10;

/// An outage of an hour has millions of events that wait at once, each a first failure of a plain payload.
const _: () = assert!(size_of::<Event>() + size_of::<Case>() + size_of::<(Trace, u32)>() <= 256);

/// How many errors are compared with a new one.
const ERRORS_SHARED: usize = 8;

/// Why Lambda has given up an invocation.
#[derive(Clone, Copy, Eq, PartialEq)]
pub enum Condition {
    Failed,
    /// Its function has a reserved concurrency of 0.
    Paused,
    RecursionStopped,
    /// A mapping has given up a batch for which it has invoked the function itself.
    OfBatch,
}

/// A failure whose message is in a retry queue. It stays one case however often the message is delivered.
pub struct Case {
    pub of: Open,
    /// The invocation that has failed, if it was ever taken for another.
    truth: Option<Box<Open>>,
    pub request_id: Id,
    /// Whether its message was written by a stranger, and not by Lambda.
    pub strange: bool,
    /// Whether its message is a payload alone, from the function's own dead-letter queue.
    pub is_bare: bool,
    /// Whether it names a function for which its queue may not speak.
    pub is_refused: bool,
    /// Whether its next attempt is made without an envelope.
    pub is_transparent: bool,
    pub condition: Condition,
    pub error: Rc<ErrorReport>,
    pub at: Millis,
    pub first: Millis,
    verdict: Result<Later, &'static str>,
    /// The bounds of its due time, as its waits have shown: after the first, and at the second at the latest.
    pub shown: (Millis, Millis),
    /// Its exact due time, if an invocation has shown it.
    due: Option<NonZero<Millis>>,
    pub acts: u16,
    /// Whether handlers must claim it before they act, and whether the ledger has its mark.
    pub claimed: bool,
    pub marked: bool,
    /// The operator's order for the event, until the event is marked as done.
    pub order: Option<Order>,
    /// How many messages there are about it.
    pub messages: u16,
    rare: Option<Box<Rare>>,
}

/// [`Next`] in fewer bytes: in milliseconds after the failure. All its times fit, because they are later than the
/// failure, and SQS keeps no message for the 49 days that they could count.
#[derive(Clone, Copy)]
struct Later {
    attempt: u32,
    due: (u32, u32),
    is_even: bool,
    last_chance: u32,
    expiry: u32,
}

impl Later {
    #[allow(clippy::expect_used, reason = "a time that doesn't fit would be judged wrongly")]
    fn of(next: Next, at: Millis) -> Self {
        let Next { attempt, due: (low, high), is_even, last_chance, expiry } = next;
        let after = |time: Millis| u32::try_from(time - at).expect("it is at most 49 days later");
        let (last_chance, expiry) = (after(last_chance), after(expiry));
        Self { attempt, due: (after(low), after(high)), is_even, last_chance, expiry }
    }

    fn than(self, at: Millis) -> Next {
        let Self { attempt, due: (low, high), is_even, last_chance, expiry } = self;
        let time = |after: u32| at + Millis::from(after);
        let (last_chance, expiry) = (time(last_chance), time(expiry));
        Next { attempt, due: (time(low), time(high)), is_even, last_chance, expiry }
    }
}

/// What is known of few failures only.
#[derive(Default)]
struct Rare {
    /// Where its record lies, if it is in a bucket.
    place: Option<Place>,
    /// Why it must be given up, whatever else is known of it.
    over: Option<&'static str>,
    /// What its message says, if its event was never delivered.
    undelivered: Option<Undelivered>,
    /// The event of which it is only a part, if the run has named what it has not processed.
    cut_from: Option<usize>,
    /// The places of its records in the batch of its message, if it is a part of that.
    part: Option<String>,
    /// When it was seen first, and from when on SQS counts how long it keeps the message, if not since it failed.
    seen_at: Option<Millis>,
    kept: Option<Millis>,
    /// Until when its operator wants it to be kept.
    order_until: Timestamp,
}

/// All cases. An outage has millions, so those that are over are forgotten there, and others take their places.
#[derive(Default)]
pub struct Cases {
    all: Vec<Case>,
    over: Vec<usize>,
}

impl Cases {
    fn add(&mut self, case: Case) -> usize {
        match self.over.pop() {
            Some(place) => {
                self.all[place] = case;
                place
            }
            None => {
                self.all.push(case);
                self.all.len() - 1
            }
        }
    }
}

impl Deref for Cases {
    type Target = [Case];

    fn deref(&self) -> &[Case] {
        &self.all
    }
}

impl DerefMut for Cases {
    fn deref_mut(&mut self) -> &mut [Case] {
        &mut self.all
    }
}

/// The errors of the latest failures, which most of the next ones have too.
#[derive(Default)]
pub struct Errors(VecDeque<Rc<ErrorReport>>);

impl Errors {
    fn shared(&mut self, error: ErrorReport) -> Rc<ErrorReport> {
        if let Some(known) = self.0.iter().find(|known| ***known == error) {
            return Rc::clone(known);
        }
        let error = Rc::new(error);
        self.0.truncate(ERRORS_SHARED - 1);
        self.0.push_front(Rc::clone(&error));
        error
    }
}

/// A message to a retry queue that Lambda has not written.
pub struct Stranger {
    pub body: String,
    pub attributes: Vec<(&'static str, String)>,
    pub request_id: Arc<str>,
    /// The body of its dead letter. Only one that nobody vouches for may be cut.
    pub letter: String,
    pub envelope: Option<Foreign>,
    /// The reason for which it must be given up, or None if it is as good as a record from Lambda.
    pub over: Option<&'static str>,
    /// Whether it names a function for which its queue may not speak.
    pub is_refused: bool,
    /// Where its record lies, if it is in a bucket.
    pub place: Option<Place>,
    /// What it says, if it is EventBridge's, of an event that was never delivered.
    pub undelivered: Option<Undelivered>,
    /// The batch that a mapping has given up.
    pub batch: Option<Rc<Batch>>,
    pub kind: &'static str,
}

impl Stranger {
    /// One that is as good as a record from Lambda, and has no attributes.
    pub fn new(kind: &'static str, body: String, id: &str, payload: &str) -> Self {
        Self {
            body,
            attributes: Vec::new(),
            request_id: id.into(),
            letter: payload.to_owned(),
            envelope: None,
            over: None,
            is_refused: false,
            place: None,
            undelivered: None,
            batch: None,
            kind,
        }
    }
}

impl Known {
    /// Which attempt of which event has failed, by the trace of its message.
    pub fn failed_with(&self, trace: &str) -> Option<(usize, u32)> {
        let Open { event, attempt, .. } = *self.cases[self.case_with(trace)?].truth();
        Some((event, attempt))
    }

    pub fn truth_of(&self, subject: Subject) -> (usize, u32) {
        let Open { event, attempt, .. } = *self.cases[subject.case].truth();
        (event, attempt)
    }

    /// The request id of one of the victim's invocations, that has not ended or has failed, for a failure that another
    /// target invents. None of that target's failures has it yet.
    pub fn victims_request(
        &self,
        victim: usize,
        by: usize,
        of: Of,
        choices: &mut Choices,
    ) -> Option<Arc<str>> {
        let open = self.open.iter().filter(|(_, open)| open.target == victim);
        let open = open.map(|(id, _)| Arc::clone(id));
        let failed = self.cases.iter().filter(|case| case.of.target == victim && !case.strange);
        let failed = failed.map(|case| case.request_id.to_string().into());
        let mut ids: Vec<Arc<str>> = open.chain(failed).collect();
        let taken = self.cases.iter().filter(|case| case.of.target == by);
        let taken: HashSet<_> = taken.map(|case| case.request_id.to_string()).collect();
        ids.retain(|id| !taken.contains(&**id));
        ids.sort_unstable();
        (!ids.is_empty()).then(|| ids.swap_remove(choices.index(of, "request", ids.len())))
    }

    /// Lambda has given up an invocation, and sent its failure to a retry queue. Returns its case.
    pub fn failed(
        &mut self,
        request_id: &Arc<str>,
        condition: &str,
        error: ErrorReport,
    ) -> Option<usize> {
        let open = self.open.remove(request_id)?;
        self.story.tell(self.now, open.event, || {
            format!("attempt {} failed ({condition}): {error:?}", open.attempt)
        });
        self.tally.count(Seen::Step("failures"));
        let cause = match (self.plan.targets[open.target].form, condition) {
            (Form::Bare, _) => (Condition::Failed, bare(error, condition)),
            (_, "ZeroReservedConcurrency") => (Condition::Paused, error),
            (_, "RecursiveInvocation") => (Condition::RecursionStopped, error),
            (_, _) => (Condition::Failed, error),
        };
        let at = self.now.timestamp_millis();
        Some(self.open_case(open, (&**request_id).into(), at, cause, None))
    }

    /// A handler receives a message. If SQS has moved it here, its consumer has failed. Returns the message's case.
    pub fn receives(&mut self, record: &SqsMessage) -> Option<usize> {
        let id = record.message_id.as_deref().filter(|_| was_moved(record)).unwrap_or_default();
        if let Some((id, open)) = self.open.remove_entry(id) {
            self.tally.count(Seen::Step("messages moved"));
            let at = time_of(record, "ApproximateFirstReceiveTimestamp");
            let cause = (Condition::Failed, ErrorReport::default());
            self.open_case(open, (&*id).into(), at, cause, None);
        }
        let index = self.case_with(trace_of(record))?;
        let case = &mut self.cases[index];
        if self.plan.targets[case.of.target].is_queue() {
            // SQS goes on counting when it moves a message, and starts anew when it is sent again.
            let sent_at =
                if was_moved(record) { time_of(record, "SentTimestamp") } else { case.at };
            case.rare_mut().kept = Some(sent_at.min(case.at));
            self.judge_anew(index);
        }
        Some(index)
    }

    /// A stranger has sent a message to a retry queue.
    pub fn stranger(&mut self, target: usize, stranger: Stranger, trace: &str) {
        let Stranger { request_id, letter, envelope, over, undelivered, batch, kind, .. } =
            &stranger;
        let event = self.events.len();
        let (who, counted) = match (undelivered, batch, over) {
            (Some(_), ..) => ("EventBridge's", "undelivered events"),
            (_, Some(_), _) => ("a mapping's", "batches given up"),
            (.., Some(NOTHING)) => ("AWS's", "messages about no failure"),
            (None, None, _) => ("a stranger's", "strangers"),
        };
        self.story.tell(self.now, event, || {
            let body = &letter[..letter.floor_char_boundary(80)];
            format!("{who} message, {kind}, given up as {over:?}: {body}")
        });
        self.tally.count(Seen::Step(counted));
        self.tally.count(Seen::Step(kind));
        let first_request = undelivered.as_ref().and_then(|it| it.letter_of.as_deref());
        // An envelope around an event that was never delivered is part of the event.
        let envelope_read = envelope.as_ref().filter(|_| undelivered.is_none());
        let open = Open {
            event,
            target,
            attempt: envelope_read.map_or(0, |foreign| foreign.attempt),
            initial: envelope_read.and_then(|foreign| NonZero::new(foreign.initial)),
            first_request: first_request.unwrap_or(request_id).into(),
            is_foreign: envelope_read.is_some(),
            is_unwrapped: false,
            trace: trace.into(),
        };
        let message = undelivered.as_ref().filter(|it| it.is_of_queue);
        let message =
            message.map(|_| Outgoing { body: letter.as_str().into(), ..Outgoing::default() });
        let message = message.map(Box::new);
        let sent = Event::new(event, letter.clone(), envelope.clone(), message);
        self.events.push(match batch {
            Some(batch) => sent.of_batch(Rc::clone(batch)),
            None => sent,
        });
        let condition = if batch.is_some() { Condition::OfBatch } else { Condition::Failed };
        let error = undelivered.as_ref().map(|it| it.error.clone());
        let cause = (condition, error.unwrap_or_default());
        let at = self.now.timestamp_millis();
        self.open_case(open, (&**request_id).into(), at, cause, Some(&stranger));
    }

    pub fn open_case(
        &mut self,
        of: Open,
        request_id: Id,
        at: Millis,
        (condition, error): (Condition, ErrorReport),
        stranger: Option<&Stranger>,
    ) -> usize {
        let over = stranger.and_then(|stranger| stranger.over);
        let is_refused = stranger.is_some_and(|stranger| stranger.is_refused);
        let place = stranger.and_then(|stranger| stranger.place.clone());
        let undelivered = stranger.and_then(|stranger| stranger.undelivered.clone());
        let now = self.now.timestamp_millis();
        let seen_at = (now != at).then_some(now);
        let is_plain = over.is_none() && place.is_none() && seen_at.is_none();
        let is_rare = !is_plain || undelivered.is_some();
        let rare = Rare { place, over, undelivered, seen_at, ..Rare::default() };
        let rare = is_rare.then(|| rare.into());
        let is_bare = match stranger {
            Some(stranger) => stranger.attributes.iter().any(|(name, _)| *name == "RequestID"),
            None => self.plan.targets[of.target].form == Form::Bare,
        };
        let mut case = Case {
            request_id,
            strange: stranger.is_some(),
            is_bare,
            is_refused,
            is_transparent: false,
            condition,
            error: self.errors.shared(error),
            at,
            first: of.first_failure(at),
            verdict: Err(""),
            shown: (Millis::MIN, Millis::MAX),
            due: None,
            acts: 0,
            claimed: self.plan.handler_of(of.target).has_ledger
                && !matches!(over, Some("unreadable" | NOTHING | SPLIT))
                && !is_refused,
            marked: false,
            order: None,
            messages: 1,
            truth: None,
            of,
            rare,
        };
        case.verdict = self.verdict(&case).map(|next| Later::of(next, at));
        if !self.may_retry(&case) {
            case.is_refused = true;
            case.claimed = false;
        }
        let trace = case.of.trace;
        let index = self.cases.add(case);
        self.figures.waiting.begins();
        self.by_trace.insert(trace, index as u32);
        index
    }

    /// The case whose messages carry this trace.
    pub fn case_with(&self, trace: &str) -> Option<usize> {
        self.by_trace.get(&trace.into()).map(|index| *index as usize)
    }

    /// One of the messages about a failure is gone, and no run has it any more. In an outage none comes back: after the
    /// last of them nobody may name the failure, so it is forgotten. Returns the key of its claim then.
    pub fn gone(&mut self, index: usize) -> Option<Key> {
        let case = &mut self.cases[index];
        case.messages = case.messages.saturating_sub(1);
        let is_over = case.messages == 0 && case.acts > 0;
        (is_over && self.plan.outage.is_some()).then(|| {
            let key = self.key(&self.cases[index]);
            self.by_trace.remove(&self.cases[index].of.trace);
            self.cases.over.push(index);
            key
        })
    }

    /// A second message about a failure appears.
    pub fn copied(&mut self, index: usize) {
        let event = self.event_of(index);
        self.events[event].copies += 1;
        self.story.tell(self.now, event, || "there is one more message about it".to_owned());
    }

    /// The failure with this trace and its target, if Lambda or S3 wrote its message and that may be repeated.
    pub fn repeatable(&self, trace: &str) -> Option<(usize, usize)> {
        let index = self.case_with(trace)?;
        let case = &self.cases[index];
        let may_be = !case.strange || case.is_undelivered() || case.is_of_mapping();
        let may_be = may_be || self.joined.contains_key(&index);
        let may = may_be && self.may_be_repeated(index);
        may.then_some((index, case.of.target))
    }

    /// Reaches the verdict again, because a fact on which it depends has changed.
    pub fn judge_anew(&mut self, index: usize) {
        let verdict = self.verdict(&self.cases[index]);
        let case = &mut self.cases[index];
        case.verdict = verdict.map(|next| Later::of(next, case.at));
    }

    /// The next attempt, or the reason to give the event up.
    fn verdict(&self, case: &Case) -> Result<Next, &'static str> {
        // Without an envelope around it, it is not too large.
        let fits = |over: &&str| case.is_transparent && *over == "payload_too_large";
        if let Some(over) = case.over().filter(|over| !fits(over)) {
            return Err(over);
        }
        let policy = self.plan.policy(case.of.target);
        if !self.may_retry(case) {
            return Err("target_not_allowed");
        }
        if case.undelivered().is_some_and(|it| it.is_truncated) {
            return Err("payload_truncated");
        }
        if case.condition == Condition::RecursionStopped {
            return Err("recursion_stopped");
        }
        let is_redriven = case.undelivered().is_some_and(|it| it.letter_of.is_some());
        if !is_redriven && never_heals(case, &policy.never) {
            return Err("not_retryable");
        }
        let paused = case.condition == Condition::Paused;
        let attempt =
            if paused { case.of.attempt.max(1) } else { case.of.attempt.saturating_add(1) };
        // Its last error decides. Attempts count over all errors.
        let error_type = case.error.error_type.as_deref();
        let policy = self.plan.policy_after(case.of.target, error_type);
        if policy.attempts.is_some_and(|most| attempt > most) {
            return Err("max_attempts_exceeded");
        }
        let hint = if paused { None } else { retry_hint(&case.error) };
        let next = policy.next(
            case.first,
            case.at,
            case.kept(),
            attempt,
            paused,
            hint.unwrap_or_default(),
        );
        let next = next.ok_or("max_age_exceeded")?;
        if self.is_in_parts(case) {
            return Ok(next);
        }
        let expected = self.retry_of(case, attempt);
        if expected.attributes.len() > ATTRIBUTES_MAX {
            return Err("attribute_limit");
        }
        if expected.size() > SIZE_MAX { Err("payload_too_large") } else { Ok(next) }
    }
}

impl Case {
    /// The invocation that has failed, whatever it is taken for.
    pub fn truth(&self) -> &Open {
        self.truth.as_deref().unwrap_or(&self.of)
    }

    /// What it is taken for, to be changed.
    pub fn taken_for(&mut self) -> &mut Open {
        self.truth.get_or_insert_with(|| self.of.clone().into());
        &mut self.of
    }

    /// The next attempt, or the reason to give it up.
    pub fn verdict(&self) -> Result<Next, &'static str> {
        self.verdict.map(|later| later.than(self.at))
    }

    pub fn due(&self) -> Option<Millis> {
        self.due.map(NonZero::get)
    }

    /// The earliest and the latest time at which the next attempt is due, narrowed by the waits seen so far.
    pub fn due_range(&self, next: Next) -> (Millis, Millis) {
        let (after, until) = self.shown;
        let range = (next.due.0.max(after.saturating_add(1)), next.due.1.min(until));
        self.due().map_or(range, |due| (due, due))
    }

    /// An invocation has shown its due time. Returns what was known of it.
    pub fn is_due_at(&mut self, due: Millis) -> Option<Millis> {
        std::mem::replace(&mut self.due, NonZero::new(due)).map(NonZero::get)
    }

    /// From now on, it is taken for that. What its waits have shown was of another attempt.
    pub fn is_taken_for(&mut self, of: Open) {
        self.first = of.first_failure(self.at);
        *self.taken_for() = of;
        (self.shown, self.due) = ((Millis::MIN, Millis::MAX), None);
    }

    /// Where its record lies, if it is in a bucket.
    pub fn place(&self) -> Option<&Place> {
        self.rare.as_ref()?.place.as_ref()
    }

    /// What its message says, if its event was never delivered.
    pub fn undelivered(&self) -> Option<&Undelivered> {
        self.rare.as_ref()?.undelivered.as_ref()
    }

    pub fn is_undelivered(&self) -> bool {
        self.undelivered().is_some()
    }

    fn over(&self) -> Option<&'static str> {
        self.rare.as_ref()?.over
    }

    pub fn seen_at(&self) -> Millis {
        self.rare.as_ref().and_then(|rare| rare.seen_at).unwrap_or(self.at)
    }

    fn kept(&self) -> Millis {
        self.rare.as_ref().and_then(|rare| rare.kept).unwrap_or(self.at)
    }

    pub fn order_until(&self) -> Timestamp {
        self.rare.as_ref().map(|rare| rare.order_until).unwrap_or_default()
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Its record lies there, if nothing else is known.
    pub fn lies_at(&mut self, place: Place) {
        self.rare_mut().place.get_or_insert(place);
    }

    /// It is what has failed of this event.
    pub fn is_cut_from(&mut self, whole: usize) {
        self.rare_mut().cut_from = Some(whole);
    }

    /// The event with which the run was started, if only a part of it has failed.
    pub fn cut_from(&self) -> Option<usize> {
        self.rare.as_ref()?.cut_from
    }

    /// It is this part of the batch that its message is about.
    pub fn is_part(&mut self, name: &str) {
        self.rare_mut().part = Some(name.to_owned());
    }

    /// The part of a batch that it is.
    pub fn part(&self) -> Option<&str> {
        self.rare.as_ref()?.part.as_deref()
    }

    /// Its operator wants it to be kept until then.
    pub fn is_wanted_until(&mut self, until: Timestamp) {
        self.rare_mut().order_until = until;
    }

    /// Whether it may be of a retry without an envelope, if its target has those.
    pub fn may_be_noted(&self) -> bool {
        !self.is_refused
            && !matches!(self.over(), Some("unreadable" | "payload_missing" | NOTHING | SPLIT))
    }

    /// Whether the target has asked for the time until the next attempt.
    pub fn asks_for_time(&self) -> bool {
        self.condition != Condition::Paused && retry_hint(&self.error).is_some()
    }
}

/// The error as a function's own dead-letter queue reports it: no type, and the condition if the function never ran.
fn bare(error: ErrorReport, condition: &str) -> ErrorReport {
    let ran = condition == "RetriesExhausted";
    let message = if ran { error.message } else { Some(condition.to_owned()) };
    let carried = |c: &char| !(c.is_ascii_control() && *c != '\u{7f}') && *c != '\u{ffff}';
    let message = message.map(|text| text.chars().filter(carried).collect::<String>());
    ErrorReport { error_type: None, message: message.filter(|text| !text.is_empty()) }
}

/// Whether the owner has listed the type of this error as permanent, with these patterns of [`NEVER`], or EventBridge
/// has stopped the event.
fn never_heals(case: &Case, listed: &[usize]) -> bool {
    case.error.error_type.as_deref().is_some_and(|error_type| {
        error_type == "PermanentFailure"
            || error_type.ends_with(".PermanentFailure")
            || case.is_undelivered() && STOPPED.contains(&error_type)
            || listed.iter().any(|&n| error_type == NEVER[n].1)
    })
}

/// The seconds that the target's retry hint asks for.
fn retry_hint(error: &ErrorReport) -> Option<u64> {
    let error_type = error.error_type.as_deref()?;
    if error_type != "RetryAfter" && !error_type.ends_with("::RetryAfter") {
        return None;
    }
    let message = error.message.as_deref()?;
    let digits = message.find(|c: char| !c.is_ascii_digit()).unwrap_or(message.len());
    let unit = match message[digits..].split([':', ' ']).next() {
        Some("s" | "") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        Some("d") => 86_400,
        Some(_) | None => return None,
    };
    message[..digits].parse::<u64>().ok().map(|count| count * unit)
}
