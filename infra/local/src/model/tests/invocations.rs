use super::*;
use crate::model::lambda::error::ThrottleReason;

#[test]
fn a_failing_event_runs_three_times_with_one_request_id_and_then_becomes_a_record() {
    let mut world = World::new();
    world.on_failure(2, 21_600);
    let payload = r#"{"n":1.50,"big":123456789012345678901}"#;
    let request_id = world.event(payload);
    for wait in [60, 120] {
        let run = world.run();
        assert_eq!(*run.request_id, *request_id);
        assert_eq!(run.payload.get(), payload);
        world.finish(&run, failure());
        assert!(world.advance().is_empty());
        assert_eq!(world.wait(), Some(secs(wait)));
    }
    assert_eq!(world.messages("failed"), 0);
    let run = world.run();
    world.finish(&run, failure());
    let message = world.receive("failed").remove(0);
    let record: Value = serde_json::from_str(&message.body).unwrap();
    assert_eq!(record["requestContext"]["requestId"], request_id);
    assert_eq!(ended(&record), ("RetriesExhausted", 3));
    assert_eq!(record["responsePayload"]["errorMessage"], "no luck");
    assert!(message.body.contains(&format!(r#""requestPayload":{payload},"#)), "{}", message.body);
    assert_eq!(world.wait(), None);
}

#[test]
fn a_throttled_event_backs_off_until_it_reaches_its_maximum_age() {
    let mut world = World::with_concurrency(1);
    world.on_failure(2, 60);
    world.event("1");
    let busy = world.run();
    world.event("2");
    let mut waits = Vec::new();
    loop {
        assert!(world.advance().is_empty());
        match world.wait() {
            Some(wait) => waits.push(wait.as_secs()),
            None => break,
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 29]);
    let record = world.record("failed");
    assert_eq!(ended(&record), ("EventAgeExceeded", 0));
    assert_eq!(record["requestPayload"], 2);
    assert!(record.get("responseContext").is_none());
    world.finish(&busy, success());
}

#[test]
fn a_throttled_attempt_does_not_count_as_a_run() {
    let mut world = World::with_concurrency(1);
    world.on_failure(0, 21_600);
    world.event("1");
    let busy = world.run();
    world.event("2");
    assert!(world.advance().is_empty());
    world.finish(&busy, success());
    world.wait();
    let run = world.run();
    world.finish(&run, failure());
    assert_eq!(world.record("failed")["requestContext"]["approximateInvokeCount"], 1);
}

#[test]
fn a_record_that_is_too_large_or_whose_queue_is_deleted_is_reported_as_a_failed_delivery() {
    let largest = format!("\"{}\"", "x".repeat(1024 * 1024 - 2));
    for (payload, deleted) in [(&*largest, false), ("1", true)] {
        let mut world = World::new();
        world.on_failure(0, 60);
        if deleted {
            world.cloud.sqs.delete_queue(world.now, "failed").unwrap();
        }
        world.play(payload, failure());
        let happened = world.cloud.take_happened();
        let last = &happened.last().unwrap().what;
        assert!(matches!(last, What::DestinationFailed { .. }), "{last:?}");
        assert!(deleted || world.messages("failed") == 0);
    }
}

#[test]
fn a_function_can_be_a_destination() {
    let mut world = World::new();
    world.function("next", Settings::default());
    let settings = EventInvokeSettings {
        maximum_retry_attempts: Some(0),
        on_failure: Some("arn:aws:lambda:us-east-1:000000000000:function:next".to_owned()),
        ..EventInvokeSettings::default()
    };
    world.cloud.lambda.set_event_invoke_config(world.now, "f", &settings, false).unwrap();
    world.play("7", failure());
    let run = world.run();
    assert_eq!(&*run.configuration.name, "next");
    let record: Value = serde_json::from_str(run.payload.get()).unwrap();
    assert_eq!(record["requestPayload"], 7);
    assert_eq!(record["requestContext"]["condition"], "RetriesExhausted");
}

#[test]
fn the_events_of_a_deleted_function_are_dropped() {
    let mut world = World::new();
    world.on_failure(0, 60);
    world.event("1");
    let run = world.run();
    world.event("2");
    world.cloud.lambda.delete_function("f").unwrap();
    assert!(world.advance().is_empty());
    world.finish(&run, failure());
    while world.wait().is_some() {
        assert!(world.advance().is_empty());
    }
    assert_eq!(world.messages("failed"), 0);
}

#[test]
fn an_event_that_is_given_up_is_lost_unless_it_has_a_destination() {
    let lost = |world: &mut World| {
        world.event("{}");
        let mut happened = Vec::new();
        while let Some(run) = world.advance().pop() {
            world.finish(&run, failure());
            happened.extend(world.cloud.take_happened());
            world.wait();
        }
        happened.into_iter().find_map(|event| {
            if let What::GivenUp { lost, .. } = event.what { Some(lost) } else { None }
        })
    };
    let mut world = World::new();
    assert_eq!(lost(&mut world), Some(true));
    world.on_failure(2, 21_600);
    assert_eq!(lost(&mut world), Some(false));
}

#[test]
fn waiting_work_is_counted_in_lambda_and_in_each_queue() {
    let mut world = World::new();
    assert_eq!(world.cloud.waiting(world.now), Waiting::default());
    world.on_failure(0, 21_600);
    world.queue("empty", &[]);
    for _ in 0..3 {
        world.event("{}");
    }
    let runs = world.advance();
    world.finish(&runs[0], failure());
    world.finish(&runs[1], failure());
    world.event("{}");
    // Messages in flight and running events count as waiting too.
    assert_eq!(world.receive("failed").len(), 2);
    let messages = [("failed".to_owned(), 2)].into();
    assert_eq!(world.cloud.waiting(world.now), Waiting { invocations: 2, messages });
}

fn running(invoked: Result<Invoked, LambdaError>) -> Run {
    match invoked {
        Ok(Invoked::Running(run)) => *run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_payload_a_function_gets_an_empty_object() {
    let mut world = World::new();
    let run = running(world.invoke(InvocationType::RequestResponse, "", None));
    assert_eq!(run.payload.get(), "{}");
}

#[test]
fn a_payload_must_be_json_within_the_limit_of_its_invocation_type() {
    let mut world = World::new();
    let string = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    for (kind, limit) in
        [(InvocationType::Event, 1024 * 1024), (InvocationType::RequestResponse, 6 * 1024 * 1024)]
    {
        assert!(world.invoke(kind, &string(limit), None).is_ok());
        let error = world.invoke(kind, &string(limit + 1), None).unwrap_err();
        assert_eq!((error.code(), error.status()), ("RequestTooLargeException", 413));
        for payload in ["{", "nul", "1 2", "'a'"] {
            let error = world.invoke(kind, payload, None).unwrap_err();
            assert_eq!(error.code(), "InvalidRequestContentException", "{payload}");
        }
    }
}

#[test]
fn a_throttle_says_which_concurrency_limit_is_reached() {
    let mut world = World::with_concurrency(3);
    world.function("g", Settings::default());
    let refusal = |world: &mut World| {
        world.invoke(InvocationType::RequestResponse, "1", None).map(|_| ()).unwrap_err()
    };
    world.cloud.lambda.set_reserved_concurrency("g", Some(2)).unwrap();
    let run = running(world.invoke(InvocationType::RequestResponse, "1", None));
    assert_eq!(refusal(&mut world), LambdaError::TooManyRequests(ThrottleReason::Account));

    world.cloud.lambda.set_reserved_concurrency("f", Some(1)).unwrap();
    assert_eq!(refusal(&mut world), LambdaError::TooManyRequests(ThrottleReason::Reserved));
    world.finish(&run, success());
    let run = running(world.invoke(InvocationType::RequestResponse, "1", None));

    world.cloud.lambda.set_reserved_concurrency("f", Some(0)).unwrap();
    world.finish(&run, success());
    assert_eq!(refusal(&mut world), LambdaError::TooManyRequests(ThrottleReason::Reserved));

    let error = world.cloud.lambda.set_reserved_concurrency("f", Some(2)).unwrap_err();
    assert_eq!(error.code(), "InvalidParameterValueException");
}

#[test]
fn runs_of_a_deleted_function_do_not_count_for_a_new_one_with_the_same_name() {
    let mut world = World::with_concurrency(1);
    let old = running(world.invoke(InvocationType::RequestResponse, "1", None));
    world.cloud.lambda.delete_function("f").unwrap();
    world.function("f", Settings::default());
    let new = running(world.invoke(InvocationType::RequestResponse, "1", None));
    world.finish(&old, success());
    assert!(world.invoke(InvocationType::RequestResponse, "1", None).is_err());
    world.finish(&new, success());
    assert!(world.invoke(InvocationType::RequestResponse, "1", None).is_ok());
}

#[test]
fn a_run_can_finish_only_once() {
    let mut world = World::new();
    let run = running(world.invoke(InvocationType::RequestResponse, "1", None));
    assert!(world.cloud.finish(world.now, run.id, success()).is_some());
    assert!(world.cloud.finish(world.now, run.id, success()).is_none());
}
