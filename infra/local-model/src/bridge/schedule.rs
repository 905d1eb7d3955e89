//! Schedules of EventBridge Scheduler: once at a time, or again and again after a time.
//!
//! They are of the default group and in UTC, and have no flexible window. A schedule that is due when the local cloud
//! is busy runs late, and none is left out.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use chrono::NaiveDateTime;
use comeback_core::{Timestamp, time::later};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    error::BridgeError,
    target::{DeadLetterConfig, Destination, json_text},
};
use crate::{ACCOUNT, REGION, is_name};

const NAME_MAX: usize = 64;

pub const GROUP: &str = "default";

#[derive(Clone, Debug)]
pub struct Schedule {
    pub name: Arc<str>,
    pub arn: Arc<str>,
    /// The expression as it was given.
    pub expression: String,
    pub target: ScheduleTarget,
    pub description: Option<String>,
    pub is_enabled: bool,
    pub created: Timestamp,
    pub last_modified: Timestamp,
    times: Times,
    next: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
enum Times {
    At(Timestamp),
    Every(Duration),
}

/// A target in Scheduler's own form. A retry policy and a role are kept without effect.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ScheduleTarget {
    pub arn: String,
    pub role_arn: String,
    pub input: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_config: Option<DeadLetterConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_policy: Option<Value>,
}

/// A request to create a schedule, or to replace one as a whole.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct PutSchedule {
    schedule_expression: String,
    schedule_expression_timezone: Option<String>,
    flexible_time_window: Window,
    target: ScheduleTarget,
    description: Option<String>,
    state: Option<String>,
    group_name: Option<String>,
    /// Only repeats of a request need it, and none of them gets lost here.
    #[serde(rename = "ClientToken")]
    _client_token: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Window {
    mode: String,
}

#[derive(Debug, Default)]
pub struct Schedules(BTreeMap<Arc<str>, Schedule>);

impl Schedules {
    pub fn create(
        &mut self,
        now: Timestamp,
        name: &str,
        put: PutSchedule,
    ) -> Result<&Schedule, BridgeError> {
        if !is_name(&name.replace('.', "_"), NAME_MAX) {
            return Err(BridgeError::Validation(format!(
                "a schedule's name must be 1 to {NAME_MAX} letters, digits, dots, hyphens and underscores, got {name:?}"
            )));
        }
        if self.0.contains_key(name) {
            return Err(BridgeError::Conflict(format!("Schedule {name} already exists.")));
        }
        let schedule = Schedule::new(now, now, name, put)?;
        Ok(self.0.entry(name.into()).or_insert(schedule))
    }

    /// Replaces a schedule as a whole.
    pub fn update(
        &mut self,
        now: Timestamp,
        name: &str,
        put: PutSchedule,
    ) -> Result<&Schedule, BridgeError> {
        let old = self.0.get_mut(name).ok_or_else(|| no_schedule(name))?;
        *old = Schedule::new(old.created, now, name, put)?;
        Ok(old)
    }

    pub fn get(&self, name: &str) -> Result<&Schedule, BridgeError> {
        self.0.get(name).ok_or_else(|| no_schedule(name))
    }

    pub fn delete(&mut self, name: &str) -> Result<(), BridgeError> {
        self.0.remove(name).map(drop).ok_or_else(|| no_schedule(name))
    }

    pub fn all(&self) -> impl Iterator<Item = &Schedule> {
        self.0.values()
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|schedule| schedule.next).min()
    }

    /// A schedule that is due, and since when. It is due again after its period, if it has one.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, Schedule)> {
        let due = |schedule: &Schedule| schedule.next.filter(|next| *next <= now);
        let schedule =
            self.0.values_mut().filter(|it| due(it).is_some()).min_by_key(|it| it.next)?;
        let at = schedule.next?;
        schedule.next = match schedule.times {
            Times::At(_) => None,
            Times::Every(period) => Some(later(at, period)),
        };
        Some((at, schedule.clone()))
    }
}

impl Schedule {
    fn new(
        created: Timestamp,
        now: Timestamp,
        name: &str,
        put: PutSchedule,
    ) -> Result<Self, BridgeError> {
        let PutSchedule { target, schedule_expression: expression, .. } = put;
        Destination::parse(&target.arn)?;
        json_text("Input", &target.input)?;
        let zone = put.schedule_expression_timezone.as_deref().unwrap_or("UTC");
        let group = put.group_name.as_deref().unwrap_or(GROUP);
        let window = &*put.flexible_time_window.mode;
        for (what, expected, got) in [
            ("ScheduleExpressionTimezone", "UTC", zone),
            ("GroupName", GROUP, group),
            ("FlexibleTimeWindow.Mode", "OFF", window),
        ] {
            if got != expected {
                let why = format!("{what} must be {expected} here, got {got:?}");
                return Err(BridgeError::Validation(why));
            }
        }
        let times = Times::parse(&expression)?;
        let is_enabled = put.state.as_deref() != Some("DISABLED");
        let next = match times {
            Times::At(at) => at,
            Times::Every(period) => later(now, period),
        };
        Ok(Self {
            name: name.into(),
            arn: format!("arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/{GROUP}/{name}").into(),
            expression,
            target,
            description: put.description,
            is_enabled,
            created,
            last_modified: now,
            times,
            next: is_enabled.then_some(next),
        })
    }
}

impl Times {
    fn parse(expression: &str) -> Result<Self, BridgeError> {
        let inside =
            |name: &str| expression.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        let at = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok();
        let at = inside("at").and_then(at).map(|at| Self::At(at.and_utc()));
        at.or_else(|| Self::every(inside("rate")?)).ok_or_else(|| {
            BridgeError::Validation(format!(
                "ScheduleExpression must be at(YYYY-MM-DDThh:mm:ss) or rate(N minutes|hours|days) here, got \
                 {expression:?}"
            ))
        })
    }

    fn every(text: &str) -> Option<Self> {
        let (count, unit) = text.split_once(' ')?;
        let secs = match unit {
            "minute" | "minutes" => 60,
            "hour" | "hours" => 60 * 60,
            "day" | "days" => 24 * 60 * 60,
            _ => return None,
        };
        let count = count.parse::<u64>().ok().filter(|count| *count > 0)?;
        Some(Self::Every(Duration::from_secs(count.checked_mul(secs)?)))
    }
}

fn no_schedule(name: &str) -> BridgeError {
    BridgeError::ResourceNotFound(format!("Schedule {name} does not exist."))
}
