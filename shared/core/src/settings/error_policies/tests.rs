//! How the policies of errors are read, which of them decides, and the times that follow.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    Attempt, Timestamp,
    decision::{Decision, Settlement, decide},
    error_type::ErrorReport,
    message::{Message, MessageAttributes},
    reason::Reason,
    settings::{Settings, contract::SETTINGS, policy::Policy},
    testing::{self, at, home, message, rules},
    time::later,
};

const FAILED_AT: &str = "2019-11-14T18:16:05.568Z";

fn error(error_type: &str) -> ErrorReport {
    ErrorReport { error_type: Some(error_type.to_owned()), message: None }
}

/// The policy of a function after an error, with the variable `POLICIES` and others.
fn after(policies: &str, others: &[(&str, &str)], function: &str, error_type: &str) -> Policy {
    let rules = rules(&[&[("POLICIES", policies)], others].concat());
    rules.policies.of(function).after(&error(error_type)).clone()
}

fn complaint(variables: &[(&str, &str)]) -> String {
    let mut all: BTreeMap<_, _> = variables.iter().copied().collect();
    all.insert("DEAD_LETTER_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/123456789012/dead");
    let read = Settings::from_lookup(|name| all.get(name).map(|&value| value.to_owned()));
    read.map(|settings| panic!("{settings:?}")).unwrap_err().to_string()
}

#[test]
fn the_first_pattern_that_matches_decides_in_the_order_in_which_they_are_written() {
    let policies = r#"{
        "*":{"ERRORS":{"Zebra":{"MAX_ATTEMPTS":8},"A*":{"MAX_ATTEMPTS":9}}},
        "orders":{"ERRORS":{"*Limited":{"MAX_ATTEMPTS":1},"RateLimited":{"MAX_ATTEMPTS":2},
                            "app.*":{"MAX_ATTEMPTS":3},"Amber":{}}},
        "sqs:imports":{"MAX_ATTEMPTS":5}}"#;
    let settings = rules(&[("POLICIES", policies), ("MAX_ATTEMPTS", "7")]);
    for (function, error_type, attempts, name) in [
        ("orders", "RateLimited", 1, Some("*Limited of orders")),
        ("orders", "app.RateLimited", 1, Some("*Limited of orders")),
        ("orders", "app.Broken", 3, Some("app.* of orders")),
        ("orders", "Function<app.Broken>", 3, Some("app.* of orders")),
        ("orders", "Amber", 7, Some("Amber of orders")),
        ("orders", "Apple", 9, Some("A* of *")),
        ("orders", "Zebra", 8, Some("Zebra of *")),
        ("orders", "Other", 7, None),
        ("others", "RateLimited", 7, None),
        ("others", "Amber", 9, Some("A* of *")),
        // An event that EventBridge could not deliver to a queue has an error code.
        ("sqs:imports", "Zebra", 8, Some("Zebra of *")),
        ("sqs:imports", "Other", 5, None),
        // Lambda's own errors are meant only by a pattern that names them.
        ("orders", "Runtime.Limited", 7, None),
    ] {
        let policy = settings.policies.of(function);
        let error = error(error_type);
        let of_error = policy.of_error(&error).map(|own| &*own.name);
        assert_eq!(of_error, name, "{function} {error_type}");
        let most = policy.after(&error).max_attempts;
        assert_eq!(most, Attempt::new(attempts), "{function} {error_type}");
    }
    // As text, too: an object of Terraform would not keep the order.
    let text =
        r#"{"orders":{"ERRORS":"{\"Z*\":{\"MAX_ATTEMPTS\":2},\"Zebra\":{\"MAX_ATTEMPTS\":3}}"}}"#;
    assert_eq!(after(text, &[], "orders", "Zebra").max_attempts, Attempt::new(2));
    let orders = settings.policies.of("orders");
    assert_eq!(orders.of_error(&ErrorReport::default()), None, "an error without a type");
}

#[test]
fn what_an_error_does_not_set_is_that_of_its_functions_policy() {
    let policies = r#"{"*":{"ERRORS":{"Slow":{"BASE_BACKOFF":"1m"}}},
        "orders":{"MAX_AGE":"7d","JITTER":"none","NON_RETRYABLE_ERRORS":"Slow","DURABLE":"true",
                  "ERRORS":{"Odd":{"MAX_AGE":"2d"}}}}"#;
    let after = |function, error_type| {
        after(policies, &[("MAX_BACKOFF", "1h"), ("MAX_ATTEMPTS", "5")], function, error_type)
    };
    let (slow, odd, others) = (after("orders", "Slow"), after("orders", "Odd"), after("b", "Slow"));
    let hours = |of: &Policy| of.max_age.as_secs() / 3600;
    assert_eq!([&slow, &odd, &others].map(hours), [7 * 24, 2 * 24, 24]);
    let base = |of: &Policy| of.backoff.base.as_secs();
    assert_eq!([&slow, &odd, &others].map(base), [60, 1, 60]);
    assert!([&slow, &odd, &others].iter().all(|it| it.backoff.max == Duration::from_hours(1)));
    assert!([&slow, &odd, &others].iter().all(|it| it.max_attempts == Attempt::new(5)));
    assert!(slow.durable && odd.durable && !others.durable);
    assert_eq!(slow.backoff.jitter, odd.backoff.jitter);
    assert!(
        slow.non_retryable.covers(&error("Slow")) && !others.non_retryable.covers(&error("Slow"))
    );
}

#[test]
fn a_list_of_backoffs_and_a_doubling_backoff_override_each_other_where_they_are_inherited() {
    let policies = r#"{
        "doubling":{"BASE_BACKOFF":"2m","ERRORS":{"E":{"BACKOFFS":["3m",240]}}},
        "capped":{"MAX_BACKOFF":"30s"},
        "listed":{"BACKOFFS":"5m","ERRORS":{"E":{"JITTER":"equal"},"F":{"BASE_BACKOFF":"9s"}}}}"#;
    let ceilings = |function, error_type| {
        let policy = after(policies, &[("BACKOFFS", "10s,20s,10s")], function, error_type);
        [1, 2, 3, 4, 50].map(|nth| policy.ceiling(Attempt::new(nth).unwrap()).as_secs())
    };
    for (function, error_type, expected) in [
        ("another", "E", [10, 20, 10, 10, 10]),
        ("doubling", "", [120, 240, 480, 960, 43_200]),
        ("doubling", "E", [180, 240, 240, 240, 240]),
        ("capped", "", [1, 2, 4, 8, 30]),
        ("listed", "", [300; 5]),
        ("listed", "E", [300; 5]),
        ("listed", "F", [9, 18, 36, 72, 43_200]),
    ] {
        assert_eq!(ceilings(function, error_type), expected, "{function} {error_type}");
    }
}

#[test]
fn everything_that_is_wrong_with_errors_is_in_one_message() {
    let policies = r#"{
        "*":{"MAX_AGE":"1d","ERRORS":{"Slow":{"BASE_BACKOFF":"2h","DURABLE":"true"},"Slow":{}}},
        "*":{},
        "orders":{"MAX_BACKOFF":"1h","ERRORS":{"":{}," A":{},"B":7,"C":{"JITTER":"some"},
                  "D":{"BACKOFFS":"1m,14d"},"E":{"BACKOFFS":"1m","MAX_BACKOFF":"2m"},"F":{"MAX_AGE":"1s"}}},
        "b":{"ERRORS":7},"sqs:q":{"ERRORS":{"A":{}}}}"#;
    let names = SETTINGS.iter().filter(|it| it.for_errors).map(|it| it.name);
    let of_error = format!("one of {}", names.collect::<Vec<_>>().join(", "));
    let keys = "an object whose keys are error types without spaces around, in which * matches any characters";
    let expected = [
        r#"POLICIES must be an object that has * once, got "*""#.to_owned(),
        r#"POLICIES.* must be one of ERRORS, got "MAX_AGE""#.to_owned(),
        r#"POLICIES.*.ERRORS must be an object that has each error type once, got "Slow""#.to_owned(),
        format!(r#"POLICIES.*.ERRORS.Slow must be {of_error}, got "DURABLE""#),
        format!(r#"POLICIES.orders.ERRORS must be {keys}, got """#),
        format!(r#"POLICIES.orders.ERRORS must be {keys}, got " A""#),
        r#"POLICIES.orders.ERRORS.B must be an object such as {"BASE_BACKOFF":"1m"}, got "7""#.to_owned(),
        r#"POLICIES.orders.ERRORS.C.JITTER must be full, equal or none, got "some""#.to_owned(),
        r#"POLICIES.orders.ERRORS.D.BACKOFFS must be durations from 1s to 13d, separated by commas, such as 1m,10m,3h, got "1m,14d""#.to_owned(),
        r#"POLICIES.orders.ERRORS.E.BACKOFFS must be absent beside MAX_BACKOFF, got "1m""#.to_owned(),
        r#"POLICIES.orders.ERRORS.F.MAX_AGE must be from 2s to 365d, got "1s""#.to_owned(),
        r#"POLICIES.*.ERRORS.Slow.MAX_BACKOFF for orders must be from BASE_BACKOFF, 2h, to 13d, got "1h""#.to_owned(),
        r#"POLICIES.b.ERRORS must be an object such as {"RateLimited*":{"BASE_BACKOFF":"1m"}}, got "7""#.to_owned(),
        r#"POLICIES.sqs:q.ERRORS must be absent, because it is about functions only, got "{\"A\":{}}""#.to_owned(),
    ];
    let complaint = complaint(&[("POLICIES", policies)]);
    assert_eq!(complaint.split("; ").collect::<Vec<_>>(), expected);
}

#[test]
fn a_list_of_backoffs_beside_what_it_replaces_stops_the_start_wherever_it_stands() {
    let beside = |scope: &str, others: &str| {
        format!(r#"{scope}BACKOFFS must be absent beside {others}, got "1m""#)
    };
    for (variables, expected) in [
        (&[("BACKOFFS", "1m"), ("BASE_BACKOFF", "1s")][..], beside("", "BASE_BACKOFF")),
        (
            &[("BACKOFFS", "1m"), ("BASE_BACKOFF", "1s"), ("MAX_BACKOFF", "1h")],
            beside("", "BASE_BACKOFF and MAX_BACKOFF"),
        ),
        (
            &[("POLICIES", r#"{"orders":{"BACKOFFS":"1m","MAX_BACKOFF":"1h"}}"#)],
            beside("POLICIES.orders.", "MAX_BACKOFF"),
        ),
        (
            &[("BACKOFFS", "1h,2h"), ("MAX_AGE", "30m")],
            r#"BACKOFFS must be durations, one of them shorter than MAX_AGE, 30m, got "1h,2h""#
                .to_owned(),
        ),
    ] {
        assert_eq!(complaint(variables), expected);
    }
    rules(&[("BACKOFFS", "1m"), ("BASE_BACKOFF", " "), ("MAX_AGE", "2m")]);
}

/// The failure of an attempt, 0 for Lambda's own, with this error.
fn failed(attempt: u32, error_type: &str) -> String {
    let payload = match attempt {
        0 => "1".to_owned(),
        attempt => testing::envelope(attempt, 1_573_755_000, "id", "1"),
    };
    let named = format!(r#""errorType":"{error_type}","errorMessage""#);
    testing::record_of(&payload).replace("\"errorMessage\"", &named)
}

/// How many seconds after its failure a message is due, or why its event is given up, on its first receive and later.
fn due(body: &str, variables: &[(&str, &str)]) -> Result<i64, Reason> {
    let on_receive = |receive_count, now| {
        let message = Message { receive_count, ..message(body) };
        let judged = decide(message, &home(), &rules(variables), now);
        match judged.decision {
            Decision::Settle(Settlement::DeadLetter(reason)) => Err(reason),
            Decision::Invoke | Decision::Settle(Settlement::Wait { .. }) => {
                Ok(judged.schedule.unwrap().due)
            }
        }
    };
    let first = on_receive(1, at(FAILED_AT));
    for (receive_count, seconds) in [(2, 1), (3, 59), (40, 600)] {
        let now = later(at(FAILED_AT), Duration::from_secs(seconds));
        assert_eq!(on_receive(receive_count, now), first, "receive {receive_count}");
    }
    first.map(|due: Timestamp| (due - at(FAILED_AT)).num_seconds())
}

#[test]
fn an_event_whose_error_changes_is_due_by_its_last_error_and_its_attempts_count_over_all() {
    let policies = r#"{"my-function":{"JITTER":"none","BASE_BACKOFF":"10s","MAX_AGE":"7d","ERRORS":{
        "RateLimited*":{"BASE_BACKOFF":"1m"},
        "CardDeclined":{"MAX_ATTEMPTS":3,"BACKOFFS":"1m,10m,3h"},
        "Stale":{"MAX_AGE":"366s"}}}}"#;
    let variables = [("POLICIES", policies)];
    for (attempt, error_type, expected) in [
        (0, "Down", Ok(10)),
        (1, "RateLimitedError", Ok(120)),
        (2, "app.CardDeclined", Ok(3 * 3600)),
        (3, "Down", Ok(80)),
        (3, "RateLimited", Ok(480)),
        (3, "CardDeclined", Err(Reason::MaxAttemptsExceeded)),
        // The first failure was 365.568 s earlier.
        (4, "Stale", Err(Reason::MaxAgeExceeded)),
        (4, "Down", Ok(160)),
    ] {
        assert_eq!(
            due(&failed(attempt, error_type), &variables),
            expected,
            "{attempt} {error_type}"
        );
    }
}

#[test]
fn the_nth_backoff_is_the_nth_of_the_list_drawn_as_the_jitter_says() {
    let ceilings = [60, 600, 10_800, 10_800, 10_800];
    for (jitter, low) in
        [("none", ceilings), ("full", [60; 5]), ("equal", [30, 300, 5400, 5400, 5400])]
    {
        let variables = [("BACKOFFS", "1m,10m,3h"), ("JITTER", jitter)];
        for attempt in 0..5_u32 {
            let nth = usize::try_from(attempt).unwrap();
            let due = due(&failed(attempt, "Down"), &variables).unwrap();
            assert!((low[nth]..=ceilings[nth]).contains(&due), "{jitter} {attempt}: {due}");
        }
    }
    // Full jitter draws from the shortest of the list, wherever it stands.
    let variables = [("BACKOFFS", "2h,1s"), ("MAX_AGE", "10d")];
    let drawn = due(&failed(0, "Down"), &variables).unwrap();
    assert!((1..7199).contains(&drawn), "{drawn}");
}

#[test]
fn a_last_attempt_is_made_if_the_shortest_of_the_list_fits_before_the_end_of_the_age() {
    let age = ("MAX_AGE", "1000s");
    // An age of 1000 s has a slack of 10 s, and the first failure was 365.568 s earlier.
    assert_eq!(due(&failed(2, "Down"), &[("BACKOFFS", "1h,624s"), age]), Ok(624));
    let late = due(&failed(2, "Down"), &[("BACKOFFS", "1h,625s"), age]);
    assert_eq!(late, Err(Reason::MaxAgeExceeded));
}

#[test]
fn a_redriven_event_starts_over_by_the_policy_of_the_error_that_ended_it() {
    let policies = r#"{"orders":{"JITTER":"none","ERRORS":{"Slow":{"BASE_BACKOFF":"90s"}}}}"#;
    for (error_type, seconds) in [("app.Slow", 90), ("Other", 1)] {
        let attributes = MessageAttributes {
            reason: Some("max_attempts_exceeded"),
            function_arn: Some("arn:aws:lambda:us-east-1:123456789012:function:orders:live"),
            error_type: Some(error_type),
            ..MessageAttributes::default()
        };
        let moved = Message { attributes, ..message("1") };
        let moved_at = moved.sent_at.unwrap();
        let judged = decide(moved, &home(), &rules(&[("POLICIES", policies)]), moved_at);
        let due = judged.schedule.unwrap().due;
        assert_eq!((due - moved_at).num_seconds(), seconds, "{error_type}");
    }
}
