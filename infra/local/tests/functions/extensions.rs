//! Tests of extensions: their events, the order of starting and ending, and their failures.

use std::{fs, thread};

use serde_json::{Value, json};

use super::client::{Cloud, Function, accept, ends, listener, zip};

/// Creates a function with these extensions. Each name's value tells `extension.py` what to do.
fn function<'a>(cloud: &'a Cloud, extensions: &Value, settings: Value) -> Function<'a> {
    let paths: Vec<String> =
        extensions.as_object().unwrap().keys().map(|name| format!("extensions/{name}")).collect();
    let script: &[u8] = include_bytes!("extension.py");
    let files: Vec<_> = paths.iter().map(|path| (path.as_str(), 0o755, script)).collect();
    let layer = cloud.layer("extensions", &json!({"ZipFile": zip(&files)}));
    let mut request = settings;
    request["Layers"] = json!([layer]);
    request["Environment"]["Variables"]["EXTENSIONS"] = extensions.to_string().into();
    cloud.function("f", request)
}

/// Waits until the extension logs `what` with a wanted value. Returns the value.
fn said(cloud: &Cloud, extension: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let prefix = format!("{extension} {what} ");
    let value = |event: &Value| {
        let value = event["line"].as_str()?.strip_prefix(&prefix)?;
        serde_json::from_str::<Value>(value).ok()
    };
    let found = cloud.journal_until(|event| value(event).is_some_and(|value| wanted(&value)));
    value(&found).unwrap()
}

fn told(cloud: &Cloud, extension: &str, event_type: &str) -> Value {
    said(cloud, extension, "told", |event| event["eventType"] == event_type)
}

#[test]
fn an_extension_learns_about_its_function_invocations_and_the_shutdown() {
    let cloud = Cloud::start();
    let settings = json!({"Environment": {"Variables": {"OWN": "1", "INIT": "trap"}}});
    let f = function(&cloud, &json!({"a": {}, "b": {"events": ["SHUTDOWN"]}}), settings);
    let answer = f.invoke(&json!({}));
    let registered = said(&cloud, "a", "registered", |_| true);
    assert_eq!(
        registered,
        json!({
            "functionName": "f",
            "functionVersion": "$LATEST",
            "handler": "own.handler",
            "accountId": "000000000000",
        })
    );
    let variables = said(&cloud, "a", "variables", |_| true);
    assert_eq!(variables["OWN"], "1");
    assert_eq!(variables["AWS_LAMBDA_FUNCTION_NAME"], "f");
    let of_runtime = &answer.json()["variables"];
    assert_eq!(variables["AWS_LAMBDA_RUNTIME_API"], of_runtime["AWS_LAMBDA_RUNTIME_API"]);
    for name in ["_HANDLER", "LAMBDA_TASK_ROOT", "AWS_LAMBDA_LOG_STREAM_NAME"] {
        assert!(variables.get(name).is_none() && of_runtime.get(name).is_some(), "{name}");
    }

    let invoke = told(&cloud, "a", "INVOKE");
    let headers = &answer.json()["headers"];
    assert_eq!(invoke["requestId"], answer.request_id);
    assert_eq!(invoke["invokedFunctionArn"], headers["lambda-runtime-invoked-function-arn"]);
    assert_eq!(invoke["tracing"]["value"], headers["lambda-runtime-trace-id"]);
    assert!(invoke["deadlineMs"].is_i64());
    cloud.journal_until(|event| {
        event["line"] == "EXTENSION\tName: b\tState: Ready\tEvents: [SHUTDOWN]"
    });

    cloud.delete("f");
    for extension in ["a", "b"] {
        let shutdown = told(&cloud, extension, "SHUTDOWN");
        assert_eq!(shutdown["shutdownReason"], "SPINDOWN");
        assert!(shutdown["deadlineMs"].is_i64());
    }
    cloud.journal_until(|event| event["line"] == "terminated");
}

#[test]
fn the_runtime_starts_and_gets_events_after_the_extensions_are_ready() {
    let cloud = Cloud::start();
    let marks = std::env::temp_dir().join(format!("comeback-marks-{}", std::process::id()));
    fs::create_dir_all(&marks).unwrap();
    let settings = json!({"Timeout": 60, "Environment": {"Variables": {"MARKS": marks}}});
    let f = function(&cloud, &json!({"a": {"marks": marks}}), settings);
    let first = f.invoke(&json!({}));
    let second = f.invoke(&json!({}));
    cloud.delete("f");
    told(&cloud, "a", "SHUTDOWN");
    fs::remove_dir_all(&marks).unwrap();
    assert_eq!(first.json()["pid"], second.json()["pid"]);
    let seen = |at: &Value, mark: &str| at.as_array().unwrap().contains(&json!(mark));
    assert!(seen(&first.json()["seen at start"], "registered"), "the runtime was started early");
    assert!(seen(&first.json()["seen"], "ready"), "the first event was given early");
    assert!(seen(&second.json()["seen"], &first.request_id), "the second event was given early");
}

#[test]
fn an_extension_that_fails_to_start_fails_the_initialisation_with_its_name() {
    for (does, error_type, what) in [
        (json!({"exits": 5}), "Extension.Crash", "exit status 5"),
        (
            json!({"init error": {"errorMessage": "no port"}}),
            "Extension.InitError",
            "Own.Reason: no port",
        ),
    ] {
        let cloud = Cloud::start();
        let f = function(&cloud, &json!({"bad": does, "good": {}}), json!({}));
        let failure = f.invoke(&json!({}));
        failure.reports(error_type, &format!("extension bad: {what}"));
        let finished = cloud.journal_until(|event| event["type"] == "Finished");
        assert_eq!(finished["outcome"], "InitFailed");
    }
    let cloud = Cloud::start();
    let not_executable = zip(&[("extensions/bad", 0o644, b"#!/bin/sh\n")]);
    let layer = cloud.layer("l", &json!({"ZipFile": not_executable}));
    let failure = cloud.function("f", json!({"Layers": [layer]})).invoke(&json!({}));
    failure.reports("Extension.LaunchError", "extension bad: permission denied");
}

#[test]
fn an_extension_that_fails_during_an_invocation_ends_the_invocation() {
    for (does, error_type, what) in [
        (json!({"leaves": 9}), "Extension.Crash", "signal: killed"),
        (json!({"exit error": "Own.Reason"}), "Extension.ExitError", "Own.Reason"),
    ] {
        let cloud = Cloud::start();
        let (_connections, port) = listener();
        let extensions = json!({"bad": does, "good": {}});
        let f = function(&cloud, &extensions, json!({"Timeout": 60}));
        let failure = f.invoke(&json!({"do": "meet", "port": port}));
        failure.reports(error_type, &format!("extension bad: {what}"));
        let finished = cloud.journal_until(|event| event["type"] == "Finished");
        assert_eq!(finished["outcome"], "Crashed");
        assert_eq!(told(&cloud, "good", "SHUTDOWN")["shutdownReason"], "FAILURE");
    }
}

#[test]
fn a_new_environment_can_use_the_ports_of_the_last_one() {
    let cloud = Cloud::start();
    let (_connections, meeting) = listener();
    // The port depends on the process id, so parallel test processes rarely share one. It is below the ephemeral
    // ports, so the system does not give it to another process meanwhile.
    let port = 20_000 + std::process::id() % 10_000;
    let extensions = json!({"a": {"port": port, "lingers": true}});
    let f = function(&cloud, &extensions, json!({"Timeout": 1}));
    let update = |timeout: u32| {
        let path = "/2015-03-31/functions/f/configuration";
        assert_eq!(cloud.ask("PUT", path, &json!({"Timeout": timeout})).status, 200);
    };
    let works = |after: &str| {
        let answer = f.invoke(&json!({}));
        assert!(!answer.is_error, "after {after}: {}", answer.text());
    };
    assert!(f.invoke(&json!({"do": "meet", "port": meeting})).text().contains("timed out"));
    assert_eq!(told(&cloud, "a", "SHUTDOWN")["shutdownReason"], "TIMEOUT");
    update(60);
    works("a time-out");
    assert!(f.invoke(&json!({"do": "exit", "status": 1})).text().contains("exit status 1"));
    works("a crash");
    update(61);
    works("an update");
}

#[test]
fn an_extension_that_does_not_end_is_killed() {
    for does in [json!({"lingers": true}), json!({"events": ["INVOKE"]})] {
        let cloud = Cloud::start();
        let (connections, port) = listener();
        let mut does = does;
        does["canary"] = port.into();
        let f = function(&cloud, &json!({"a": does}), json!({}));
        assert!(!f.invoke(&json!({})).is_error);
        let canary = accept(&connections);
        cloud.delete("f");
        ends(canary);
    }
}

#[test]
fn no_process_is_left_when_the_local_cloud_ends() {
    for signal in ["KILL", "TERM", "INT"] {
        let cloud = Cloud::start();
        let (connections, port) = listener();
        let lingers = json!({"lingers": true, "canary": port});
        let f = function(&cloud, &json!({"a": lingers}), json!({"Timeout": 900}));
        let alone = cloud.function("alone", json!({"Timeout": 900}));
        for f in [f, alone] {
            f.send(&json!({"do": "hang", "canary": port}));
        }
        let canaries = [(); 3].map(|()| accept(&connections));
        cloud.signal(signal);
        canaries.into_iter().for_each(ends);
    }
}

#[test]
fn an_environment_is_frozen_when_all_have_asked_for_an_event_until_the_next_or_the_shutdown() {
    let cloud = Cloud::with(&["--freeze"]);
    let settings = json!({"Environment": {"Variables": {"INIT": "trap"}}});
    let f = function(&cloud, &json!({"a": {}}), settings);
    let [first, second] = [(); 2].map(|()| {
        let pid = f.invoke(&json!({})).json()["pid"].clone();
        let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        while !state().contains(") T ") {
            thread::yield_now();
        }
        pid
    });
    assert_eq!(first, second);
    cloud.delete("f");
    told(&cloud, "a", "SHUTDOWN");
    cloud.journal_until(|event| event["line"] == "terminated");
}
