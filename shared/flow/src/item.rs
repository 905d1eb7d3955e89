//! One message of a batch, and how it was judged.

use std::{cell::OnceCell, time::Duration};

use aws_lambda_events::event::sqs::SqsMessage;
use comeback_core::{
    Timestamp,
    arn::Home,
    claim::{Claim, State},
    decision::{Judgement, Settlement, decide},
    envelope::RetryMetadata,
    in_flight::is_backlog,
    lineage::{Call, Key, Note, root},
    record::{Failure, Wrapping},
    settings::{Rules, Settings, policy::Policy},
    time::between,
};

use crate::{
    message::{Source, about_part, group_id, replacing, resent, trace_header, view},
    ports::{Entered, Resent},
    report::{Entry, Obstacle, Outcome},
};

/// A message, and how it was judged. What comes of it is told to [`Results`](crate::results::Results).
pub(crate) struct Item<'e> {
    record: &'e SqsMessage,
    pub(crate) nth: usize,
    pub(crate) judgement: Judgement<'e>,
    pub(crate) judged_at: Timestamp,
    source: Option<Source<'e>>,
    /// The key of its run, once it was needed: a digest of a megabyte takes milliseconds.
    key: OnceCell<Key>,
    /// What the ledger has about its run, if it was recalled.
    entered: Option<Entered>,
    is_recalled: bool,
    /// The policy of its target, if it describes a failure.
    policy: Option<&'e Policy>,
    /// Whether it is unknown which attempt has failed, and of which event.
    is_unknown: bool,
    /// What kept its record from being read, its notices from being sent, or the ledger from being asked.
    pub(crate) obstacle: Option<Obstacle>,
}

impl<'e> Item<'e> {
    pub(crate) fn judge(
        (nth, record): (usize, &'e SqsMessage),
        home: &Home,
        settings: &'e Settings,
        now: Timestamp,
    ) -> Self {
        let judgement = decide(view(record), home, &settings.rules, now);
        Self {
            key: OnceCell::new(),
            entered: None,
            is_recalled: false,
            policy: policy(&judgement, settings),
            is_unknown: false,
            record,
            nth,
            judgement,
            judged_at: now,
            source: Source::of(record, settings.retry_queue_url.as_deref()),
            obstacle: None,
        }
    }

    /// The same item, after its failure record was fetched, or was not.
    pub(crate) fn judged_again(self, settings: &'e Settings, judgement: Judgement<'e>) -> Self {
        Self { policy: policy(&judgement, settings), judgement, ..self }
    }

    /// The key under which the ledger may know that its run was a retry without an envelope.
    pub(crate) fn noted_key(&self) -> Option<Key> {
        let key = self.judgement.noted_key()?;
        if !self.has_other_key() {
            // Its claim has the same key.
            self.key.get_or_init(|| key.clone());
        }
        Some(key)
    }

    /// The same item, after the ledger was asked for its run.
    pub(crate) fn recalled(
        self,
        note: Option<Note>,
        entered: Option<Entered>,
        rules: &Rules,
        now: Timestamp,
    ) -> Self {
        let judgement = match note {
            Some(note) => self.judgement.continuing(note.metadata, rules, now),
            None => self.judgement,
        };
        let item = Self { judgement, entered: None, is_recalled: true, ..self };
        // The item under another key than that of the claim is not the claim's.
        let entered = entered.filter(|_| item.is_recalled());
        Self { entered, ..item }
    }

    /// What the ledger has about its run, if it was recalled.
    pub(crate) fn entered(&self) -> Option<&Entered> {
        self.entered.as_ref()
    }

    /// Whether the ledger was asked for its run, under the key of its claim. A payload that looks like an envelope, and
    /// has no note, is known by what is in it, and a batch of which only some records have failed, by these.
    pub(crate) fn is_recalled(&self) -> bool {
        self.is_recalled && !self.has_other_key()
    }

    /// Whether the ledger may know its run by another payload than that which is retried.
    fn has_other_key(&self) -> bool {
        self.failure().is_none_or(|failure| {
            matches!(failure.wrapping, Wrapping::Unknown(_) | Wrapping::Cut(_))
        })
    }

    /// What the ledger has noted of its run, or has to. What an envelope says is not noted.
    pub(crate) fn noted(&self) -> Option<&RetryMetadata> {
        let is_noted =
            |failure: &&Failure<'_>| self.is_recalled && matches!(failure.wrapping, Wrapping::Own);
        self.failure().filter(is_noted).and_then(Failure::retried)
    }

    /// The key of its run. Only an item with a failure has one that means something.
    pub(crate) fn key(&self) -> &Key {
        let none = || Key { id: String::new(), run: String::new() };
        self.key.get_or_init(|| self.failure().map_or_else(none, Failure::key))
    }

    /// The same item, which has met this obstacle.
    pub(crate) fn hindered(self, obstacle: Obstacle) -> Self {
        Self { obstacle: self.obstacle.or(Some(obstacle)), ..self }
    }

    /// The same item, as long as it is unknown which attempt has failed.
    pub(crate) fn unknown(self, settlement: Settlement) -> Self {
        Self { judgement: self.judgement.unplanned(settlement), is_unknown: true, ..self }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// The failure that the message describes, even if the message is refused.
    pub(crate) fn failure(&self) -> Option<&Failure<'e>> {
        self.judgement.failure.as_ref().ok()
    }

    /// The failure, unless the message is refused. A message that is refused counts for no function: it has no claim
    /// and no item, changes no circuit, and is in the metrics of none.
    pub(crate) fn accepted(&self) -> Option<&Failure<'e>> {
        self.judgement.accepted()
    }

    /// The name of the policy of the failure's error, if that decides.
    pub(crate) fn error_policy(&self) -> Option<&'e str> {
        let own = self.policy?.of_error(&self.accepted()?.error)?;
        Some(&own.name)
    }

    /// Whether the message was received before, or was sent again.
    pub(crate) fn came_back(&self) -> bool {
        self.judgement.message.came_back()
    }

    pub(crate) fn age(&self) -> Option<Duration> {
        Some(between(self.failure()?.first_failure(), self.judged_at))
    }

    /// The queue, or `None` if neither the record nor the settings name it.
    pub(crate) fn source(&self) -> Option<Source<'e>> {
        self.source
    }

    pub(crate) fn receipt_handle(&self) -> &'e str {
        self.record.receipt_handle.as_deref().unwrap_or_default()
    }

    /// The message to send again with this delay, or `None` if it describes no failure.
    pub(crate) fn resent(&self, delay: u32) -> Option<Resent<'e>> {
        Some(resent(self.record, &self.judgement.message, self.failure()?, delay))
    }

    /// The messages to send instead of this one, if it is S3's notice of several objects, or of a batch in parts.
    pub(crate) fn replacements(&self) -> Vec<Resent<'_>> {
        let Judgement { notices, message, .. } = &self.judgement;
        let notices = notices.iter().map(|notice| replacing(self.record, notice));
        let parts = self.judgement.parts().iter();
        notices.chain(parts.map(|&part| about_part(self.record, message.body, part))).collect()
    }

    pub(crate) fn may_be_sent_again(&self) -> bool {
        self.failure().is_some_and(|it| it.may_be_sent_again(&self.judgement.message))
    }

    /// The message to send to the queue whose consumer failed, or that it could not be delivered to, or `None` if the
    /// target is a function.
    pub(crate) fn sent_back(&self) -> Option<Resent<'_>> {
        let failure = self.failure()?;
        let attributes = failure.attributes(self.judgement.schedule?.attempt)?;
        let body = failure.event.as_ref()?.payload();
        let (trace_header, group_id) = (self.trace_header(), group_id(self.record));
        Some(Resent { body, attributes, trace_header, group_id, delay: 0 })
    }

    /// Whether the message had to wait for its first receive.
    pub(crate) fn is_backlog(&self) -> bool {
        is_backlog(&self.judgement.message, self.judged_at)
    }

    pub(crate) fn trace_header(&self) -> Option<&'e str> {
        trace_header(self.record)
    }

    /// The call that is made under this claim without an envelope.
    pub(crate) fn call(&self, claim: &Claim, now: Timestamp) -> Option<Call> {
        let State::Held { until } = claim.state else { return None };
        let is_transparent = self.failure()?.is_transparent;
        let envelope = self.judgement.envelope().filter(|_| is_transparent)?;
        Some(Call {
            name: claim.token.owner.clone(),
            metadata: envelope.metadata.known(),
            since: now,
            until,
            root: self.trace_header().and_then(root).map(str::to_owned),
            is_repeated: false,
            taken_by: None,
        })
    }

    pub(crate) fn into_entry(self, outcome: Outcome, obstacle: Option<Obstacle>) -> Entry {
        Entry {
            target: self.accepted().map(|failure| failure.target.name().to_owned()),
            age: self.accepted().and_then(|_| self.age()),
            obstacle: self.obstacle.or(obstacle),
            message_id: self.judgement.message.id.to_owned(),
            outcome,
        }
    }
}

fn policy<'e>(judgement: &Judgement<'_>, settings: &'e Settings) -> Option<&'e Policy> {
    let failure = judgement.failure.as_ref().ok()?;
    Some(settings.rules.policies.of(failure.target.name()))
}
