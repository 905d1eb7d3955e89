//! A function: its configuration, its code, and the settings that Lambda keeps outside the configuration.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use comeback_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    error::{Faults, LambdaError},
    invoke_config::EventInvokeConfig,
    layer::{Folder, Layered},
    name,
    recursion::{self, RecursiveLoop},
};
use crate::queue_name;

/// A function's timeout in seconds: AWS's bounds and default.
const TIMEOUT_SECS: std::ops::RangeInclusive<i64> = 1..=900;
const TIMEOUT_SECS_DEFAULT: u32 = 3;

/// A function's memory in MB: AWS's bounds and default. The function sees the value in its environment, but it is
/// not enforced here.
const MEMORY_MB: std::ops::RangeInclusive<i64> = 128..=10_240;
const MEMORY_MB_DEFAULT: u32 = 128;

/// AWS's bounds of a durable execution's time-out in seconds, and of the days for which it is remembered.
const EXECUTION_SECS: std::ops::RangeInclusive<i64> = 1..=31_622_400;
const RETENTION_DAYS: std::ops::RangeInclusive<i64> = 1..=90;

/// The largest size of a function's environment variables in bytes, names and values together: AWS's limit.
const ENVIRONMENT_BYTES_MAX: usize = 4 * 1024;

/// The reserved variables: Lambda sets them itself and refuses them in a function's configuration.
const RESERVED_VARIABLES: [&str; 18] = [
    "AWS_ACCESS_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_DEFAULT_REGION",
    "AWS_EXECUTION_ENV",
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_NAME",
    "AWS_LAMBDA_FUNCTION_VERSION",
    "AWS_LAMBDA_INITIALIZATION_TYPE",
    "AWS_LAMBDA_LOG_GROUP_NAME",
    "AWS_LAMBDA_LOG_STREAM_NAME",
    "AWS_LAMBDA_RUNTIME_API",
    "AWS_REGION",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "LAMBDA_RUNTIME_DIR",
    "LAMBDA_TASK_ROOT",
    "_HANDLER",
    "_X_AMZN_TRACE_ID",
];

#[derive(Clone, Debug)]
pub struct Code {
    pub program: Program,
    pub size: u64,
    /// The SHA-256 of the deployment package in base64, or an empty string if there is no package.
    pub sha256: String,
}

/// How a function's process is started.
#[derive(Clone, Debug)]
pub enum Program {
    Bootstrap(Folder),
    /// A folder with a handler, which a runtime client calls.
    Handler(Folder, Client),
    Command {
        command: Vec<String>,
        working_directory: Option<PathBuf>,
    },
}

impl Program {
    pub fn folder(&self) -> Option<&Folder> {
        match self {
            Self::Bootstrap(folder) | Self::Handler(folder, _) => Some(folder),
            Self::Command { .. } => None,
        }
    }
}

/// A runtime interface client on this machine, used in place of one of Lambda's managed runtimes.
#[derive(Clone, Debug)]
pub struct Client {
    /// The command that starts the client. The handler's name is appended as the last argument.
    pub command: Vec<OsString>,
    /// The environment variable with the language's search path for packages.
    pub search_path: &'static str,
    /// The folder below `/opt` in which a layer keeps packages.
    pub layer: &'static str,
    /// The folder in which the client's own packages may be installed.
    pub packages: PathBuf,
}

/// The settings of a create or update request. `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Settings {
    pub role: Option<String>,
    pub handler: Option<String>,
    pub runtime: Option<String>,
    pub description: Option<String>,
    pub package_type: Option<String>,
    pub timeout: Option<i64>,
    pub memory_size: Option<i64>,
    pub environment: Option<Environment>,
    #[serde(skip)]
    pub layers: Option<Layered>,
    pub dead_letter_config: Option<DeadLetterConfig>,
    pub tenancy_config: Option<TenancyConfig>,
    pub durable_config: Option<DurableConfig>,
}

/// Lambda runs the events of each tenant apart, `PER_TENANT`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TenancyConfig {
    pub tenant_isolation_mode: String,
}

/// Lambda starts an execution of one name once. Here, executions have no checkpoints, no time-out, and are never
/// forgotten.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DurableConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_timeout: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_period_in_days: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Environment {
    pub variables: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DeadLetterConfig {
    /// The queue's ARN. An empty string removes the dead-letter queue. As on AWS, `None` changes nothing.
    pub target_arn: Option<String>,
}

/// A function's configuration and code. A run keeps the configuration that it started with, even if the function
/// is updated meanwhile.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub name: Arc<str>,
    pub arn: Arc<str>,
    /// The function's hash in the `Lineage` of trace headers.
    pub hash: String,
    pub role: String,
    pub handler: Option<String>,
    pub runtime: Option<String>,
    pub description: String,
    pub package_type: String,
    pub timeout_secs: u32,
    pub memory_mb: u32,
    pub environment: BTreeMap<String, String>,
    pub layers: Layered,
    pub dead_letter_target: Option<Arc<str>>,
    pub tenancy: Option<TenancyConfig>,
    pub durable: Option<DurableConfig>,
    pub code: Code,
    pub last_modified: Timestamp,
    pub revision_id: String,
}

impl Configuration {
    pub fn new(
        now: Timestamp,
        name: &str,
        code: Code,
        settings: Settings,
        revision_id: String,
    ) -> Result<Self, LambdaError> {
        let arn = name::arn(name);
        let mut configuration = Self {
            name: name.into(),
            hash: recursion::hash(&arn),
            arn: arn.into(),
            role: String::new(),
            handler: None,
            runtime: None,
            description: String::new(),
            package_type: "Zip".to_owned(),
            timeout_secs: TIMEOUT_SECS_DEFAULT,
            memory_mb: MEMORY_MB_DEFAULT,
            environment: BTreeMap::new(),
            layers: Layered::default(),
            dead_letter_target: None,
            tenancy: settings.tenancy_config.clone(),
            durable: settings.durable_config,
            code,
            last_modified: now,
            revision_id: String::new(),
        };
        configuration.set(now, settings, revision_id)?;
        Ok(configuration)
    }

    /// Applies `settings`. If any of them is invalid, nothing changes.
    pub fn set(
        &mut self,
        now: Timestamp,
        settings: Settings,
        revision_id: String,
    ) -> Result<(), LambdaError> {
        check(&settings)?;
        let number = |given: Option<i64>, old: u32| match given {
            Some(given) => u32::try_from(given).unwrap_or(old),
            None => old,
        };
        self.timeout_secs = number(settings.timeout, self.timeout_secs);
        self.memory_mb = number(settings.memory_size, self.memory_mb);
        self.role = settings.role.unwrap_or_else(|| std::mem::take(&mut self.role));
        self.handler = settings.handler.or_else(|| self.handler.take());
        self.runtime = settings.runtime.or_else(|| self.runtime.take());
        if let Some(description) = settings.description {
            self.description = description;
        }
        if let Some(package_type) = settings.package_type {
            self.package_type = package_type;
        }
        if let Some(environment) = settings.environment {
            self.environment = environment.variables;
        }
        if let Some(layers) = settings.layers {
            self.layers = layers;
        }
        if let Some(target) = settings.dead_letter_config.and_then(|config| config.target_arn) {
            self.dead_letter_target = (!target.is_empty()).then(|| target.into());
        }
        self.last_modified = now;
        self.revision_id = revision_id;
        Ok(())
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_secs.into())
    }
}

fn check(settings: &Settings) -> Result<(), LambdaError> {
    let mut faults = Faults::default();
    faults.range("timeout", settings.timeout, TIMEOUT_SECS);
    faults.range("memorySize", settings.memory_size, MEMORY_MB);
    if let Some(DurableConfig { execution_timeout, retention_period_in_days }) =
        settings.durable_config
    {
        faults.range("durableConfig.executionTimeout", execution_timeout, EXECUTION_SECS);
        let retention = "durableConfig.retentionPeriodInDays";
        faults.range(retention, retention_period_in_days, RETENTION_DAYS);
    }
    faults.check()?;
    if let Some(DeadLetterConfig { target_arn: Some(target) }) = &settings.dead_letter_config
        && !target.is_empty()
        && queue_name(target).is_none()
    {
        return Err(LambdaError::invalid(format_args!(
            "a dead-letter queue must be an SQS queue of this account and region here, got {target}"
        )));
    }
    settings.environment.as_ref().map_or(Ok(()), |given| check_environment(&given.variables))
}

fn check_environment(environment: &BTreeMap<String, String>) -> Result<(), LambdaError> {
    let reserved: Vec<&str> = environment
        .keys()
        .map(String::as_str)
        .filter(|name| RESERVED_VARIABLES.contains(name))
        .collect();
    if !reserved.is_empty() {
        return Err(LambdaError::invalid(format_args!(
            "Lambda was unable to configure your environment variables because the environment \
             variables you have provided contains reserved keys that are currently not supported \
             for modification. Reserved keys used in this request: {}",
            reserved.join(", ")
        )));
    }
    // A process's environment can't hold other names, nor values with a NUL byte.
    if let Some(name) = environment.iter().find_map(|(name, value)| {
        let good = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !value.contains('\0');
        (!good).then_some(name)
    }) {
        return Err(LambdaError::invalid(format_args!(
            "environment variable {name:?} must have a name of letters, digits and underscores \
             that begins with a letter or an underscore, and a value without NUL"
        )));
    }
    let bytes: usize = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ENVIRONMENT_BYTES_MAX {
        return Err(LambdaError::invalid(format_args!(
            "Lambda was unable to configure your environment variables because the environment \
             variables you have provided exceeded the 4KB limit: {bytes} bytes"
        )));
    }
    Ok(())
}

#[derive(Debug)]
pub struct Function {
    /// Distinguishes this function from a deleted one with the same name.
    pub(crate) incarnation: u64,
    pub configuration: Arc<Configuration>,
    pub reserved_concurrency: Option<u32>,
    pub recursive_loop: RecursiveLoop,
    pub tags: BTreeMap<String, String>,
    pub event_invoke_config: Option<EventInvokeConfig>,
    pub running: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_environment_variables_are_refused() {
        for (name, value, is_valid) in [
            ("A", &*"x".repeat(4095), true),
            ("A", &"x".repeat(4096), false),
            ("AWS_REGION", "x", false),
            ("_HANDLER", "x", false),
            ("", "x", false),
            ("A=B", "x", false),
            ("1A", "x", false),
            ("A", "x\0y", false),
        ] {
            let variables = [(name.to_owned(), value.to_owned())].into();
            assert_eq!(check_environment(&variables).is_ok(), is_valid, "{name}");
        }
    }
}
