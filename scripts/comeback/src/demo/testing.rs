//! Activities and histories for tests. Times are in seconds from the start of the demo.

use std::time::Duration;

use comeback_core::{Timestamp, time::later};

use super::history::History;
use crate::{
    activity::{Activity, Decision, Error, Kind, Run},
    deploy::HANDLER,
    journal::Ending,
};

pub fn at(seconds: f64) -> Timestamp {
    later(Timestamp::UNIX_EPOCH, Duration::from_secs_f64(seconds))
}

/// A history of these events. The first `sent` of them were sent at 0 s, with the request ids `r0`, `r1` and so on.
pub fn history(names: &[&str], sent: usize) -> History {
    let mut history = History::begin(at(0.0), names.iter().map(|&name| name.to_owned()));
    for event in 0..sent {
        history.sent(event, &format!("r{event}"), at(0.0));
    }
    history
}

fn happens(seconds: f64, function: &str, kind: Kind) -> Activity {
    Activity { at: at(seconds), function: function.into(), kind }
}

pub fn starts(seconds: f64, request_id: &str, event_id: &str, attempt: u32) -> Activity {
    let run =
        Run { request_id: request_id.into(), attempt, event_id: event_id.into(), queue: None };
    happens(seconds, "example-target", Kind::Started(run))
}

pub fn fails(seconds: f64, request_id: &str) -> Activity {
    let error = Error { kind: Some("UpstreamUnavailable".to_owned()), message: "503".to_owned() };
    let (request_id, error) = (request_id.into(), Some(error));
    let kind = Kind::Ended { request_id, ending: Ending::Failed, error };
    happens(seconds, "example-target", kind)
}

pub fn ends(seconds: f64, request_id: &str) -> Activity {
    let (request_id, ending) = (request_id.into(), Ending::Succeeded);
    happens(seconds, "example-target", Kind::Ended { request_id, ending, error: None })
}

pub fn decides(seconds: f64, event_id: &str, decision: Decision) -> Activity {
    happens(seconds, HANDLER, Kind::Decided { event_id: event_id.into(), decision })
}

pub fn wait(attempt: u32, due: f64, delay: f64) -> Decision {
    Decision::Wait { attempt, due: at(due), delay: Duration::from_secs_f64(delay) }
}
