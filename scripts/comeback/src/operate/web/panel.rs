//! The panel beside the life of an event: one of its runs, with its error and its payload.

use std::{collections::HashMap, sync::Arc, time::Duration};

use comeback_local_client::journal::{Entry, Journal};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    html::{Params, Untrusted},
    letters::readable,
    live::Live,
};

use crate::{
    account::names::is_queue,
    activity::{
        Activity, Kind, Reader,
        runs::{self, body},
    },
    failure::Failure,
    life::refusal,
    operate::{attempts::attempts, web::rules::State},
};

pub struct Run {
    attempt: u32,
    payload: String,
    response: Option<String>,
}

/// The runs of an event that the local cloud's journal has.
#[derive(Default)]
pub struct Runs {
    runs: Vec<Run>,
    /// Whether the journal no longer has its first entries.
    is_cut: bool,
}

/// The runs of an event. The local cloud keeps the latest runs.
pub async fn runs(live: &Live, id: &str) -> Result<Runs, Failure> {
    let local = live.cloud()?.connection.local.clone().flatten().unwrap_or_default();
    let (mut journal, mut reader) = (Journal::of(&local), Reader::default());
    let (mut runs, mut texts) = (Vec::<Run>::new(), Texts::default());
    // What Lambda has accepted, and perhaps will not run.
    let (mut first, mut accepted) = (None, None);
    loop {
        let entries = journal.next(Duration::ZERO).await.map_err(Failure::Journal)?;
        if entries.is_empty() {
            return Ok(Runs { runs, is_cut: first.is_some_and(|first| first > 1) });
        }
        for entry in &entries {
            first = first.or(Some(entry.n));
            let activities = reader.read(entry);
            if activities.is_empty() {
                texts.hold(entry);
            }
            for Activity { kind, .. } in activities {
                if let Kind::Accepted(run) = &kind
                    && *run.event_id == *id
                {
                    accepted = texts.of(run, entry).payload;
                } else if let Kind::GivenUpByLambda { run: Some(run), .. } = &kind
                    && *run.event_id == *id
                {
                    let payload = accepted.take().unwrap_or_default();
                    runs.push(Run { attempt: run.attempt, payload, response: None });
                } else if let Kind::Started(run) = &kind
                    && *run.event_id == *id
                {
                    let payload = texts.of(run, entry).payload.unwrap_or_default();
                    let payload = match run.queue {
                        Some(_) => body(&payload, &run.request_id).unwrap_or(payload),
                        None => payload,
                    };
                    runs.push(Run { attempt: run.attempt, payload, response: None });
                } else if let Kind::Ended { run, .. } = &kind
                    && *run.event_id == *id
                {
                    let begun = runs.iter_mut().rfind(|it| it.attempt == run.attempt);
                    begun.into_iter().for_each(|it| it.response = texts.of(run, entry).response);
                }
            }
        }
    }
}

/// What a run was given and has returned, as the journal's entries about it say.
#[derive(Clone, Default)]
struct Text {
    payload: Option<String>,
    response: Option<String>,
}

/// The texts of runs whose event was not named when their entries were read.
#[derive(Default)]
struct Texts(HashMap<Arc<str>, Text>);

impl Texts {
    /// Keeps the texts of an entry until a later one names the event of its run.
    fn hold(&mut self, entry: &Entry) {
        let (Some(request_id), Text { payload, response }) = (&entry.request_id, text(entry))
        else {
            return;
        };
        if payload.is_some() || response.is_some() {
            let held = self.0.entry(Arc::clone(request_id)).or_default();
            held.payload = payload.or(held.payload.take());
            held.response = response.or(held.response.take());
        }
    }

    /// The texts of a run that this entry is about, or whose event it names.
    fn of(&self, run: &runs::Run, entry: &Entry) -> Text {
        let is_own = run.queue.is_some() || entry.request_id.as_ref() == Some(&run.request_id);
        let held = || self.0.get(&run.request_id).cloned().unwrap_or_default();
        if is_own { text(entry) } else { held() }
    }
}

fn text(entry: &Entry) -> Text {
    let text = |json: &Option<Box<RawValue>>| json.as_ref().map(|it| it.get().to_owned());
    let payload = text(&entry.payload).or_else(|| text(&entry.event));
    Text { payload, response: text(&entry.response) }
}

/// The stack trace of an error, in the members that Lambda's runtimes use.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Trace {
    #[serde(rename = "stackTrace", alias = "trace")]
    lines: Vec<Value>,
}

/// The panel beside the waterfall: one run with its error, its stack trace and its payload, which a click shows.
pub fn panel(live: &Live, id: &str, runs: &Result<Runs, Failure>, params: &Params) -> Markup {
    let seen = live.seen();
    let all = seen.events.get(id).map(|it| attempts(it.began, &it.steps)).unwrap_or_default();
    let last = all.iter().rposition(|it| it.ended.is_some()).or(all.len().checked_sub(1));
    let chosen = params.number::<usize>("run");
    let nth = chosen.filter(|nth| *nth < all.len()).or(last);
    let Some((nth, it)) = nth.and_then(|nth| Some((nth, all.get(nth)?))) else { return html! {} };
    let run = runs.iter().flat_map(|it| &it.runs).find(|run| run.attempt == it.attempt);
    let function = seen.events.get(id).map_or("", |event| &event.function);
    let response = run.and_then(|run| run.response.as_deref());
    let trace: Trace = response.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    let query = params.with("run", &nth.to_string()).with("payload", "show");
    let is_letter = seen.events.get(id).is_some_and(|event| event.state() == State::GivenUp);
    html! {
        section.card #panel aria-labelledby="panel-title" {
            h2 #panel-title {
                @if it.undelivered_by.is_some() { "The event" }
                @else if it.attempt == 0 { "The first run" }
                @else { "Attempt " (it.attempt) }
            }
            @if let Some(source) = &it.undelivered_by {
                p { "It was never delivered by " code { (Untrusted(source)) } "." }
            }
            @if let Some(condition) = &it.not_run {
                p { strong { "Not run. " } (Untrusted(&refusal(condition))) "." }
            } @else { @match (&it.error, it.ended) {
                (Some((error_type, message)), _) => {
                    p { strong.bad { (Untrusted(error_type.as_deref().unwrap_or("no error type"))) } }
                    @if let Some(message) = message { p { q { (Untrusted(message)) } } }
                },
                (None, Some(_)) if it.is_delivered => p {
                    strong.good { "delivered" }
                    @if let Some(run) = &it.request_id { ", as request " code { (Untrusted(run)) } }
                    ". A failure of its target is an event of its own."
                },
                (None, Some(_)) => p { strong.good { "succeeded" } },
                (None, None) => p.faint { "It has not ended yet, as far as is known." },
            } }
            @if !trace.lines.is_empty() {
                h3 { "Stack trace" }
                pre tabindex="0" { @for line in &trace.lines {
                    @let line = line.as_str().map_or_else(|| line.to_string(), str::to_owned);
                    (Untrusted(line.trim_end())) "\n"
                } }
            }
            h3 { "Payload" }
            @match (run, runs) {
                _ if !live.is_local() && is_letter => p.faint { "The dead letter has it." },
                _ if !live.is_local() => p.faint { "AWS shows no payload of an event that was not given up." },
                (_, Err(failure)) => p.notice.bad { (Untrusted(&failure.to_string())) },
                (Some(run), _) if params.get("payload").is_some() => pre tabindex="0" { (readable(&run.payload)) },
                (Some(_), _) => p { a.button href=(format!("?{query}#panel")) { "Show the payload" } },
                (None, Ok(Runs { is_cut: true, .. })) => p.faint {
                    "The local cloud has forgotten it: it keeps those of the latest runs."
                },
                (None, _) if is_queue(function) => p.faint {
                    "The local cloud has not seen this run: the consumer of " (Untrusted(function))
                    " is a program of your own, or it did not receive the message."
                    @if is_letter { " The dead letter has the message's payload." }
                },
                (None, _) => p.faint {
                    "The local cloud has not run this: the failure came from elsewhere."
                    @if is_letter { " The dead letter has its payload." }
                },
            }
        }
    }
}
