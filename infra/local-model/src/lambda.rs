//! Lambda's state: functions and their settings, layers, the asynchronous queue, current runs, and mappings.
//!
//! This module manages functions. The modules `invocation` and `polling` run them. They are in the parent module,
//! because they also need SQS.

pub mod error;
pub mod function;
pub mod invoke_config;
pub mod layer;
pub mod mapping;
pub mod name;
pub mod poller;
pub mod recursion;
pub mod run;
pub mod stream_mapping;

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use comeback_core::Timestamp;
use error::{LambdaError, ThrottleReason};
use function::{Code, Configuration, Function, Settings};
use invoke_config::{
    AsynchronousQueue, Destination, DestinationKind, EventInvokeConfig, EventInvokeSettings,
    QueuedEvent,
};
use layer::Layers;
use mapping::{Mapping, MappingSettings};
use poller::Held;
use recursion::RecursiveLoop;
use run::RunId;
use stream_mapping::{StreamMapping, StreamSettings};

use super::{Ids, Payload};

pub struct Lambda {
    pub ids: Ids,
    functions: BTreeMap<Arc<str>, Function>,
    pub layers: Layers,
    pub(crate) queue: AsynchronousQueue,
    pub mappings: BTreeMap<Arc<str>, Mapping>,
    pub stream_mappings: BTreeMap<Arc<str>, StreamMapping>,
    /// The executions of durable functions, by function and name.
    pub executions: BTreeMap<(Arc<str>, Arc<str>), Execution>,
    pub runs: BTreeMap<RunId, Running>,
    concurrency: u32,
    /// The last number given to a run or a function.
    sequence: u64,
}

pub struct Execution {
    pub arn: Arc<str>,
    pub payload: Payload,
}

pub struct Running {
    pub configuration: Arc<Configuration>,
    incarnation: u64,
    pub request_id: Arc<str>,
    pub trace_header: Arc<str>,
    pub(crate) origin: Origin,
}

pub(crate) enum Origin {
    Synchronous,
    Asynchronous(QueuedEvent),
    Mapping { uuid: Arc<str>, queue: Arc<str>, report_batch_item_failures: bool, batch: Vec<Held> },
    Stream { uuid: Arc<str>, records: Range<u64> },
}

impl Lambda {
    pub fn new(concurrency: u32, seed: u64) -> Self {
        Self {
            ids: Ids::new(seed),
            functions: BTreeMap::new(),
            layers: Layers::default(),
            queue: AsynchronousQueue::default(),
            mappings: BTreeMap::new(),
            stream_mappings: BTreeMap::new(),
            executions: BTreeMap::new(),
            runs: BTreeMap::new(),
            concurrency,
            sequence: 0,
        }
    }

    pub fn create_function(
        &mut self,
        now: Timestamp,
        name: &str,
        code: Code,
        settings: Settings,
    ) -> Result<Arc<Configuration>, LambdaError> {
        if self.functions.contains_key(name) {
            return Err(LambdaError::ResourceConflict(format!("Function already exist: {name}")));
        }
        let configuration = Configuration::new(now, name, code, settings, self.ids.uuid())?;
        let configuration = Arc::new(configuration);
        self.sequence += 1;
        let function = Function {
            incarnation: self.sequence,
            configuration: Arc::clone(&configuration),
            reserved_concurrency: None,
            recursive_loop: RecursiveLoop::default(),
            tags: BTreeMap::new(),
            event_invoke_config: None,
            running: 0,
        };
        self.functions.insert(Arc::clone(&configuration.name), function);
        Ok(configuration)
    }

    pub fn configuration(&self, name: &str) -> Result<&Arc<Configuration>, LambdaError> {
        self.function(name).map(|function| &function.configuration)
    }

    pub fn functions(&self) -> impl Iterator<Item = &Arc<Configuration>> {
        self.functions.values().map(|function| &function.configuration)
    }

    pub fn update(
        &mut self,
        now: Timestamp,
        name: &str,
        settings: Settings,
        code: Option<Code>,
    ) -> Result<Arc<Configuration>, LambdaError> {
        let revision_id = self.ids.uuid();
        let function = self.function_mut(name)?;
        let configuration = Arc::make_mut(&mut function.configuration);
        configuration.set(now, settings, revision_id)?;
        if let Some(code) = code {
            configuration.code = code;
        }
        Ok(Arc::clone(&function.configuration))
    }

    /// Deletes a function and its executions. Its runs continue; its queued events are lost.
    pub fn delete_function(&mut self, name: &str) -> Result<(), LambdaError> {
        self.executions.retain(|(function, _), _| **function != *name);
        self.functions.remove(name).map(|_| ()).ok_or_else(|| name::not_found(name))
    }

    /// Reserves concurrency for a function, or removes the reservation. AWS keeps 100 of an account's concurrency
    /// unreserved. Here all of it can be reserved, because there is less.
    pub fn set_reserved_concurrency(
        &mut self,
        name: &str,
        reserved: Option<u32>,
    ) -> Result<(), LambdaError> {
        let others = self.functions.iter().filter(|(other, _)| other.as_ref() != name);
        let others: u32 = others.filter_map(|(_, other)| other.reserved_concurrency).sum();
        let available = self.concurrency.saturating_sub(others);
        let function = self.function_mut(name)?;
        if reserved.is_some_and(|reserved| reserved > available) {
            return Err(LambdaError::invalid(format_args!(
                "Specified ReservedConcurrentExecutions for function exceeds the concurrency that \
                 is left in the account, {available}."
            )));
        }
        function.reserved_concurrency = reserved;
        Ok(())
    }

    /// Replaces a function's event invoke config, or changes it if `update` is set.
    pub fn set_event_invoke_config(
        &mut self,
        now: Timestamp,
        name: &str,
        settings: &EventInvokeSettings,
        update: bool,
    ) -> Result<EventInvokeConfig, LambdaError> {
        let EventInvokeSettings {
            maximum_retry_attempts,
            maximum_event_age_in_seconds,
            destination_config,
        } = settings;
        let limits = maximum_retry_attempts.or(*maximum_event_age_in_seconds);
        if limits.is_none() && destination_config.is_none() {
            return Err(LambdaError::invalid(
                "You must specify at least one of error handling or destination setting.",
            ));
        }
        self.configured_function(name)?;
        let old = if update { Some(self.event_invoke_config(name)?) } else { None };
        let config = EventInvokeConfig::new(now, old, settings)?;
        for Destination { arn, kind } in config.on_success.iter().chain(&config.on_failure) {
            let DestinationKind::Function(destination) = kind else { continue };
            if **destination == *name {
                return Err(LambdaError::invalid(
                    "You can't specify the function as a destination for itself.",
                ));
            }
            if !self.functions.contains_key(destination) {
                return Err(LambdaError::invalid(format_args!(
                    "The destination ARN {arn} is invalid."
                )));
            }
        }
        self.function_mut(name)?.event_invoke_config = Some(config.clone());
        Ok(config)
    }

    /// The function, or else AWS's message for event invoke configs.
    pub fn configured_function(&self, name: &str) -> Result<&Function, LambdaError> {
        let missing = || LambdaError::ResourceNotFound("The function doesn't exist.".to_owned());
        self.functions.get(name).ok_or_else(missing)
    }

    /// A function's event invoke config. As on AWS, the error is the same if the function itself is missing.
    pub fn event_invoke_config(&self, name: &str) -> Result<&EventInvokeConfig, LambdaError> {
        let function = self.functions.get(name);
        let config = function.and_then(|function| function.event_invoke_config.as_ref());
        config.ok_or_else(|| no_event_invoke_config(name))
    }

    pub fn delete_event_invoke_config(&mut self, name: &str) -> Result<(), LambdaError> {
        let function = self.functions.get_mut(name);
        let config = function.and_then(|function| function.event_invoke_config.take());
        config.map(|_| ()).ok_or_else(|| no_event_invoke_config(name))
    }

    pub fn mapping(&self, uuid: &str) -> Result<&Mapping, LambdaError> {
        self.mappings.get(uuid).ok_or_else(no_mapping)
    }

    pub fn update_mapping(
        &mut self,
        now: Timestamp,
        uuid: &str,
        function: Option<&str>,
        settings: &MappingSettings,
    ) -> Result<&Mapping, LambdaError> {
        let function = match function {
            Some(function) => Some(Arc::clone(&self.configuration(function)?.name)),
            None => None,
        };
        let mapping = self.mappings.get_mut(uuid).ok_or_else(no_mapping)?;
        mapping.set(now, settings)?;
        if let Some(function) = function {
            mapping.function = function;
        }
        Ok(mapping)
    }

    /// Deletes a mapping. The messages that it holds become visible again in its queue.
    pub fn delete_mapping(&mut self, uuid: &str) -> Result<Mapping, LambdaError> {
        self.mappings.remove(uuid).ok_or_else(no_mapping)
    }

    pub fn stream_mapping(&self, uuid: &str) -> Result<&StreamMapping, LambdaError> {
        self.stream_mappings.get(uuid).ok_or_else(no_mapping)
    }

    pub fn update_stream_mapping(
        &mut self,
        now: Timestamp,
        uuid: &str,
        settings: &StreamSettings,
    ) -> Result<&StreamMapping, LambdaError> {
        let mapping = self.stream_mappings.get_mut(uuid).ok_or_else(no_mapping)?;
        mapping.set(now, settings)?;
        Ok(mapping)
    }

    pub fn invocations(&self) -> usize {
        let running = self.runs.values();
        let running = running.filter(|run| matches!(run.origin, Origin::Asynchronous(_)));
        self.queue.len() + running.count()
    }

    pub fn function(&self, name: &str) -> Result<&Function, LambdaError> {
        self.functions.get(name).ok_or_else(|| name::not_found(name))
    }

    pub fn function_mut(&mut self, name: &str) -> Result<&mut Function, LambdaError> {
        self.functions.get_mut(name).ok_or_else(|| name::not_found(name))
    }

    /// Which limit prevents another run of a function, if one does.
    ///
    /// A reservation reduces the account's concurrency even while it isn't used.
    pub(crate) fn throttle(&self, function: &Function) -> Option<ThrottleReason> {
        if let Some(reserved) = function.reserved_concurrency {
            return (function.running >= reserved).then_some(ThrottleReason::Reserved);
        }
        let reserved: u32 = self.functions.values().filter_map(|f| f.reserved_concurrency).sum();
        let unreserved = self.functions.values().filter(|f| f.reserved_concurrency.is_none());
        let running: u32 = unreserved.map(|f| f.running).sum();
        let bound = self.concurrency.saturating_sub(reserved);
        (running >= bound).then_some(ThrottleReason::Account)
    }

    pub(crate) fn begin(
        &mut self,
        configuration: Arc<Configuration>,
        request_id: Arc<str>,
        trace_header: Arc<str>,
        origin: Origin,
    ) -> RunId {
        self.sequence += 1;
        let id = RunId(self.sequence);
        let mut incarnation = 0;
        if let Some(function) = self.functions.get_mut(&configuration.name) {
            function.running += 1;
            incarnation = function.incarnation;
        }
        let running = Running { configuration, incarnation, request_id, trace_header, origin };
        self.runs.insert(id, running);
        id
    }

    pub fn end(&mut self, id: RunId) -> Option<Running> {
        let run = self.runs.remove(&id)?;
        if let Some(function) = self.functions.get_mut(&run.configuration.name)
            && function.incarnation == run.incarnation
        {
            function.running = function.running.saturating_sub(1);
        }
        Some(run)
    }
}

fn no_event_invoke_config(name: &str) -> LambdaError {
    LambdaError::ResourceNotFound(format!(
        "The function {} doesn't have an EventInvokeConfig",
        name::qualified_arn(name)
    ))
}

fn no_mapping() -> LambdaError {
    LambdaError::ResourceNotFound("The resource you requested does not exist.".to_owned())
}
