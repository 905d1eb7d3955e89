use super::*;
use crate::model::lambda::recursion::{RUNS_MAX, RecursiveLoop};

#[test]
fn a_function_that_sends_to_its_own_queue_is_stopped_after_sixteen_runs() {
    let mut world = World::new();
    world.queue("q", &[("VisibilityTimeout", "30")]);
    world.map("q", &MappingSettings::default());
    world.send("q", "round");
    for _ in 0..RUNS_MAX {
        let run = world.run();
        let message = Outgoing {
            body: "round".into(),
            trace_header: Some(run.trace_header.to_string()),
            ..Outgoing::default()
        };
        world.cloud.sqs.send(world.now, "q", message).unwrap();
        world.finish(&run, success());
    }
    assert!(world.advance().is_empty(), "the seventeenth is stopped");
    let happened = world.cloud.take_happened();
    assert!(matches!(happened.last().unwrap().what, What::RecursionStopped));
    // The message becomes visible again, the run is stopped again, and its receive count goes up.
    assert_eq!(world.wait(), Some(secs(30)));
    assert!(world.advance().is_empty());
    assert_eq!(world.wait(), Some(secs(30)));
    world.cloud.lambda.set_recursive_loop("f", RecursiveLoop::Allow).unwrap();
    let run = world.run();
    assert!(run.payload.get().contains(r#""ApproximateReceiveCount":"3""#));
}

#[test]
fn a_loop_through_destinations_is_stopped_after_sixteen_runs() {
    let mut world = World::new();
    world.on_failure(0, 60);
    let mut header: Option<String> = None;
    for _ in 0..RUNS_MAX {
        world.invoke(InvocationType::Event, "1", header.as_deref()).unwrap();
        let run = world.run();
        world.finish(&run, failure());
        let message = world.receive("failed").remove(0);
        let trace_header = message.trace_header.unwrap();
        assert_eq!(trace_header, run.trace_header);
        header = Some(trace_header.to_string());
    }
    let accepted = world.invoke(InvocationType::Event, "1", header.as_deref());
    assert!(matches!(accepted, Ok(Invoked::Accepted(_))));
    assert!(world.advance().is_empty());
    let record = world.record("failed");
    assert_eq!(ended(&record), ("RecursiveInvocation", 0));
    assert!(record.get("responsePayload").is_none());

    let error = world
        .invoke(InvocationType::RequestResponse, "1", header.as_deref())
        .map(|_| ())
        .unwrap_err();
    assert_eq!((error.code(), error.status()), ("RecursiveInvocationException", 400));
}

#[test]
fn lambdas_own_retries_do_not_count_as_a_loop() {
    let mut world = World::new();
    world.on_failure(2, 21_600);
    world.event("1");
    let mut lineages = Vec::new();
    for _ in 0..3 {
        let run = world.run();
        let lineage = run.trace_header.split(";Lineage=").nth(1).map(str::to_owned);
        lineages.push(lineage.unwrap());
        world.finish(&run, failure());
        world.wait();
    }
    assert_eq!(lineages[0], lineages[1]);
    assert_eq!(lineages[1], lineages[2]);
}
