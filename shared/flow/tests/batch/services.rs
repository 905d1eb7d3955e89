//! What AWS's services answer to a handler's calls.

use std::time::Duration;

use comeback_core::claim::State;
use wire::{Found, Invoke, Refusal, Reply, Request};

use crate::world::World;

/// The result of a call, or of one of its entries.
#[derive(Clone, Debug)]
pub enum Answer {
    Accepted,
    Never,
    /// Accepted after this many milliseconds.
    Slow(u64),
    Refused(Refusal),
    /// Accepted, but the answer is lost for good.
    Lost,
    /// Accepted, but the answer is lost. The SDK repeats the call, and a write finds itself.
    Repeated,
    /// SQS refuses this entry, and every call that it is in.
    Spoils,
    /// All entries are accepted, but instead of one answer for each there are so many.
    Counted(usize),
}

pub fn refused(code: &'static str, status: u16) -> Answer {
    let (code, status) = (Some(code), Some(status));
    Answer::Refused(Refusal { code, status, ..Refusal::default() })
}

/// Refused for now.
pub fn throttled() -> Answer {
    refused("TooManyRequestsException", 429)
}

/// Refused until a person changes something.
pub fn denied() -> Answer {
    refused("AccessDeniedException", 403)
}

/// Nobody knows whether the call was accepted.
pub fn unanswered() -> Answer {
    Answer::Refused(Refusal::default())
}

impl Answer {
    /// How long it takes. Every answer takes some time, so that calls overlap.
    fn takes(&self) -> Duration {
        let millis = if let Self::Slow(millis) = self { *millis } else { 0 };
        if matches!(self, Self::Never) { Duration::MAX } else { Duration::from_millis(20 + millis) }
    }

    fn result(&self) -> wire::Answer {
        if let Self::Refused(refusal) = self {
            Err(refusal.clone())
        } else if matches!(self, Self::Lost) {
            Err(Refusal::default())
        } else {
            Ok(())
        }
    }

    /// The answers to all entries of a call.
    fn results(of_entries: &[Self]) -> Vec<wire::Answer> {
        if of_entries.iter().any(|answer| matches!(answer, Self::Spoils)) {
            return vec![refused("InvalidParameterValue", 400).result(); of_entries.len()];
        }
        let count =
            |answer: &Self| if let Self::Counted(count) = answer { Some(*count) } else { None };
        let mut results: Vec<_> = of_entries.iter().map(Self::result).collect();
        results.resize(of_entries.iter().find_map(count).unwrap_or(results.len()), Ok(()));
        results
    }
}

/// A text for each entry of a call, by which a test names it.
fn texts(request: &Request) -> Vec<String> {
    match request {
        Request::Hide { changes, .. } => changes.iter().map(|(handle, _)| handle.clone()).collect(),
        Request::Again { messages, .. } => {
            let verbs = messages.iter().map(|it| if it.delay > Some(0) { "delay" } else { "send" });
            verbs.zip(messages).map(|(verb, it)| format!("{verb} of {}", it.body)).collect()
        }
        Request::Letters(letters) => {
            letters.iter().map(|letter| format!("letter of {}", letter.body)).collect()
        }
        Request::Invoke(Invoke { message, tenant_id, .. }) => {
            vec![format!("{} of tenant {tenant_id:?}", message.body)]
        }
        Request::Write(write) => {
            let verb = match write.next.as_ref().map(|claim| claim.state) {
                Some(State::Held { .. }) => "claim",
                Some(State::Done) => "mark",
                Some(State::Waiting) => "register",
                Some(State::Noted) | None => "release",
            };
            vec![format!("{verb} {}", write.key.run)]
        }
        Request::Read(location) => vec![location.to_string()],
        Request::Sleep(_)
        | Request::Count { .. }
        | Request::Note { .. }
        | Request::Take { .. }
        | Request::Siblings { .. }
        | Request::LookUp { .. }
        | Request::Exchange(_)
        | Request::List { .. }
        | Request::Minutes { .. } => vec![request.name().to_owned()],
    }
}

impl World {
    fn answers_to(&self, request: &Request) -> Vec<Answer> {
        let answer = |text: String| {
            let found = self.answers.iter().find(|(part, _)| text.contains(part));
            found.map_or(Answer::Accepted, |(_, answer)| answer.clone())
        };
        texts(request).into_iter().map(answer).collect()
    }

    /// After how long a call is answered.
    pub fn takes(&self, request: &Request) -> Duration {
        if let Request::Sleep(lasts) = request {
            return *lasts;
        }
        let answers = self.answers_to(request);
        let is_spoilt = answers.iter().any(|it| matches!(it, Answer::Spoils));
        // SQS refuses a spoilt call without a look at the other entries.
        let awaited = answers.iter().filter(|it| !is_spoilt || matches!(it, Answer::Spoils));
        awaited.map(Answer::takes).max().unwrap_or_default()
    }

    /// A call arrives, and takes effect unless it is refused.
    pub fn answer(&self, request: &Request) -> Reply {
        let answers = self.answers_to(request);
        let is_repeated = matches!(answers[..], [Answer::Repeated]);
        let entries = Answer::results(&answers);
        if matches!(answers[..], [Answer::Refused(_)]) {
            return Reply { entries, found: Found::Unanswered(self.repeats) };
        }
        let found = match request {
            Request::Count { .. } => Found::Count(self.in_flight),
            Request::Read(location) => {
                let object = self.objects.get(&location.to_string());
                object.map_or(Found::Nothing, |it| Found::Record(it.as_slice().into()))
            }
            Request::Invoke(_) => {
                self.accepted.set(self.accepted.get() + 1);
                let request_id = format!("retry-{}", self.accepted.get());
                Found::Accepted { request_id, unanswered: self.repeats }
            }
            Request::Write(write) => match self.table.write(write, is_repeated) {
                Ok(()) => Found::Nothing,
                Err(refusal) => return vec![Err(refusal)].into(),
            },
            Request::Note { key, known } => {
                self.table.note(key, known);
                Found::Nothing
            }
            Request::Take { key, call, run } => self.table.take(key, call, run),
            Request::Siblings { key, .. } => self.table.siblings(key),
            Request::LookUp { runs, targets } => self.table.look_up(runs, targets),
            Request::Exchange(exchange) => match self.table.exchange(exchange, is_repeated) {
                Some(reply) => return reply,
                None => Found::Nothing,
            },
            Request::Sleep(_)
            | Request::Hide { .. }
            | Request::Again { .. }
            | Request::Letters(_)
            | Request::List { .. }
            | Request::Minutes { .. } => Found::Nothing,
        };
        Reply { entries, found }
    }
}
