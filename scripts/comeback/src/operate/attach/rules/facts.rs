//! The facts about a function, the handler and its queues, the function's state before it was attached, and the
//! handler's settings with and without it.

use std::{collections::BTreeMap, fmt};

use comeback_core::{
    arn::FunctionArn,
    settings::{Settings, Targets},
    target::Target,
};

use super::Refusal;
use crate::operate::{
    doctor::rules::{InvokeConfig, Layer, QueueAttributes},
    rules::{Answer, Function, last, queue_targets},
};

pub type Tags = BTreeMap<String, String>;

#[derive(Clone, Debug)]
pub struct Facts {
    pub handler: Function,
    pub handler_tags: Tags,
    pub queues: Vec<RetryQueue>,
    /// The retry queues of other handlers: the name of the handler by the ARN of the queue.
    pub others: Tags,
    pub function: Function,
    pub tags: Tags,
    pub config: Option<InvokeConfig>,
    pub may_loop: Answer<bool>,
    pub send_policy: Answer<Option<String>>,
    /// The inline policy that lets the handler's role invoke the function.
    pub invoke_policy: Answer<Option<String>>,
    pub layer: Option<Layer>,
    /// The only signers whose layers the function takes; `None` if it takes all.
    pub signers: Option<Vec<String>>,
}

/// A warning if the tags say that a tool or a stack deploys the function or the queue.
pub(super) fn managed(tags: &Tags, name: &str, undone: &str) -> Option<String> {
    let stack = tags.get("aws:cloudformation:stack-name");
    let is_terraform = |text: &String| text.to_lowercase().contains("terraform");
    let terraform = tags.iter().any(|(key, value)| is_terraform(key) || is_terraform(value));
    let terraform = terraform.then(|| "Terraform".to_owned());
    let manager = stack.map(|stack| format!("the stack {stack}")).or(terraform)?;
    Some(format!("{manager} manages {name}: its next deployment may undo {undone}"))
}

#[derive(Clone, Debug)]
pub struct RetryQueue {
    pub arn: String,
    pub url: String,
    pub attributes: QueueAttributes,
}

impl RetryQueue {
    pub fn name(&self) -> &str {
        last(&self.arn)
    }
}

/// The configuration of a function or a queue before it was attached, and the changes that attaching made. Of a queue,
/// it is the redrive policy: `on_failure` and `retries`, the number of receives. It is stored in tags of it, whose
/// values may only contain letters, digits, spaces and `_.:/=+-@`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Previous {
    pub queue: String,
    pub had_config: bool,
    pub retries: Option<u32>,
    pub on_failure: Option<String>,
    /// Whether its `RecursiveLoop` was `Allow`, if that is known.
    pub may_loop: Option<bool>,
    pub settings: bool,
    pub policy: bool,
    pub layer: Option<String>,
    /// Whether `AWS_LAMBDA_EXEC_WRAPPER` was added.
    pub wrapper: bool,
}

/// The tag with everything except ARNs.
const TAG: &str = "comeback:before";
const TAG_OF_DESTINATION: &str = "comeback:before-destination";
const TAG_OF_LAYER: &str = "comeback:before-layer";
pub(super) const VALUE_MAX: usize = 256;

impl Previous {
    pub fn tags(&self, qualifier: Option<&str>) -> Tags {
        let mut tags = BTreeMap::from([(key(TAG, qualifier), self.to_string())]);
        let arns = [(TAG_OF_DESTINATION, &self.on_failure), (TAG_OF_LAYER, &self.layer)];
        let arns =
            arns.into_iter().filter_map(|(tag, arn)| Some((key(tag, qualifier), arn.clone()?)));
        tags.extend(arns);
        tags
    }

    /// Reads the state from a function's tags; `None` if it was not attached.
    pub fn read(tags: &Tags, qualifier: Option<&str>) -> Option<Self> {
        let text = tags.get(&key(TAG, qualifier))?;
        let words: BTreeMap<_, _> = text.split(' ').filter_map(|it| it.split_once('=')).collect();
        let is = |name: &str| words.get(name) == Some(&"yes");
        Some(Self {
            queue: words.get("queue").copied().unwrap_or_default().to_owned(),
            had_config: is("config"),
            retries: words.get("retries").and_then(|text| text.parse().ok()),
            on_failure: tags.get(&key(TAG_OF_DESTINATION, qualifier)).cloned(),
            may_loop: words.get("loop").map(|text| *text == "yes"),
            settings: is("settings"),
            policy: is("policy"),
            layer: tags.get(&key(TAG_OF_LAYER, qualifier)).cloned(),
            wrapper: is("wrapper"),
        })
    }

    /// The names of the queues that the function, its aliases and versions were attached to.
    pub fn queues(tags: &Tags) -> impl Iterator<Item = String> {
        let qualifier = |key: &String| key.strip_prefix(TAG)?.strip_prefix(':').map(str::to_owned);
        let qualifiers = tags.keys().filter_map(qualifier).map(Some).chain([None]);
        let queue = |it: Option<String>| Some(Self::read(tags, it.as_deref())?.queue);
        qualifiers.filter_map(queue).map(|queue| last(&queue).to_owned())
    }

    pub fn keys(qualifier: Option<&str>) -> [String; 3] {
        [TAG, TAG_OF_DESTINATION, TAG_OF_LAYER].map(|tag| key(tag, qualifier))
    }

    /// Whether another alias or version of the function is attached, too.
    pub fn is_elsewhere(tags: &Tags, qualifier: Option<&str>) -> bool {
        let own = key(TAG, qualifier);
        let is_of_another = |it: &String| {
            it.strip_prefix(TAG).is_some_and(|it| it.is_empty() || it.starts_with(':'))
        };
        tags.keys().any(|it| is_of_another(it) && *it != own)
    }
}

impl fmt::Display for Previous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |is: bool| if is { "yes" } else { "no" };
        write!(f, "queue={} config={}", self.queue, yes(self.had_config))?;
        if let Some(retries) = self.retries {
            write!(f, " retries={retries}")?;
        }
        if let Some(may_loop) = self.may_loop {
            write!(f, " loop={}", yes(may_loop))?;
        }
        for (name, is) in
            [("settings", self.settings), ("policy", self.policy), ("wrapper", self.wrapper)]
        {
            if is {
                write!(f, " {name}=yes")?;
            }
        }
        Ok(())
    }
}

fn key(tag: &str, qualifier: Option<&str>) -> String {
    qualifier.map_or_else(|| tag.to_owned(), |qualifier| format!("{tag}:{qualifier}"))
}

/// Lambda's limit in bytes for all variables of a function, including their names.
const VARIABLES_MAX: usize = 4_096;

const TARGET_FUNCTIONS: &str = "TARGET_FUNCTIONS";
const QUEUE_TARGETS: &str = "QUEUE_TARGETS";

/// The variables of a handler after a change, and the values that change: before and after.
pub(super) type VariablesChange = (Tags, String, String);

/// The handler's variables, changed so that they allow a target; `None` if they already do. A queue is bound to its
/// retry queue. With the first binding, the `mapped` retry queues need one, too.
pub(super) fn settings_with(
    handler: &Function,
    target: &Target,
    queue: &str,
    mapped: &[&str],
) -> Result<Option<VariablesChange>, Refusal> {
    let name = || handler.name().to_owned();
    let settings = handler
        .settings()
        .map_err(|fault| Refusal::BadSettings { handler: name(), fault: fault.to_string() })?;
    let home = FunctionArn::parse(&handler.arn).map(|arn| arn.home());
    let Some(home) = home else {
        return Err(Refusal::NotAllowed { handler: name() });
    };
    if settings.rules.allow(target, Some(queue), &home) {
        return Ok(None);
    }
    let mut environment = handler.environment.clone();
    if let Targets::Listed(_) = &settings.rules.targets
        && !target.is_queue()
        && !settings.rules.targets.allow(target, &home)
        && let Some(list) = environment.get_mut(TARGET_FUNCTIONS)
    {
        *list = format!("{},{}", list.trim().trim_end_matches(','), target.name());
    }
    let mut queues = queue_targets(&environment);
    if settings.rules.queue_targets.is_some() || target.is_queue() {
        if settings.rules.queue_targets.is_none() {
            let all = environment.get(TARGET_FUNCTIONS).map_or("*", String::as_str);
            let all: Vec<_> = all.split(',').map(|it| it.trim().to_owned()).collect();
            queues.extend(mapped.iter().map(|queue| ((*queue).to_owned(), all.clone())));
        }
        let targets = queues.entry(queue.to_owned()).or_default();
        let is_listed = |it: &String| it == target.name() || it == "*" && !target.is_queue();
        if !targets.iter().any(is_listed) {
            targets.push(target.name().to_owned());
        }
        environment.insert(QUEUE_TARGETS.to_owned(), json(&queues));
    }
    let settings = Settings::from_lookup(|name| environment.get(name).cloned());
    if !settings.is_ok_and(|it| it.rules.allow(target, Some(queue), &home)) {
        return Err(Refusal::NotAllowed { handler: name() });
    }
    let bytes = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > VARIABLES_MAX {
        return Err(Refusal::TooManyVariables { handler: name(), bytes });
    }
    Ok(Some(changed(handler, environment)))
}

/// The handler's variables without a target; `None` if they don't name it.
pub(super) fn settings_without(
    handler: &Function,
    target: &str,
    queue: &str,
) -> Option<VariablesChange> {
    let mut environment = handler.environment.clone();
    if let Some(list) = environment.get_mut(TARGET_FUNCTIONS) {
        let others = list.split(',').map(str::trim).filter(|name| *name != target);
        *list = others.collect::<Vec<_>>().join(",");
    }
    let mut queues = queue_targets(&environment);
    if let Some(targets) = queues.get_mut(queue) {
        targets.retain(|name| name != target);
        if targets.is_empty() {
            queues.remove(queue);
        }
        // The handler refuses a setting that binds nothing.
        if queues.is_empty() {
            environment.remove(QUEUE_TARGETS);
        } else {
            environment.insert(QUEUE_TARGETS.to_owned(), json(&queues));
        }
    }
    let (environment, is, becomes) = changed(handler, environment);
    (!is.is_empty()).then_some((environment, is, becomes))
}

fn json(queues: &BTreeMap<String, Vec<String>>) -> String {
    serde_json::to_string(queues).unwrap_or_default()
}

fn changed(handler: &Function, environment: Tags) -> VariablesChange {
    let says = |of: &Tags| {
        let names = [TARGET_FUNCTIONS, QUEUE_TARGETS].into_iter();
        let names = names.filter(|name| handler.environment.get(*name) != environment.get(*name));
        let values =
            names.map(|name| format!("{name}={}", of.get(name).map_or("", String::as_str)));
        values.collect::<Vec<_>>().join(" ")
    };
    let (is, becomes) = (says(&handler.environment), says(&environment));
    (environment, is, becomes)
}
