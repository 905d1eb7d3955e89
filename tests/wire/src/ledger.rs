//! The ledger's table, as a port asks for it.

use comeback_core::{
    Timestamp,
    fault::StoreFault,
    lineage::{self, Key, Known, Siblings},
    register::Waiting,
};
use comeback_flow::ports::{Ledger, Listing, LookedUp, NotExchanged, NotReplaced, Wanted};

use crate::{
    port::Port,
    reply::{Answer, Found, Reply},
    request::{Entry, Exchange, Request, Write},
};

impl Ledger for Port {
    async fn write(&self, key: &Key, write: &lineage::Write<'_>) -> Result<(), NotReplaced> {
        let entry = |waiting: &Waiting<'_>| Entry {
            target: waiting.target.to_owned(),
            queue_url: waiting.queue_url.to_owned(),
            event_id: waiting.event_id.to_owned(),
            attempt: waiting.attempt.get(),
            due: waiting.due,
            policy: waiting.policy.map(str::to_owned),
            receipt_handle: waiting.receipt_handle.map(str::to_owned),
        };
        let write = Write {
            key: key.clone(),
            seen: write.seen.cloned(),
            next: write.next.cloned(),
            waiting: write.waiting.map(entry),
            metadata: write.metadata.cloned(),
            calls: write.calls.to_vec(),
            removed: write.removed.to_vec(),
        };
        self.ask_once(Request::Write(Box::new(write))).await.map_err(|refusal| {
            match refusal.found {
                Some(found) => NotReplaced::Changed(found),
                None => NotReplaced::Fault(refusal.into()),
            }
        })
    }

    async fn note(&self, key: &Key, known: &Known) -> Result<(), StoreFault> {
        let (key, known) = (key.clone(), Box::new(known.clone()));
        self.ask_once(Request::Note { key, known }).await.map_err(StoreFault::from)
    }

    async fn take(&self, key: &Key, call: &str, run: &str) -> Result<bool, StoreFault> {
        let (call, run) = (call.to_owned(), run.to_owned());
        let found = self.read(Request::Take { key: key.clone(), call, run }).await?;
        Ok(matches!(found, Found::Taken(true)))
    }

    async fn siblings(&self, key: &Key, only_children: bool) -> Result<Siblings, StoreFault> {
        let found = self.read(Request::Siblings { key: key.clone(), only_children }).await?;
        Ok(if let Found::Siblings(siblings) = found { siblings } else { Siblings::default() })
    }

    async fn look_up(&self, wanted: &Wanted<'_>) -> Result<LookedUp, StoreFault> {
        let mut runs: Vec<_> = wanted.runs.iter().cloned().collect();
        let mut targets: Vec<_> = wanted.targets.iter().map(|&target| target.to_owned()).collect();
        runs.sort_unstable();
        targets.sort_unstable();
        let found = self.read(Request::LookUp { runs, targets }).await?;
        Ok(if let Found::LookedUp { runs, paused, circuits } = found {
            LookedUp {
                runs: runs.into_iter().collect(),
                paused: paused.into_iter().collect(),
                circuits: circuits.into_iter().collect(),
            }
        } else {
            LookedUp::default()
        })
    }

    async fn exchange(&self, target: &str, seen: u64, next: &str) -> Result<(), NotExchanged> {
        let exchange = Exchange { target: target.to_owned(), seen, next: next.to_owned() };
        let Reply { entries, found } = self.ask(Request::Exchange(exchange)).await;
        entries.into_iter().collect::<Answer>().map_err(|refusal| {
            let there = if let Found::Circuit(there) = found { Some(there) } else { None };
            there.map_or_else(|| NotExchanged::Fault(refusal.into()), NotExchanged::Changed)
        })
    }

    async fn list(
        &self,
        target: &str,
        after: Timestamp,
        count: u32,
    ) -> Result<Listing, StoreFault> {
        let found = self.read(Request::List { target: target.to_owned(), after, count }).await?;
        Ok(if let Found::Listed(listing) = found { listing } else { Listing::default() })
    }
}
