//! Checks the sessions in docs/operate against the program's output, some of them except for numbers, times and ids.

use std::process::Command;

use crate::support::{Cloud, comeback, text};

const ATTACH: &str = include_str!("../../../../docs/operate/attach.md");
const DOCTOR: &str = include_str!("../../../../docs/operate/doctor.md");
const HISTORY: &str = include_str!("../../../../docs/operate/history.md");
const PERMISSIONS: &str = include_str!("../../../../docs/operate/permissions.md");
const WAITING: &str = include_str!("../../../../docs/operate/waiting.md");
const DEAD_LETTERS: &str = include_str!("../../../../docs/operate/dead-letters.md");
const SIMULATE: &str = include_str!("../../../../docs/operate/simulate.md");

/// The events of the session: their ids and error types.
const EVENTS: [(&str, &str); 4] = [
    ("3b72eb0b-202e-4fca-9f27-d590e971de04", "PaymentError"),
    ("57569600-645f-4c2e-86e1-44482712467d", "PaymentError"),
    ("91f53b8a-2a8d-41d1-be8f-3181ffbc8ba8", "PaymentError"),
    ("9c7b62f9-7c92-4afc-83b6-2ad3a93343c2", "StockError"),
];

#[derive(Clone)]
struct Said<'a> {
    command: &'a str,
    output: String,
}

fn session(guide: &'static str) -> Vec<Said<'static>> {
    let blocks = guide.split("```console\n").flat_map(|it| it.split("```shell-session\n")).skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let mut said: Vec<Said<'_>> = Vec::new();
    for line in blocks.flat_map(str::lines) {
        match (line.strip_prefix("$ "), said.last_mut()) {
            (Some(command), _) => said.push(Said { command, output: String::new() }),
            (None, Some(last)) => last.output += &format!("{line}\n"),
            (None, None) => panic!("output before a command: {line}"),
        }
    }
    said
}

/// The text without parts that differ in each run: numbers, times, ids and the widths of columns.
fn normalized(text: &str) -> Vec<String> {
    const UNITS: [&str; 5] = ["ms", "s", "m", "h", "d"];
    let line = |line: &str| {
        let words = line.split_whitespace().filter(|word| !UNITS.contains(word));
        let mut words: Vec<_> = words
            .map(|word| if word.contains(|c: char| c.is_ascii_digit()) { "#" } else { word })
            .collect();
        words.dedup();
        words.join(" ")
    };
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

#[tokio::test]
async fn the_sessions_about_waiting_events_and_dead_letters_are_true() {
    let backoff = ["--set", "BASE_BACKOFF=2h", "--set", "MAX_BACKOFF=2h", "--set", "JITTER=none"];
    let cloud = Cloud::start(&backoff);
    // One after another, so that they are listed in this order: by when they are due.
    for (sent, event) in EVENTS.into_iter().enumerate() {
        cloud.fail(&[event]).await;
        while cloud.json(&["waiting", "--json"])["looked_at"] != sent + 1 {}
    }
    let sessions = [session(WAITING), session(DEAD_LETTERS)].concat();
    assert!(sessions.len() > 10, "{} commands", sessions.len());
    for said in sessions {
        if said.command.starts_with("comeback trace") {
            // The event that was brought back is retried by now.
            cloud.runs(1).await;
        }
        if said.command.starts_with("comeback dead") {
            while cloud.letters().await[0] < 1 {}
        }
        said.hold(comeback().env("AWS_ENDPOINT_URL", &cloud.endpoint));
    }
}

#[tokio::test]
async fn the_sessions_about_attach_doctor_and_permissions_are_exactly_what_they_print() {
    let attached = Cloud::with_orders().await;
    let examined = Cloud::start(&[]);
    examined.stop_loops("example-target").await;
    for (cloud, guide) in [(&attached, ATTACH), (&examined, DOCTOR)] {
        for Said { command, output } in session(guide) {
            let printed = cloud.replay(command).replace(" on arm64", " on x86_64");
            assert_eq!(printed, output, "{command}");
        }
    }
    let [Said { command, output }] = &session(PERMISSIONS)[..] else { panic!("one command") };
    let printed = comeback().args(command.split(' ').skip(1)).output().unwrap();
    assert_eq!(text(&printed.stdout), *output);
}

#[test]
fn the_session_about_the_history_is_true() {
    let cloud = Cloud::start(&[]);
    let said = session(HISTORY);
    assert_eq!(said.len(), 4);
    said.iter().for_each(|said| said.hold(comeback().env("AWS_ENDPOINT_URL", &cloud.endpoint)));
}

#[test]
fn the_session_about_a_policy_is_true() {
    let [said] = &session(SIMULATE)[..] else { panic!("expected one command") };
    said.hold(&mut comeback());
}

impl Said<'_> {
    fn hold(&self, comeback: &mut Command) {
        let Self { command, output } = self;
        let arguments = command.strip_prefix("comeback ").unwrap().split(' ');
        let printed = comeback.args(arguments).output().unwrap();
        let printed = text(&printed.stdout) + &text(&printed.stderr);
        assert_eq!(normalized(&printed), normalized(output), "{command}:\n{printed}");
    }
}
