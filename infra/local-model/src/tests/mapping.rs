use super::*;

/// A queue `q` with a visibility timeout of 30 seconds, mapped to `f`.
fn mapped(settings: &MappingSettings) -> World {
    let mut world = World::new();
    world.queue("q", &[]);
    world.map("q", settings);
    world
}

fn records(run: &Run) -> Vec<Value> {
    let mut event: Value = serde_json::from_str(run.payload.get()).unwrap();
    serde_json::from_value(event["Records"].take()).unwrap()
}

fn returned(response: &str) -> Outcome {
    Outcome::Returned(response.as_bytes().to_vec())
}

#[test]
fn a_backlog_starts_with_five_concurrent_batches_and_five_more_each_second() {
    let mut world = mapped(&MappingSettings::default());
    for n in 0..200 {
        world.send("q", &n.to_string());
    }
    let runs = world.advance();
    assert_eq!(runs.len(), 5);
    assert!(runs.iter().all(|run| records(run).len() == 10));
    assert!(world.advance().is_empty());
    assert_eq!(world.wait(), Some(secs(1)));
    assert_eq!(world.advance().len(), 5);
    world.finish(&runs[0], success());
    assert_eq!(world.advance().len(), 1);
}

#[test]
fn a_maximum_concurrency_leaves_the_other_messages_visible() {
    let bound = MappingSettings {
        batch_size: Some(1),
        scaling_config: Some(ScalingConfig { maximum_concurrency: Some(2) }),
        ..MappingSettings::default()
    };
    let mut world = mapped(&bound);
    for body in ["a", "b", "c"] {
        world.send("q", body);
    }
    let runs = world.advance();
    assert_eq!(runs.len(), 2);
    assert_eq!(world.count("q", "ApproximateNumberOfMessages"), 1);
    assert_eq!(world.wait(), None);
    world.finish(&runs[0], success());
    assert_eq!(world.advance().len(), 1);
}

#[test]
fn a_batching_window_collects_messages_into_one_batch() {
    let window = MappingSettings {
        batch_size: Some(25),
        maximum_batching_window_in_seconds: Some(5),
        ..MappingSettings::default()
    };
    let mut world = mapped(&window);
    world.send("q", "first");
    assert!(world.advance().is_empty());
    world.pass(secs(3));
    for n in 0..20 {
        world.send("q", &n.to_string());
    }
    assert!(world.advance().is_empty());
    assert_eq!(world.wait(), Some(secs(2)));
    let run = world.run();
    assert_eq!(records(&run).len(), 21);
    // Without partial batch responses, a success deletes all messages whatever the response.
    world.finish(&run, returned(r#"{"batchItemFailures":[{"itemIdentifier":"x"}]}"#));
    assert_eq!(world.messages("q"), 0);

    for n in 0..25 {
        world.send("q", &n.to_string());
    }
    assert_eq!(records(&world.run()).len(), 25, "a full batch doesn't wait");
}

#[test]
fn a_throttled_batch_is_retried_less_and_less_often_until_its_messages_are_visible_again() {
    let mut world = mapped(&MappingSettings::default());
    world.cloud.lambda.set_reserved_concurrency("f", Some(0)).unwrap();
    world.send("q", "a");
    for wait in [1, 2, 4, 8, 16] {
        assert!(world.advance().is_empty());
        assert_eq!(world.wait(), Some(secs(wait)));
    }
    world.cloud.lambda.set_reserved_concurrency("f", None).unwrap();
    let run = world.run();
    assert_eq!(records(&run)[0]["attributes"]["ApproximateReceiveCount"], "2");
}

#[test]
fn a_mapping_that_is_disabled_or_has_lost_its_function_receives_nothing() {
    let mut world = mapped(&MappingSettings::default());
    let uuid = world.cloud.lambda.mappings.keys().next().unwrap().clone();
    let off = MappingSettings { enabled: Some(false), ..MappingSettings::default() };
    world.cloud.lambda.update_mapping(world.now, &uuid, None, &off).unwrap();
    world.send("q", "a");
    assert!(world.advance().is_empty());
    assert_eq!(world.wait(), None);

    let on = MappingSettings { enabled: Some(true), ..MappingSettings::default() };
    world.cloud.lambda.update_mapping(world.now, &uuid, None, &on).unwrap();
    world.cloud.lambda.delete_function("f").unwrap();
    assert!(world.advance().is_empty());
    assert_eq!(world.wait(), None);
    assert_eq!(world.count("q", "ApproximateNumberOfMessages"), 1);

    world.cloud.lambda.delete_mapping(&uuid).unwrap();
    assert!(world.cloud.lambda.mapping(&uuid).is_err());
}

#[test]
fn a_mapping_goes_on_when_its_queue_shows_messages_at_once_and_ends_when_it_is_deleted() {
    let mut world = mapped(&MappingSettings::default());
    let none = [("VisibilityTimeout".to_owned(), "0".to_owned())].into();
    world.cloud.sqs.set_attributes(world.now, "q", &none).unwrap();
    world.send("q", "a");
    let run = world.run();
    world.cloud.sqs.delete_queue(world.now, "q").unwrap();
    world.finish(&run, success());
    assert!(world.advance().is_empty());
    assert_eq!(world.wait(), None);
}

#[test]
fn a_queue_whose_visibility_timeout_is_shorter_than_the_functions_timeout_cannot_be_mapped() {
    let mut world = World::new();
    world.queue("short", &[("VisibilityTimeout", "2")]);
    let settings = MappingSettings::default();
    let created = world.cloud.create_mapping(world.now, &queue_arn("short"), "f", &settings);
    let message = "Queue visibility timeout: 2 seconds is less than Function timeout: 3 seconds";
    assert_eq!(created.map(|_| ()), Err(LambdaError::invalid(message)));
}
