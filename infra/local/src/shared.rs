//! The state that all requests share, and the pump that advances the model.
//!
//! Every request makes its [`Shared::step`] under one lock: the model is fast and never waits. After a step, the host
//! starts the runs that became due, and all requests that wait for a change are woken. Between requests, the pump makes
//! the next step when the model needs it.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use comeback_core::Timestamp;
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};

use crate::{
    config::Config,
    host::{Host, unpacked::Unpacked},
    journal::Journal,
    model::{
        Cloud,
        lambda::run::{Response, Run},
    },
    outages::Outages,
    present::{lock, now, until},
};

const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Shared(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    state: Mutex<State>,
    pub(crate) host: Host,
    pub(crate) unpacked: Unpacked,
    pub(crate) journal: Journal,
    outages: Outages,
    changed: Notify,
    /// Wakes the pump, because the next step is due earlier than before.
    sooner: Notify,
    /// Closed when the local cloud stops.
    closing: watch::Receiver<()>,
    /// Dropped last, which shows that everything else has been dropped.
    _held: mpsc::Sender<()>,
}

struct State {
    cloud: Cloud,
    wakeup: Option<Timestamp>,
}

impl Shared {
    pub(crate) fn new(
        config: Config,
        endpoint: &str,
        closing: watch::Receiver<()>,
        held: mpsc::Sender<()>,
    ) -> io::Result<Self> {
        let Config { concurrency, inherited, outages, freeze, .. } = config;
        let seed = seed();
        let journal = Journal::default();
        let unpacked = Unpacked::new(inherited.temporary(), seed);
        let environments_max = usize::try_from(concurrency).unwrap_or(usize::MAX);
        Ok(Self(Arc::new(Inner {
            state: Mutex::new(State { cloud: Cloud::new(concurrency, seed), wakeup: None }),
            host: Host::new(inherited, endpoint, journal.clone(), environments_max, freeze)?,
            unpacked,
            journal,
            outages,
            changed: Notify::new(),
            sooner: Notify::new(),
            closing,
            _held: held,
        })))
    }

    /// Makes one step on the model at the current time. Afterwards, the runs that became due are started, and all
    /// requests that wait for a change are woken.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Cloud, Timestamp) -> T) -> T {
        let (result, _) = self.advance(step);
        self.0.changed.notify_waiters();
        result
    }

    /// Makes a step that itself changes nothing that other requests wait for, such as a receive. It wakes them only if
    /// something else happened. Otherwise two long polls would wake each other forever.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Cloud, Timestamp) -> T) -> T {
        let (result, concerns_others) = self.advance(look);
        if concerns_others {
            self.0.changed.notify_waiters();
        }
        result
    }

    /// Resolves when anything has changed since this call. Call this before [`Shared::look`], and await it afterwards.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.0.changed.notified()
    }

    pub(crate) fn closing(&self) -> impl Future<Output = ()> + use<> {
        let mut closing = self.0.closing.clone();
        // Nothing is ever sent. An error means that the sender was dropped.
        async move { while closing.changed().await.is_ok() {} }
    }

    /// Passes a run to the host, and its outcome to the model. The handle resolves to the response for the invoker.
    pub(crate) fn start(&self, run: Run) -> JoinHandle<Option<Response>> {
        let shared = self.clone();
        tokio::spawn(async move {
            let simulated = match shared.0.outages.now(&run.configuration.name, now()) {
                Some((outage, _)) => outage.carry_out(run.configuration.timeout()).await,
                None => None,
            };
            let tenant_id = run.tenant_id.clone();
            let (outcome, warm) = match simulated {
                Some(outcome) => (outcome, None),
                None => shared.0.host.run(&run).await,
            };
            // The environment is kept before the model gets the outcome, so that the next run finds it.
            if let Some(warm) = warm
                && shared.is_current(&run)
            {
                shared.0.host.keep(warm, tenant_id);
            }
            shared.step(|cloud, now| cloud.finish(now, run.id, outcome))
        })
    }

    /// Makes a step, and does everything that is due after it. The second result is whether something happened that
    /// other requests may wait for.
    fn advance<T>(&self, step: impl FnOnce(&mut Cloud, Timestamp) -> T) -> (T, bool) {
        let now = now();
        let mut state = lock(&self.0.state);
        let result = step(&mut state.cloud, now);
        let runs = state.cloud.advance(now);
        let happened = state.cloud.take_happened();
        let wakeup = state.cloud.next_wakeup(now);
        let sooner = match (wakeup, state.wakeup) {
            (Some(new), Some(old)) => new < old,
            (new, _) => new.is_some(),
        };
        state.wakeup = wakeup;
        let concerns_others = state.cloud.sqs.take_redriven() || !happened.is_empty();
        if !happened.is_empty() {
            // Written under the lock, so that the journal's order is that of the steps.
            self.0.journal.write(happened);
        }
        drop(state);
        for run in runs {
            // No invoker waits for the response. The model settles the event or batch itself.
            drop(self.start(run));
        }
        if sooner {
            self.0.sooner.notify_one();
        }
        (result, concerns_others)
    }

    fn is_current(&self, run: &Run) -> bool {
        let state = lock(&self.0.state);
        let current = state.cloud.lambda.configuration(&run.configuration.name);
        current.is_ok_and(|current| current.revision_id == run.configuration.revision_id)
    }

    pub(crate) async fn pump(self) {
        loop {
            let sooner = self.0.sooner.notified();
            let wakeup = lock(&self.0.state).wakeup;
            match wakeup {
                None => sooner.await,
                Some(wakeup) => tokio::select! {
                    () = sooner => {}
                    () = tokio::time::sleep(until(wakeup)) => self.look(|_, _| ()),
                },
            }
        }
    }

    pub(crate) async fn sweep(self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            self.0.host.sweep();
        }
    }
}

/// A seed that differs at each start, so that a client never sees the same id after a restart.
fn seed() -> u64 {
    let nanos = now().timestamp_nanos_opt().unwrap_or_default();
    nanos.cast_unsigned() ^ u64::from(std::process::id()).rotate_left(32)
}
