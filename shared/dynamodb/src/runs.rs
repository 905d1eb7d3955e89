//! The items of runs in the ledger's table (`comeback_core::lineage`).
//!
//! | attribute | what it says |
//! |---|---|
//! | `id` | the target, and a digest of the payload |
//! | `run` | the request id of the run, or the message id that takes its place |
//! | `owner`, `generation`, `state`, `held_until`, `order`, `expires_at` | the claim on the failure of the run |
//! | `metadata` | what the envelope of the run would say, if it had none |
//! | `parent`, `parent_call` | the run whose failure it retries, and the call that did |
//! | `call/NAME` | a call without an envelope that retries the failure of the run |
//! | `taken/NAME` | the run that was taken for the one that this call started |
//!
//! A waiting event's item also has the attributes of the [`register`].

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    operation::{
        delete_item::DeleteItemError, update_item::UpdateItemError,
        update_item::builders::UpdateItemFluentBuilder,
    },
    types::{AttributeValue, ReturnValuesOnConditionCheckFailure::AllOld},
};
use comeback_core::{
    claim::State,
    envelope::RetryMetadata,
    fault::{self, StoreFault},
    lineage::{Call, Key, Known, Note, Parent, Siblings, Write},
};

use crate::{
    ClaimTable, Item,
    item::{self, Condition, ID, claim, key_of, text},
    primary, register,
};

const METADATA: &str = "metadata";
const PARENT: &str = "parent";
const PARENT_CALL: &str = "parent_call";
const CALL: &str = "call/";
const TAKEN: &str = "taken/";

/// How many runs with one payload are read to find what a failure continues. Hardly any payload has more, and those of
/// a function that always gets the same are many.
const SIBLINGS_MAX: i32 = 100;

/// Why the item of a run was not written. Contains what is known of the run now.
pub type NotWritten = fault::NotReplaced<Option<Box<Known>>>;

/// An update of an item: expressions, and the names and values in them.
#[derive(Default)]
struct Update {
    set: Vec<String>,
    remove: Vec<String>,
    names: HashMap<String, String>,
    values: Item,
}

impl Update {
    fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#a{}", self.names.len());
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":v{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    fn set(&mut self, name: &str, value: AttributeValue) {
        let (name, value) = (self.name(name), self.value(value));
        self.set.push(format!("{name} = {value}"));
    }

    /// Sets an attribute unless the item has it.
    fn set_new(&mut self, name: &str, value: AttributeValue) {
        let (name, value) = (self.name(name), self.value(value));
        self.set.push(format!("{name} = if_not_exists({name}, {value})"));
    }

    fn remove(&mut self, name: &str) {
        let name = self.name(name);
        self.remove.push(name);
    }

    /// Sets an attribute. If it has no value any more, and the item has one, the attribute is removed.
    fn put(&mut self, (name, value): (&str, Option<AttributeValue>), is_there: bool) {
        match value {
            Some(value) => self.set(name, value),
            None if is_there => self.remove(name),
            None => {}
        }
    }

    fn call(&mut self, call: &Call) {
        self.set(&format!("{CALL}{}", call.name), text(&call.to_json()));
    }

    /// Adds this update to a call.
    fn of(self, call: UpdateItemFluentBuilder) -> UpdateItemFluentBuilder {
        let clause = |word: &str, parts: &[String]| match parts.is_empty() {
            true => String::new(),
            false => format!("{word} {} ", parts.join(", ")),
        };
        let expression = clause("SET", &self.set) + &clause("REMOVE", &self.remove);
        let call = call.update_expression(expression.trim_end());
        let call = self
            .names
            .into_iter()
            .fold(call, |it, (key, name)| it.expression_attribute_names(key, name));
        self.values
            .into_iter()
            .fold(call, |it, (key, value)| it.expression_attribute_values(key, value))
    }
}

impl ClaimTable {
    /// Makes this write if the item has the claim that was seen. This takes one call.
    pub async fn write(&self, key: &Key, write: &Write<'_>) -> Result<(), NotWritten> {
        let Some(next) = write.next else {
            let removed = self.deletion(primary(key), write.seen).send().await;
            return removed.map(drop).map_err(|error| match error.as_service_error() {
                Some(DeleteItemError::ConditionalCheckFailedException(changed)) => {
                    self.not_written(changed.item())
                }
                _ => NotWritten::Fault(self.fault(&error)),
            });
        };
        let condition = Condition::of(write.seen);
        let mut update = Update::default();
        // The condition says what the item has.
        let is_there = write
            .seen
            .map_or([false; 6], |seen| item::attributes(seen).map(|(_, value)| value.is_some()));
        for (attribute, is_there) in item::attributes(next).into_iter().zip(is_there) {
            update.put(attribute, is_there);
        }
        let was_listed = write.seen.is_some_and(|seen| seen.state == State::Waiting);
        for attribute in register::attributes(write.waiting) {
            update.put(attribute, was_listed);
        }
        if let Some(metadata) = write.metadata {
            update.set(METADATA, text(&metadata.to_json()));
        }
        write.calls.iter().for_each(|call| update.call(call));
        for name in write.removed {
            update.remove(&format!("{CALL}{name}"));
            update.remove(&format!("{TAKEN}{name}"));
        }
        let mut call = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(primary(key)))
            .condition_expression(condition.expression)
            .return_values_on_condition_check_failure(AllOld);
        update.names.extend(condition.names);
        update.values.extend(condition.values.unwrap_or_default());
        call = update.of(call);
        call.send().await.map(drop).map_err(|error| match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(changed)) => {
                self.not_written(changed.item())
            }
            _ => NotWritten::Fault(self.fault(&error)),
        })
    }

    /// Notes what is known of a run. What the item says of its claim stays, so this needs no condition. This takes one
    /// call.
    pub async fn note(&self, key: &Key, known: &Known) -> Result<(), StoreFault> {
        let mut update = Update::default();
        for (name, value) in item::attributes(&known.claim) {
            if let Some(value) = value {
                update.set_new(name, value);
            }
        }
        if let Some(Note { metadata, parent }) = &known.note {
            update.set(METADATA, text(&metadata.to_json()));
            if let Some(Parent { run, call }) = parent {
                update.set(PARENT, text(run));
                update.set(PARENT_CALL, text(call));
            }
        }
        known.calls.iter().for_each(|call| update.call(call));
        let call = self.client.update_item().table_name(&self.table).set_key(Some(primary(key)));
        update.of(call).send().await.map(drop).map_err(|error| self.fault(&error))
    }

    /// Takes a call of the item with this key for the one that has started the `run`, unless another run has taken it.
    /// Returns whether it is taken by this run. This takes one call.
    pub async fn take(&self, key: &Key, call: &str, run: &str) -> Result<bool, StoreFault> {
        let taking = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(primary(key)))
            .update_expression("SET #taken = :run")
            .condition_expression(
                "attribute_exists(#call) AND (attribute_not_exists(#taken) OR #taken = :run)",
            )
            .expression_attribute_names("#call", format!("{CALL}{call}"))
            .expression_attribute_names("#taken", format!("{TAKEN}{call}"))
            .expression_attribute_values(":run", text(run));
        match taking.send().await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(_)) => Ok(false),
                _ => Err(self.fault(&error)),
            },
        }
    }

    /// Reads the runs with the same target and payload consistently: the first hundred, and in any case the run itself;
    /// or only those that retry the failure of this run, however many others there are.
    pub async fn siblings(&self, key: &Key, only_children: bool) -> Result<Siblings, StoreFault> {
        let mut siblings = Siblings { runs: Vec::new(), are_all: true };
        let mut next = None;
        loop {
            let call = self
                .client
                .query()
                .table_name(&self.table)
                .consistent_read(true)
                .key_condition_expression("#id = :id")
                .expression_attribute_names("#id", ID)
                .expression_attribute_values(":id", text(&key.id))
                .set_exclusive_start_key(next);
            let call = match only_children {
                true => call
                    .filter_expression("#parent = :run")
                    .expression_attribute_names("#parent", PARENT)
                    .expression_attribute_values(":run", text(&key.run)),
                false => call.limit(SIBLINGS_MAX),
            };
            let answer = call.send().await.map_err(|error| self.fault(&error))?;
            let items = answer.items.ok_or_else(|| self.unanswered("Items"))?;
            siblings.runs.extend(items.iter().filter_map(run));
            next = answer.last_evaluated_key.filter(|key| !key.is_empty());
            siblings.are_all = next.is_none();
            if !only_children || siblings.are_all {
                break;
            }
        }
        if !only_children && !siblings.are_all && siblings.own(&key.run).is_none() {
            let own = self.read_part(vec![primary(key)], true).await?;
            siblings.runs.extend(own.iter().filter_map(run));
        }
        Ok(siblings)
    }

    /// The error if the item of a run differs from what was seen.
    fn not_written(&self, there: Option<&Item>) -> NotWritten {
        match there.filter(|item| !item.is_empty()) {
            None => NotWritten::Changed(None),
            Some(there) => match known(there) {
                Some(known) => NotWritten::Changed(Some(Box::new(known))),
                None => NotWritten::Fault(self.no_claim(there)),
            },
        }
    }
}

/// Reads what is known of a run. Returns `None` if the item has no claim.
pub fn known(item: &Item) -> Option<Known> {
    let text = |name: &str| item.get(name)?.as_s().ok().cloned();
    let metadata = text(METADATA).and_then(|metadata| RetryMetadata::read(&metadata));
    let parent = || Some(Parent { run: text(PARENT)?, call: text(PARENT_CALL)? });
    let note = metadata.map(|metadata| Note { metadata, parent: parent() });
    let call = |(name, value): (&String, &AttributeValue)| {
        let name = name.strip_prefix(CALL)?;
        Call::read(name, value.as_s().ok()?, text(&format!("{TAKEN}{name}")))
    };
    Some(Known { claim: claim(item)?, note, calls: item.iter().filter_map(call).collect() })
}

fn run(item: &Item) -> Option<(String, Known)> {
    Some((key_of(item)?.run, known(item)?))
}
