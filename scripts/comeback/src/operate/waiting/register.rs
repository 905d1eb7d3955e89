//! Implements the port `Register`: the register's items in DynamoDB, and the messages of its events in SQS.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use aws_sdk_dynamodb::{
    error::{ProvideErrorMetadata, SdkError},
    types::{AttributeValue, ReturnValue},
};
use comeback_core::{
    Timestamp,
    circuit::Circuit,
    claim::Order,
    lineage::Key,
    register::{Entry, target_key, target_of},
};
use comeback_dynamodb::{
    Item, key_of, primary,
    register::{self, DUE_AT, INDEX, PAUSED_AT, PAUSES, TARGET, entry},
};
use futures_util::future::try_join_all;

use crate::{
    account::{
        fault::{Answer, Clock, Fault},
        function::Function,
        handlers::only,
    },
    aws::{Aws, attached::qualified, changes, fault, reads::functions},
    failure::Failure,
    operate::{
        logbook::Ledger,
        options::{SystemOptions, refuse_unknown},
        order::Account,
        waiting::rules::{
            Page, Partition, Register,
            pauses::{Known, NotKnown, Pause, to_pause, to_resume, unqualified},
        },
    },
};

/// The number of segments of a scan of all events, which are read concurrently.
const SEGMENTS: u16 = 4;

const PAGE: i32 = 500;

/// The code of the fault if the event of an order no longer waits.
const NOT_WAITING: &str = "ConditionalCheckFailedException";

/// The owner of the claim in an item with an order.
const OPERATOR: &str = "operator";

impl From<NotKnown> for Failure {
    fn from(not_known: NotKnown) -> Self {
        Self::Refused(not_known.to_string())
    }
}

pub struct DynamoRegister {
    aws: Aws,
    dynamodb: aws_sdk_dynamodb::Client,
    table: String,
    handler: Function,
}

impl DynamoRegister {
    pub fn of(handler: Function, aws: Aws) -> Result<Self, Failure> {
        let Some(table) = handler.register().map(str::to_owned) else {
            let missing = "has no register of waiting events: set REGISTER=true and LEDGER_TABLE";
            return Err(format!("{} {missing}", handler.name()).into());
        };
        let dynamodb = aws.dynamodb_of(&handler);
        Ok(Self { aws, dynamodb, table, handler })
    }

    /// The ledger that it is kept in.
    pub fn ledger(&self) -> Ledger {
        Ledger { aws: self.aws.clone(), handler: self.handler.clone() }
    }

    /// Refuses names of functions and queues that nothing has, once nothing was found by them.
    pub async fn refuse_unknown(&self, wanted: &[String]) -> Result<(), Failure> {
        refuse_unknown(&self.aws, wanted).await
    }

    pub fn handler(&self) -> &str {
        self.handler.name()
    }

    /// The handler and its region, for headings.
    pub fn place(&self) -> String {
        format!("{} ({})", self.handler(), self.aws.region)
    }

    /// The parts of the register with the events of these functions: one for each ARN, or [`SEGMENTS`] of the whole
    /// register if a name has a `*` or there are no names.
    pub async fn parts(&self, functions: &[String]) -> Answer<Vec<Partition>> {
        if functions.is_empty() || functions.iter().any(|function| function.contains('*')) {
            return Ok((0..SEGMENTS).map(|nth| Partition::Segment(nth, SEGMENTS)).collect());
        }
        let mut targets = BTreeSet::new();
        for function in functions {
            targets.extend(self.targets(function).await?);
        }
        Ok(targets.into_iter().map(Partition::Target).collect())
    }

    /// The ARNs of this function that waiting events may have.
    pub async fn targets(&self, function: &str) -> Answer<Vec<String>> {
        let arn = self.handler.arn_of(function);
        let mut targets = qualified(&self.aws, &arn).await?;
        // If the retry queue is the function's own dead-letter queue, its events have the ARN in DLQ_TARGET.
        targets.extend(
            self.handler
                .dlq_target()
                .filter(|it| it.unqualified() == arn)
                .map(|it| it.as_str().to_owned()),
        );
        targets.sort_unstable();
        targets.dedup();
        Ok(targets)
    }

    /// When this function was paused, or None if it is not paused.
    pub async fn paused_at(&self, target: &str) -> Answer<Option<Timestamp>> {
        let call = self.dynamodb.get_item().table_name(&self.table).consistent_read(true);
        let answer = call.set_key(Some(primary(&target_key(target)))).send().await;
        let item = answer.map_err(self.fault("dynamodb:GetItem"))?.item.unwrap_or_default();
        let millis = item.get(PAUSED_AT).and_then(|value| value.as_n().ok()?.parse().ok());
        Ok(millis.and_then(Timestamp::from_timestamp_millis))
    }

    /// The circuits of these functions that have one.
    pub async fn circuits(&self, targets: BTreeSet<&str>) -> Answer<BTreeMap<String, Circuit>> {
        let read = targets.into_iter().map(async |target| {
            let call = self.dynamodb.get_item().table_name(&self.table);
            let answer = call.set_key(Some(primary(&target_key(target)))).send().await;
            let item = answer.map_err(self.fault("dynamodb:GetItem"))?.item.unwrap_or_default();
            let circuit = item.get("circuit").and_then(|text| Circuit::read(text.as_s().ok()?));
            Ok(circuit.map(|circuit| (target.to_owned(), circuit)))
        });
        Ok(try_join_all(read).await?.into_iter().flatten().collect())
    }

    /// All pauses, also of targets that don't exist.
    pub async fn pauses(&self) -> Answer<Vec<Pause>> {
        let call = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .index_name(INDEX)
            .key_condition_expression("#target = :paused")
            .expression_attribute_names("#target", TARGET)
            .expression_attribute_values(":paused", text(PAUSES));
        let items = call.into_paginator().items().send();
        let items = items.collect::<Result<Vec<_>, _>>().await;
        let items = items.map_err(self.fault("dynamodb:Query"))?;
        let pause = |item: &Item| {
            let since = register::due(item)?;
            Some(Pause { target: target_of(&key_of(item)?.id)?.to_owned(), since })
        };
        Ok(items.iter().filter_map(pause).collect())
    }

    /// The ARNs to pause for this name or ARN of a function or a queue. An unknown name is refused.
    pub async fn to_pause(&self, name: &str) -> Result<Vec<String>, Failure> {
        let settings = self.handler.settings();
        let settings =
            settings.map_err(|bad| format!("what {} retries is unknown: {bad}", self.handler()))?;
        let functions = functions(&self.aws).await?;
        let arn = self.handler.arn_of(name);
        Known::of(&self.handler, &functions, settings.rules.targets).check(name, &arn)?;
        let all = self.targets(unqualified(&arn)).await?;
        Ok(to_pause(&arn, all)?)
    }

    /// The ARNs to resume for this name or ARN. An unknown name is refused, unless it is paused.
    pub async fn to_resume(&self, name: &str, pauses: &[Pause]) -> Result<Vec<String>, Failure> {
        let arn = self.handler.arn_of(name);
        let targets = to_resume(&arn, self.targets(unqualified(&arn)).await?, pauses);
        for target in &targets {
            if self.paused_at(target).await?.is_some() {
                return Ok(targets);
            }
        }
        self.to_pause(name).await
    }

    /// Pauses this function, or resumes it if `since` is None. Keeps the other attributes of its item.
    pub async fn pause(&self, target: &str, since: Option<Timestamp>) -> Answer<()> {
        let call = self
            .dynamodb
            .update_item()
            .table_name(&self.table)
            .set_key(Some(primary(&target_key(target))))
            .expression_attribute_names("#paused_at", PAUSED_AT)
            .expression_attribute_names("#target", TARGET)
            .expression_attribute_names("#due_at", DUE_AT);
        let call = match since {
            Some(since) => call
                .update_expression("SET #paused_at = :now, #target = :paused, #due_at = :now")
                .expression_attribute_values(":paused", text(PAUSES))
                .expression_attribute_values(":now", number(since.timestamp_millis())),
            None => call.update_expression("REMOVE #paused_at, #target, #due_at"),
        };
        call.send().await.map(drop).map_err(self.fault("dynamodb:UpdateItem"))
    }

    fn fault<E>(&self, action: &'static str) -> impl FnOnce(SdkError<E>) -> Fault + use<E>
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        fault(action, &self.table)
    }
}

pub async fn open(
    options: &SystemOptions,
    now: fn() -> Timestamp,
) -> Result<DynamoRegister, Failure> {
    open_in(Account::connect(&options.connection, now).await?, options).await
}

/// The register of the account's retry handler, where an order is given.
pub async fn open_in(account: Account, options: &SystemOptions) -> Result<DynamoRegister, Failure> {
    let Account { aws, handler } = account;
    let handler = match handler {
        Some(handler) => handler,
        None => only(&functions(&aws).await?, options.handler.as_deref())?,
    };
    DynamoRegister::of(handler, aws)
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: i64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

impl Clock for DynamoRegister {
    fn now(&self) -> Timestamp {
        self.aws.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.aws.sleep(duration).await;
    }
}

impl Register for DynamoRegister {
    type Cursor = Item;

    async fn page(&self, part: &Partition, from: Option<Item>) -> Answer<Page<Item>> {
        let (items, next) = match part {
            Partition::Target(target) => {
                let call = self
                    .dynamodb
                    .query()
                    .table_name(&self.table)
                    .index_name(INDEX)
                    .key_condition_expression("#target = :target")
                    .expression_attribute_names("#target", TARGET)
                    .expression_attribute_values(":target", text(target))
                    .set_exclusive_start_key(from)
                    .limit(PAGE);
                let answer = call.send().await.map_err(self.fault("dynamodb:Query"))?;
                (answer.items, answer.last_evaluated_key)
            }
            Partition::Segment(nth, of) => {
                let call = self
                    .dynamodb
                    .scan()
                    .table_name(&self.table)
                    .index_name(INDEX)
                    .segment(i32::from(*nth))
                    .total_segments(i32::from(*of))
                    .set_exclusive_start_key(from);
                let answer = call.send().await.map_err(self.fault("dynamodb:Scan"))?;
                (answer.items, answer.last_evaluated_key)
            }
        };
        let events = items
            .unwrap_or_default()
            .iter()
            .filter_map(entry)
            .filter(|event| event.is_listed(self.now()))
            .collect();
        Ok(Page { events, next: next.filter(|key| !key.is_empty()) })
    }

    async fn order(&self, key: &Key, order: Order, keep_until: Timestamp) -> Answer<Option<Entry>> {
        let call = self.dynamodb.update_item().table_name(&self.table);
        let call = register::order(call, key, order, OPERATOR, keep_until);
        let call = call.return_values(ReturnValue::AllNew);
        match call.send().await.map_err(self.fault("dynamodb:UpdateItem")) {
            Ok(ordered) => Ok(ordered.attributes.as_ref().and_then(entry)),
            Err(fault) if fault.code.as_deref() == Some(NOT_WAITING) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn show(&self, queue_url: &str, receipt_handles: &[&str]) -> Vec<Answer<()>> {
        changes::make_visible(&self.aws, queue_url, queue_url, receipt_handles).await
    }
}
