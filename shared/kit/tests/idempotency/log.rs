//! What the log says of operations whose record is not as it should be, and what it never says.

use std::{
    io::{self, Write},
    sync::{Arc, LazyLock, Mutex},
};

use comeback::idempotency::{Idempotency, Memory, ReplaceError, Request, Store};
use serde_json::Value;
use tracing::{Dispatch, subscriber::NoSubscriber};

use super::{
    Clock, Declined,
    shaky::{Call, Shaky, fault},
};

/// The lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As long as there is one dispatcher only, tracing asks that of whichever thread comes to an event first whether
/// anybody wants it. Here that may be another test's, which has none, and nobody is asked again.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// What is logged when an operation ends so, and the call after it goes wrong for good.
async fn logged(ends: Result<String, Declined>) -> String {
    let lines = Lines::default();
    let to = lines.clone();
    let subscriber = tracing_subscriber::fmt().json().with_writer(move || to.clone()).finish();
    LazyLock::force(&SECOND);
    let _logging = tracing::subscriber::set_default(subscriber);
    let store = Shaky::scripted([Call::Made, Call::Unmade(fault(false))]);
    let clock = Clock::new();
    let request = Request::new("card 4711", "charge 100", &clock.context("request")).unwrap();
    let once = Idempotency::new("charges", store).unwrap().with_clock(move || clock.now());
    drop(once.run(&request, async |_| ends).await);
    String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
}

#[tokio::test]
async fn a_record_that_could_not_be_written_is_told_by_the_hash_of_its_key() {
    for (ends, level, begins) in [
        (Ok("receipt 1".to_owned()), "ERROR", "the operation was run but not marked as done"),
        (Err(Declined), "WARN", "the key could not be freed"),
    ] {
        let log = logged(ends).await;
        let line: Value = serde_json::from_str(&log).unwrap();
        assert_eq!(
            (&line["level"], &line["target"]),
            (&level.into(), &"comeback::idempotency".into())
        );
        let fields = &line["fields"];
        assert!(fields["message"].as_str().unwrap().starts_with(begins), "{log}");
        assert_eq!((&fields["scope"], &fields["fault"]), (&"charges".into(), &"no answer".into()));
        // printf %s 'charges#card 4711' | sha256sum
        assert_eq!(fields["key_hash"], "dd90a21bdea83fa8");
        for secret in ["4711", "charge 100", "receipt"] {
            assert!(!log.contains(secret), "{log}");
        }
    }
}

#[tokio::test]
async fn what_is_formatted_for_debugging_tells_neither_keys_nor_answers() {
    let (clock, memory, store) = (Clock::new(), Memory::new(), Shaky::default());
    let request = Request::new("card 4711", "charge 100", &clock.context("request")).unwrap();
    let run = async |store: Shaky| {
        let clock = clock.clone();
        let once = Idempotency::new("charges", store).unwrap().with_clock(move || clock.now());
        once.run(&request, async |_| Ok::<_, Declined>("receipt 1".to_owned())).await.unwrap();
    };
    run(store.clone()).await;
    let record = store.written.lock().unwrap()[1].clone().unwrap();
    memory.replace("charges#card 4711", None, Some(&record)).await.unwrap();
    let once = Idempotency::new("charges", memory).unwrap();
    let changed = ReplaceError::Changed(Some(Box::new(record.clone())));
    for shown in [
        format!("{request:?}"),
        format!("{once:?}"),
        format!("{record:?}"),
        format!("{:?}", record.answer),
        format!("{changed:?}"),
    ] {
        for secret in ["4711", "charge 100", "receipt"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}
