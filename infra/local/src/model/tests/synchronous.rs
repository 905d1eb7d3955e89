use super::*;
use crate::model::lambda::error::ThrottleReason;

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
