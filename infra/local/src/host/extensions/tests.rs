use futures_util::FutureExt as _;

use super::*;

const BOTH: Events = Events { invoke: true, shutdown: true };

fn extensions<const N: usize>(names: [&str; N]) -> Extensions {
    Extensions::new(names.map(Arc::from), Ids::new(1))
}

/// Requests an event. Returns it if it is available at once.
fn ask(extensions: &Extensions, identifier: &str) -> Option<String> {
    let asked = extensions.next(identifier).now_or_never();
    asked.map(|event| event.unwrap().1)
}

fn is_ready(extensions: &Extensions) -> bool {
    extensions.ready().now_or_never().is_some()
}

#[test]
fn extensions_are_ready_when_all_have_registered_and_requested_an_event() {
    let extensions = extensions(["a", "b"]);
    let a = extensions.register("a", BOTH).unwrap();
    assert!(extensions.registered().now_or_never().is_none());
    let b = extensions.register("b", BOTH).unwrap();
    assert!(extensions.registered().now_or_never().is_some());
    assert_eq!(ask(&extensions, &a), None);
    assert!(!is_ready(&extensions));
    assert_eq!(ask(&extensions, &b), None);
    assert!(is_ready(&extensions));
}

#[test]
fn an_extension_gets_each_event_that_it_registered_for_once() {
    let extensions = extensions(["both", "neither", "shutdown"]);
    let shutdown = Events { shutdown: true, ..Events::default() };
    let ids = [("both", BOTH), ("neither", Events::default()), ("shutdown", shutdown)]
        .map(|(name, events)| extensions.register(name, events).unwrap());
    let all = || ids.each_ref().map(|identifier| ask(&extensions, identifier));
    assert_eq!(all(), [None, None, None]);
    extensions.invoke("1");
    assert!(!is_ready(&extensions));
    assert_eq!(all(), [Some("1".to_owned()), None, None]);
    assert!(!is_ready(&extensions));
    assert_eq!(all(), [None, None, None]);
    assert!(is_ready(&extensions));
    extensions.shut_down("2");
    assert_eq!(all(), [Some("2".to_owned()), None, Some("2".to_owned())]);
    let awaits = |name| extensions.awaits_shutdown(name);
    assert_eq!(["both", "neither", "shutdown", "x"].map(awaits), [true, false, true, false]);
}

#[test]
fn an_abandoned_request_does_not_take_an_event() {
    let extensions = extensions(["a"]);
    let a = extensions.register("a", BOTH).unwrap();
    for tell in [Extensions::invoke, Extensions::shut_down] {
        let mut given_up = Box::pin(extensions.next(&a));
        assert!(given_up.as_mut().now_or_never().is_none());
        let mut last = Box::pin(extensions.next(&a));
        assert!(last.as_mut().now_or_never().is_none());
        tell(&extensions, "1");
        assert_eq!(given_up.now_or_never(), Some(Err(Refusal::InvalidExtensionState)));
        assert_eq!(last.now_or_never().unwrap().unwrap().1, "1");
    }
}

#[test]
fn requests_out_of_order_are_refused() {
    let extensions = extensions(["a", "b"]);
    assert_eq!(extensions.register("c", BOTH), Err(Refusal::InvalidExtensionName));
    let a = extensions.register("a", BOTH).unwrap();
    assert_eq!(extensions.register("a", BOTH), Err(Refusal::InvalidExtensionState));
    let next = |identifier: &str| extensions.next(identifier).now_or_never().unwrap();
    assert_eq!(next("x"), Err(Refusal::UnknownExtensionIdentifier));
    assert_eq!(ask(&extensions, &a), None);
    let init_error = || extensions.report(&a, ExtensionFault::InitError("E".to_owned()));
    let exit_error = || extensions.report(&a, ExtensionFault::ExitError("E".to_owned()));
    assert_eq!(init_error(), Err(Refusal::InvalidExtensionState));
    assert_eq!(exit_error(), Ok(()));
    assert_eq!(exit_error(), Err(Refusal::InvalidExtensionState));
    assert_eq!(next(&a), Err(Refusal::InvalidExtensionState));
}

#[test]
fn no_more_extensions_register_than_aws_allows() {
    let names: Vec<Arc<str>> = (0..=EXTENSIONS_MAX).map(|n| n.to_string().into()).collect();
    let extensions = Extensions::new(names.clone(), Ids::new(1));
    for name in &names[1..] {
        assert!(extensions.register(name, BOTH).is_ok());
    }
    assert_eq!(extensions.register(&names[0], BOTH), Err(Refusal::TooManyExtensions));
}

#[test]
fn only_the_first_failure_is_reported() {
    let extensions = extensions(["a", "b"]);
    let a = extensions.register("a", BOTH).unwrap();
    let fault = ExtensionFault::InitError("A.B".to_owned());
    assert!(extensions.are_healthy() && extensions.failure().now_or_never().is_none());
    extensions.report(&a, fault.clone()).unwrap();
    extensions.fail("b".into(), ExtensionFault::NotStarted("gone".to_owned()));
    let failure = extensions.failure().now_or_never().unwrap();
    assert_eq!(failure, ExtensionFailure { extension: "a".into(), fault });
    assert!(!extensions.are_healthy());
    let lines = extensions.lines();
    assert_eq!(lines[0], "EXTENSION\tName: a\tState: Failed\tEvents: [INVOKE,SHUTDOWN]");
    assert_eq!(lines[1], "EXTENSION\tName: b\tState: Started\tEvents: []");
}
