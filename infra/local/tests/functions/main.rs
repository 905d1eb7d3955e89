//! Tests of the local cloud as a process, with functions as child processes. They check what a client sees, and
//! that no process or folder is left behind.
//!
//! No test sleeps. To see that processes have ended, a test waits for the end of a connection that only they hold:
//! it ends with the last of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on fails"
)]

mod buckets;
mod client;
mod layers;

use std::{io::Write as _, path::PathBuf, thread};

use client::{Cloud, accept, ends, listener, zip};
use serde_json::json;

#[test]
fn a_function_gets_lambdas_headers_and_variables() {
    let cloud = Cloud::start();
    let f = cloud.function(
        "f",
        json!({"Timeout": 7, "MemorySize": 256,
        "Environment": {"Variables": {"OWN": "1"}}}),
    );
    let told = f.invoke(&json!({"a": [1]}));
    assert_eq!(told.json()["event"], json!({"a": [1]}));
    let headers = &told.json()["headers"];
    assert_eq!(headers["lambda-runtime-aws-request-id"], told.request_id);
    assert_eq!(
        headers["lambda-runtime-invoked-function-arn"],
        "arn:aws:lambda:us-east-1:000000000000:function:f"
    );
    let trace = headers["lambda-runtime-trace-id"].as_str().unwrap();
    assert!(trace.starts_with("Root=1-") && trace.contains(";Lineage="), "{trace}");
    assert!(headers["lambda-runtime-deadline-ms"].as_str().unwrap().parse::<i64>().is_ok());
    let variables = &told.json()["variables"];
    for (name, value) in [
        ("OWN", "1"),
        ("AWS_LAMBDA_FUNCTION_NAME", "f"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/f"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", cloud.endpoint()),
        ("_HANDLER", "own.handler"),
    ] {
        assert_eq!(variables[name], value, "{name}");
    }
    assert_eq!(variables["LAMBDA_TASK_ROOT"], told.json()["folder"]);
    assert_eq!(variables.get("CARGO_MANIFEST_DIR"), None, "the test's own environment");
}

/// From AWS's developer guide: an init phase that takes longer than 10 seconds runs again at the first invocation,
/// within the function's timeout.
#[test]
fn an_initialisation_of_over_10_seconds_runs_again_within_the_timeout_of_the_invocation() {
    let cloud = Cloud::start();
    let marks = std::env::temp_dir().join(format!("comeback-slow-init-{}", std::process::id()));
    let slow = |name: &str, how| {
        std::fs::create_dir_all(marks.join(name)).unwrap();
        let variables = json!({"INIT": how, "MARKS": marks.join(name)});
        cloud.function(name, json!({"Timeout": 5, "Environment": {"Variables": variables}}))
    };
    let (once, always) = (slow("once", "slow once"), slow("always", "slow"));
    thread::scope(|scope| {
        let timed_out = scope.spawn(|| always.invoke(&json!({})));
        let told = once.invoke(&json!({})).json();
        assert_eq!(told["seen at start"], json!(["begun"]));
        let deadline = told["headers"]["lambda-runtime-deadline-ms"].as_str().unwrap();
        let started = told["started ms"].as_f64().unwrap();
        let left = deadline.parse::<f64>().unwrap() - started;
        assert!(left <= 5_000.0, "the second initialisation is not counted: {left} ms are left");
        let timed_out = timed_out.join().unwrap();
        timed_out.reports("Sandbox.Timedout", "Task timed out after 5.00 seconds");
    });
    std::fs::remove_dir_all(&marks).unwrap();
}

#[test]
fn an_idle_process_ends_when_its_function_is_deleted() {
    let cloud = Cloud::start();
    let f = cloud.function("f", json!({}));
    let (listener, port) = listener();
    let canary = thread::scope(|scope| {
        let invoked = scope.spawn(|| f.invoke(&json!({"do": "stay", "canary": port})));
        let canary = accept(&listener);
        assert!(!invoked.join().unwrap().is_error);
        canary
    });
    cloud.delete("f");
    ends(canary);
    let gone = f.invoke(&json!({}));
    assert_eq!((gone.status, &gone.json()["Type"]), (404, &json!("User")));
}

#[test]
fn a_functions_log_lines_are_in_the_journal_with_their_request_id() {
    let cloud = Cloud::start();
    let f = cloud.function("f", json!({}));
    let answer = f.invoke(&json!({"do": "write", "line": "hello there"}));
    let logged = cloud.journal_until(|event| event["line"] == "hello there");
    assert_eq!(logged["type"], "Logged");
    assert_eq!(logged["request_id"], answer.request_id);
}

#[test]
fn unsigned_aws_requests_and_requests_from_web_pages_are_refused() {
    let cloud = Cloud::start();
    for (headers, status) in [
        (&[][..], 403),
        (&[("authorization", "Basic eDp5")][..], 403),
        (&[("host", "evil.example"), client::SIGNATURE][..], 403),
        (&[client::SIGNATURE][..], 200),
    ] {
        let answer = cloud.raw("GET", "/2015-03-31/functions", headers, b"");
        assert_eq!(answer.status, status, "{headers:?}");
    }
    let journal = "/_local/journal";
    assert_eq!(cloud.raw("GET", journal, &[], b"").status, 200);
    assert_eq!(cloud.raw("GET", journal, &[("origin", "http://127.0.0.1")], b"").status, 403);
    assert_eq!(cloud.raw("GET", journal, &[("host", "evil.example")], b"").status, 403);
}

/// A zip with `function.py` as its bootstrap, in base64.
fn zipped() -> String {
    zip(&[("bootstrap", 0o755, include_bytes!("function.py"))])
}

#[test]
fn only_the_current_code_of_functions_stays_unpacked() {
    let cloud = Cloud::start();
    let code = json!({"PackageType": "Zip", "Code": {"ZipFile": zipped()}});
    cloud.function("f", code.clone());
    cloud.function("g", code);
    let location = |name: &str| {
        let path = format!("/2015-03-31/functions/{name}");
        let told = cloud.get(&path)["Code"]["Location"].clone();
        PathBuf::from(told.as_str().unwrap().strip_prefix("file://").unwrap())
    };
    let update = json!({"ZipFile": zipped()});
    for _ in 0..3 {
        let path = "/2015-03-31/functions/f/code";
        assert_eq!(cloud.ask("PUT", path, &update).status, 200);
    }
    let again = json!({"FunctionName": "f", "Code": {"ZipFile": zipped()}});
    let refused = cloud.ask("POST", "/2015-03-31/functions", &again);
    assert_eq!(refused.status, 409, "{}", refused.text());
    let unpacked = location("f").parent().unwrap().to_owned();
    let count = || unpacked.read_dir().unwrap().count();
    assert!(location("f").exists() && location("g").exists());
    assert_eq!(count(), 2);
    cloud.delete("f");
    assert_eq!(count(), 1);
    // Dropping `cloud` would kill the process, which then could not remove its folders.
    cloud.signal("TERM");
    cloud.ended();
    assert!(!unpacked.exists());
}

#[test]
fn a_functions_command_can_be_changed() {
    let cloud = Cloud::start();
    let f = cloud.function("f", json!({}));
    assert!(!f.invoke(&json!({})).is_error);
    let path = "/2015-03-31/functions/f/configuration";
    for (command, status) in [("no-such", 400), ("false", 200)] {
        let change = json!({"ImageConfig": {"Command": [command]}});
        assert_eq!(cloud.ask("PUT", path, &change).status, status);
    }
    assert!(f.invoke(&json!({})).text().contains("exit status 1"));
}

#[test]
fn invalid_code_is_refused_and_the_error_names_it() {
    let cloud = Cloud::start();
    let command = |program| json!({"Code": {"ImageUri": "local-command"}, "ImageConfig": {"Command": [program]}});
    for (code, named) in [
        (json!({"Code": {"S3Bucket": "local-folder", "S3Key": "/no/such"}}), "/no/such"),
        (json!({"Code": {"S3Bucket": "local-folder", "S3Key": "/"}}), "bootstrap"),
        (json!({"Code": {"S3Bucket": "bucket", "S3Key": "key"}}), "local-folder"),
        (json!({"Code": {"ZipFile": "bm8gemlw"}}), "zip"),
        (
            json!({"Code": {"ZipFile": zip(&[("app/bootstrap", 0o755, b"")])}}),
            "it holds app/bootstrap",
        ),
        (json!({"Code": {"ZipFile": zip(&[("bootstrap", 0o644, b"")])}}), "an executable"),
        (command("no-such"), "no-such"),
        (command("/etc/passwd"), "/etc/passwd"),
    ] {
        let mut request = code;
        request["FunctionName"] = json!("g");
        let answer = cloud.ask("POST", "/2015-03-31/functions", &request);
        assert_eq!(answer.status, 400, "{named}");
        assert_eq!(answer.header("x-amzn-errortype"), Some("InvalidParameterValueException"));
        assert!(answer.text().contains(named), "{}", answer.text());
    }
}

#[test]
fn events_of_one_function_run_concurrently_up_to_its_reserved_concurrency() {
    let cloud = Cloud::start();
    let f = cloud.function("f", json!({}));
    let path = "/2017-10-31/functions/f/concurrency";
    assert_eq!(cloud.ask("PUT", path, &json!({"ReservedConcurrentExecutions": 2})).status, 200);
    let (listener, port) = listener();
    let meet = json!({"do": "meet", "port": port});
    f.send(&meet);
    f.send(&meet);
    let (mut one, mut two) = (accept(&listener), accept(&listener));
    let refused = f.invoke(&json!({}));
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["Reason"], "ReservedFunctionConcurrentInvocationLimitExceeded");
    one.write_all(b"x").unwrap();
    two.write_all(b"x").unwrap();
}

#[test]
fn a_failure_kills_all_processes_that_the_function_started_and_the_next_event_gets_new_ones() {
    let cloud = Cloud::start();
    let (listener, port) = listener();
    let f = cloud.function("f", json!({"Timeout": 60}));
    let impatient = cloud.function("impatient", json!({"Timeout": 1}));
    for (f, does, error_type, what) in [
        (&impatient, "hang", "Sandbox.Timedout", "Task timed out after 1.00 seconds"),
        (&f, "leave", "Runtime.ExitError", "Runtime exited with error: exit status 3"),
    ] {
        let event = json!({"do": does, "canary": port});
        thread::scope(|scope| {
            let invoked = scope.spawn(|| f.invoke(&event));
            let canary = accept(&listener);
            invoked.join().unwrap().reports(error_type, what);
            ends(canary);
        });
    }
    assert!(f.invoke(&json!({})).json()["pid"].is_u64());
    let killed = f.invoke(&json!({"do": "kill"}));
    killed.reports("Runtime.ExitError", "Runtime exited with error: signal: killed");
    let settings = json!({"Environment": {"Variables": {"INIT": "report"}}});
    let report = cloud.function("g", settings).invoke(&json!({}));
    assert!(report.is_error);
    assert_eq!(report.text(), r#"{"errorType":"Init","errorMessage":"no start"}"#);
}

#[test]
fn a_response_is_passed_on_byte_for_byte_and_a_stream_that_is_too_long_is_read_to_its_end() {
    let cloud = Cloud::start();
    let f = cloud.function("f", json!({"Timeout": 60}));
    let error = r#"{"errorType":"Own","errorMessage":"no luck"}"#;
    for (event, is_error, text) in [
        (json!({"do": "raise"}), true, r#"{ "errorMessage": "no luck", "n": 1.50 }"#),
        (json!({"do": "chunks"}), false, "[1,2]"),
        (json!({"do": "text"}), false, "<not json>"),
        (json!({"chunks": ["[1,", "2", "]"]}), false, "[1,2]"),
        (json!({"chunks": ["[3]"], "expect": true}), false, "[3]"),
        (json!({"chunks": ["[1,"], "error": error}), true, error),
        (
            json!({"chunks": ["[1,"], "times": 20, "of": 1_048_576}),
            true,
            r#"{"errorType":"Function.ResponseSizeTooLarge","errorMessage":"Response payload size exceeded maximum allowed payload size (6291556 bytes)."}"#,
        ),
    ] {
        let mut event = event;
        let streams = event.get("chunks").is_some();
        if streams {
            event["do"] = json!("stream");
        }
        let answer = f.invoke(&event);
        assert_eq!((answer.status, answer.is_error, answer.text()), (200, is_error, text));
        if streams {
            cloud.journal_until(|event| event["line"] == "streamed HTTP/1.1 202 Accepted");
        }
    }
    cloud.journal_until(|event| event["line"] == "expected HTTP/1.1 100 Continue");
}

#[test]
fn no_process_is_left_when_the_local_cloud_ends() {
    for signal in ["KILL", "TERM", "INT"] {
        let cloud = Cloud::start();
        let (connections, port) = listener();
        let f = cloud.function("f", json!({"Timeout": 900}));
        f.send(&json!({"do": "hang", "canary": port}));
        let canary = accept(&connections);
        cloud.signal(signal);
        ends(canary);
    }
}

#[test]
fn an_environment_is_frozen_when_it_has_asked_for_an_event_until_the_next() {
    let cloud = Cloud::with(&["--freeze"]);
    let f = cloud.function("f", json!({}));
    let [first, second] = [(); 2].map(|()| {
        let pid = f.invoke(&json!({})).json()["pid"].clone();
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        while !state().contains(") T ") {
            thread::yield_now();
        }
        pid
    });
    assert_eq!(first, second);
}

#[test]
fn a_durable_function_is_invoked_by_a_qualified_name() {
    let cloud = Cloud::start();
    cloud.function("f", json!({"DurableConfig": {"ExecutionTimeout": 60}}));
    let invoke = |name: &str| {
        let path = format!("/2015-03-31/functions/{name}/invocations");
        let headers =
            [("x-amz-invocation-type", "Event"), ("x-amz-durable-execution-name", "once")];
        cloud.call("POST", &path, &headers, b"{}")
    };
    let refused = invoke("f");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("using an unqualified ARN."), "{}", refused.text());
    let [first, second] = ["f:$LATEST", "f:$LATEST"].map(|name| {
        let answer = invoke(name);
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.header("x-amz-durable-execution-arn").unwrap().to_owned()
    });
    let arn = "arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST/durable-execution/once/";
    assert!(first.starts_with(arn), "{first}");
    assert_eq!(first, second, "it is the same execution");
}
