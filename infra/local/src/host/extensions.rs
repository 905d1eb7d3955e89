//! The extensions of one execution environment, and their next events.
//!
//! An extension's name is the name of its file. An extension registers and then requests one event after another.
//! With each request it also reports that it is done with the last event. The runtime starts when all extensions
//! have registered, and gets an event when all of them have requested one. The first extension that fails ends the
//! environment.

use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, watch};

use crate::{
    model::{
        Ids,
        lambda::run::{ExtensionFailure, ExtensionFault},
    },
    present::lock,
};

/// The most extensions that may register: AWS's limit.
const EXTENSIONS_MAX: usize = 10;

pub(super) const INVOKE: &str = "INVOKE";
pub(super) const SHUTDOWN: &str = "SHUTDOWN";

pub(super) struct Extensions {
    table: Mutex<Table>,
    changed: Notify,
    failed: watch::Sender<Option<ExtensionFailure>>,
}

struct Table {
    extensions: Vec<Extension>,
    ids: Ids,
}

struct Extension {
    name: Arc<str>,
    identifier: String,
    /// The types of the events that it registered for.
    events: Vec<String>,
    state: State,
    /// How many events the extension has requested. Only the last request gets an event: an abandoned request may
    /// still look open, and its event would be lost.
    asked: u64,
    /// The next event, until the extension takes it.
    event: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Started,
    Registered,
    Ready,
    /// It has an event to take, or is handling one.
    Busy,
    Failed,
}

/// Why an extension's request is refused. The variants have the names of Lambda's error types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("there is no extension of this name, which must be that of its file")]
    InvalidExtensionName,
    #[error("{0}: must be INVOKE or SHUTDOWN")]
    InvalidEventType(String),
    #[error("the extension is in a state in which it can't make this request")]
    InvalidExtensionState,
    #[error("Extension limit ({EXTENSIONS_MAX}) reached")]
    TooManyExtensions,
    #[error("the header Lambda-Extension-Identifier is required")]
    MissingExtensionIdentifier,
    #[error("there is no extension with this identifier")]
    UnknownExtensionIdentifier,
    #[error("the header {0} is required")]
    MissingHeader(&'static str),
    #[error("{0}")]
    InvalidRequestFormat(String),
}

impl Refusal {
    pub(super) fn error_type(&self) -> &'static str {
        match self {
            Self::InvalidExtensionName => "Extension.InvalidExtensionName",
            Self::InvalidEventType(_) => "Extension.InvalidEventType",
            Self::InvalidExtensionState => "Extension.InvalidExtensionState",
            Self::TooManyExtensions => "Extension.TooManyExtensions",
            Self::MissingExtensionIdentifier => "Extension.MissingExtensionIdentifier",
            Self::UnknownExtensionIdentifier => "Extension.UnknownExtensionIdentifier",
            Self::MissingHeader(_) => "Extension.MissingHeader",
            Self::InvalidRequestFormat(_) => "InvalidRequestFormat",
        }
    }
}

impl Table {
    fn find(&mut self, identifier: &str) -> Result<&mut Extension, Refusal> {
        let found = self.extensions.iter_mut().find(|of| of.identifier == identifier);
        found.ok_or(Refusal::UnknownExtensionIdentifier)
    }

    /// Takes the event for the extension's request with this number, if there is one. Returns the event's
    /// identifier and the event.
    fn take(&mut self, identifier: &str, asked: u64) -> Result<Option<(String, String)>, Refusal> {
        let extension = self.find(identifier)?;
        if extension.asked != asked {
            return Err(Refusal::InvalidExtensionState);
        }
        let event = extension.event.take();
        Ok(event.map(|event| (self.ids.uuid(), event)))
    }
}

impl Extension {
    fn awaits(&self, event_type: &str) -> bool {
        self.events.iter().any(|event| event == event_type)
    }

    /// Counts a request for an event, which also means that the extension is done with the last one. Returns the
    /// request's number.
    fn ask(&mut self) -> Result<u64, Refusal> {
        match self.state {
            State::Registered | State::Ready | State::Busy => {}
            State::Started | State::Failed => return Err(Refusal::InvalidExtensionState),
        }
        if self.event.is_none() {
            self.state = State::Ready;
        }
        self.asked += 1;
        Ok(self.asked)
    }
}

/// An environment without extensions.
impl Default for Extensions {
    fn default() -> Self {
        Self::new([], Ids::new(0))
    }
}

impl Extensions {
    pub(super) fn new(names: impl IntoIterator<Item = Arc<str>>, mut ids: Ids) -> Self {
        let extensions = names
            .into_iter()
            .map(|name| Extension {
                name,
                identifier: ids.uuid(),
                events: Vec::new(),
                state: State::Started,
                asked: 0,
                event: None,
            })
            .collect();
        let table = Mutex::new(Table { extensions, ids });
        Self { table, changed: Notify::new(), failed: watch::Sender::default() }
    }

    pub(super) fn register(&self, name: &str, mut events: Vec<String>) -> Result<String, Refusal> {
        if let Some(other) =
            events.iter().find(|event| ![INVOKE, SHUTDOWN].contains(&event.as_str()))
        {
            return Err(Refusal::InvalidEventType(other.clone()));
        }
        events.sort();
        events.dedup();
        self.change(|table| {
            let registered = |of: &&Extension| of.state != State::Started;
            if table.extensions.iter().filter(registered).count() >= EXTENSIONS_MAX {
                return Err(Refusal::TooManyExtensions);
            }
            let named = table.extensions.iter_mut().find(|of| *of.name == *name);
            let extension = named.ok_or(Refusal::InvalidExtensionName)?;
            if extension.state != State::Started {
                return Err(Refusal::InvalidExtensionState);
            }
            extension.state = State::Registered;
            extension.events = events;
            Ok(extension.identifier.clone())
        })
    }

    /// Waits for the next event of the extension with this identifier. Returns the event's identifier and the
    /// event. If the extension sends another request meanwhile, this one is refused.
    pub(super) async fn next(&self, identifier: &str) -> Result<(String, String), Refusal> {
        let asked = self.change(|table| table.find(identifier)?.ask())?;
        loop {
            let changed = self.changed.notified();
            // `change` would wake the other requests here, and two of them would wake each other forever.
            if let Some(event) = lock(&self.table).take(identifier, asked)? {
                return Ok(event);
            }
            changed.await;
        }
    }

    /// Records an error that an extension reports. An extension can report a failed initialisation only before it
    /// requests an event.
    pub(super) fn report(&self, identifier: &str, fault: ExtensionFault) -> Result<(), Refusal> {
        let of_init = matches!(fault, ExtensionFault::InitError(_));
        let name = self.change(|table| {
            let extension = table.find(identifier)?;
            match extension.state {
                State::Registered => {}
                State::Ready | State::Busy if !of_init => {}
                State::Started | State::Ready | State::Busy | State::Failed => {
                    return Err(Refusal::InvalidExtensionState);
                }
            }
            extension.state = State::Failed;
            Ok(Arc::clone(&extension.name))
        })?;
        self.fail(name, fault);
        Ok(())
    }

    /// Records that an extension failed. Only the first failure is kept.
    pub(super) fn fail(&self, extension: Arc<str>, fault: ExtensionFault) {
        self.failed.send_if_modified(|failed| {
            let first = failed.is_none();
            if first {
                *failed = Some(ExtensionFailure { extension, fault });
            }
            first
        });
    }

    pub(super) async fn failure(&self) -> ExtensionFailure {
        let mut failed = self.failed.subscribe();
        match failed.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    pub(super) fn are_healthy(&self) -> bool {
        self.failed.borrow().is_none()
    }

    pub(super) async fn registered(&self) {
        self.all(|state| state != State::Started).await;
    }

    pub(super) async fn ready(&self) {
        self.all(|state| state == State::Ready).await;
    }

    /// Sends an event to the extensions that registered for its type.
    pub(super) fn send(&self, event_type: &str, event: &str) {
        self.change(|table| {
            for extension in table.extensions.iter_mut().filter(|of| of.awaits(event_type)) {
                extension.state = State::Busy;
                extension.event = Some(event.to_owned());
            }
        });
    }

    pub(super) fn awaits_shutdown(&self, name: &str) -> bool {
        let table = lock(&self.table);
        table.extensions.iter().any(|of| *of.name == *name && of.awaits(SHUTDOWN))
    }

    /// The log line that Lambda writes for each extension after the initialisation.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |of: &Extension| {
            let (name, state, events) = (&of.name, of.state, of.events.join(","));
            format!("EXTENSION\tName: {name}\tState: {state:?}\tEvents: [{events}]")
        };
        lock(&self.table).extensions.iter().map(line).collect()
    }

    async fn all(&self, are: impl Fn(State) -> bool) {
        loop {
            let changed = self.changed.notified();
            if lock(&self.table).extensions.iter().all(|of| are(of.state)) {
                return;
            }
            changed.await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let result = change(&mut lock(&self.table));
        self.changed.notify_waiters();
        result
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn both() -> Vec<String> {
        vec![SHUTDOWN.to_owned(), INVOKE.to_owned()]
    }

    #[test]
    fn an_abandoned_request_does_not_take_an_event() {
        let extensions = Extensions::new(["a".into()], Ids::new(1));
        let a = extensions.register("a", both()).unwrap();
        for event_type in [INVOKE, SHUTDOWN] {
            let mut given_up = Box::pin(extensions.next(&a));
            assert!(given_up.as_mut().now_or_never().is_none());
            let mut last = Box::pin(extensions.next(&a));
            assert!(last.as_mut().now_or_never().is_none());
            extensions.send(event_type, "1");
            assert_eq!(given_up.now_or_never(), Some(Err(Refusal::InvalidExtensionState)));
            assert_eq!(last.now_or_never().unwrap().unwrap().1, "1");
        }
    }

    #[test]
    fn no_more_extensions_register_than_aws_allows() {
        let names: Vec<Arc<str>> = (0..=EXTENSIONS_MAX).map(|n| n.to_string().into()).collect();
        let extensions = Extensions::new(names.clone(), Ids::new(1));
        for name in &names[1..] {
            assert!(extensions.register(name, both()).is_ok());
        }
        assert_eq!(extensions.register(&names[0], both()), Err(Refusal::TooManyExtensions));
    }
}
