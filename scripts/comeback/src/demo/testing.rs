//! Stories for tests. Times are in seconds after the beginning.

use std::time::Duration;

use comeback_core::{Timestamp, time::later};

use super::story::Story;
use crate::{
    deploy::HANDLER,
    happening::{Decision, Error, Happening, Run, What},
    journal::Ending,
};

pub fn at(seconds: f64) -> Timestamp {
    later(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
}

/// A story of these events. The first `sent` are sent at once, with the request ids `r0`, `r1` and so on.
pub fn story(names: &[&str], sent: usize) -> Story {
    let mut story = Story::begin(at(0.0), names.iter().map(|&name| name.to_owned()));
    for event in 0..sent {
        story.sent(event, &format!("r{event}"), at(0.0));
    }
    story
}

fn happens(seconds: f64, function: &str, what: What) -> Happening {
    Happening { at: at(seconds), function: function.into(), what }
}

pub fn starts(seconds: f64, request_id: &str, event_id: &str, attempt: u32) -> Happening {
    let run = Run { request_id: request_id.into(), attempt, event_id: event_id.into() };
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
    happens(seconds, HANDLER, What::Decided { event_id: event_id.into(), decision })
}

pub fn wait(attempt: u32, due: f64, delay: f64) -> Decision {
    Decision::Wait { attempt, due: at(due), delay: Duration::from_secs_f64(delay) }
}
