//! Stories for tests, in seconds after their beginning.

use std::time::Duration;

use comeback_core::{Timestamp, time::later};
use comeback_local::journal::Ending;

use super::story::Story;
use crate::{
    deploy::HANDLER,
    happening::{Decided, Decision, Error, Happening, Run, What},
};

pub fn at(seconds: f64) -> Timestamp {
    later(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
}

/// A story of these events, of which the first `sent` are sent at once as `r0`, `r1` and so on.
pub fn story(sent: usize, names: &[&str]) -> Story {
    let notable = |name: &str| !name.starts_with("order");
    let events = names.iter().map(|&name| (name.to_owned(), notable(name)));
    let mut story = Story::begin(at(0.0), events);
    for event in 0..sent {
        story.sent(event, &format!("r{event}"), at(0.0));
    }
    story
}

fn happens(seconds: f64, function: &str, what: What) -> Happening {
    Happening { at: at(seconds), function: function.into(), what }
}

pub fn starts(seconds: f64, request_id: &str, event_id: &str, attempt: u32) -> Happening {
    let payload = format!("{{\"id\":\"{event_id}\"}}").into();
    let (request_id, event_id) = (request_id.into(), event_id.into());
    let run = Run { request_id, attempt, event_id, payload };
    happens(seconds, "example-target", What::Started(run))
}

pub fn fails(seconds: f64, request_id: &str) -> Happening {
    let error = Error { kind: Some("UpstreamUnavailable".to_owned()), message: "503".to_owned() };
    let (request_id, error) = (request_id.into(), Some(error));
    let what = What::Ended { request_id, ending: Ending::Failed, error };
    happens(seconds, "example-target", what)
}

pub fn ends(seconds: f64, request_id: &str) -> Happening {
    let (request_id, ending) = (request_id.into(), Ending::Succeeded);
    happens(seconds, "example-target", What::Ended { request_id, ending, error: None })
}

pub fn decides(seconds: f64, event_id: &str, decision: Decision) -> Happening {
    let decided = Decided { event_id: event_id.into(), decision };
    happens(seconds, HANDLER, What::Decided(decided))
}
