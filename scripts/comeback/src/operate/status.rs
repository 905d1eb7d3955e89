//! `comeback status`: the state of each function and queue, from SQS, CloudWatch and the ledger.

pub mod rules;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    circuit::Circuit,
    duration,
    emf::NAMESPACE,
    metric, pattern,
    reason::Reason,
    register::target_key,
    target::Target,
    time::{at_millis, between, earlier},
};
use comeback_dynamodb::{
    ID, Item,
    register::{self, INDEX, PAUSED_AT, TARGET},
};
use futures_util::future::{join, join_all, try_join_all};
use serde_json::{Value, json};

use crate::{
    operate::{
        aws::{Aws, MAXIMUM, Query, fault, functions, metric_data, metric_points},
        doctor::rules::{Queue, QueueAttributes},
        options::{Attached, SystemOptions, attached},
        rules::{
            Answer, Fault, Function, counted, is_queue, only, queue_arn, slips::not_empty,
            target_name,
        },
        status::rules::{Consumer, Facts, Flow, InSource, Runs, State, at_lambda},
        text::{count, due, fitting, span},
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Screen, Shell, Signals},
};

/// How many columns a table has even if they don't fit: the function, its state, what waits, and what died.
const COLUMNS_LEAST: usize = 4;

pub async fn run(args: &StatusArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let aws = Aws::connect(&args.system.connection, shell.now).await?;
    let functions = functions(&aws).await?;
    let handler = only(&functions, args.system.handler.as_deref())?;
    let mut attached = attached(&aws, &handler, &functions).await?;
    if !args.functions.is_empty() {
        attached.retain(|it| {
            let name = target_name(&it.arn);
            args.functions.iter().any(|wanted| pattern::matches(wanted, &name))
        });
    }
    if attached.is_empty() {
        let none = "no function sends its failures to the retry queues of";
        return Err(format!("{none} {}", handler.name()).into());
    }
    let mut signals = Signals::listen()?;
    let mut screen = if args.watch && shell.terminal { Some(Screen::take()?) } else { None };
    let interrupted = if args.watch { Outcome::Success } else { Outcome::Interrupted };
    loop {
        let now = (shell.now)();
        let (gathered, letters) = tokio::select! {
            found = join(gather(&aws, &handler, &attached, now), letters_now(&aws, &handler)) => found,
            () = signals.any() => return Ok(interrupted),
        };
        let (facts, unknown) = gathered?;
        let title = title(handler.name(), &facts, letters);
        let lines = report(title, &facts, unknown.as_ref(), now, shell.width());
        if args.json {
            let functions: Vec<_> = facts.iter().map(json_of).collect();
            let unknown = unknown.map(|fault| fault.to_string());
            let document = json!({
                "handler": handler.name(), "letters": letters, "functions": functions,
                "unknown": unknown,
            });
            shell.print_json(&document).await?;
        } else if let Some(screen) = &mut screen {
            screen.draw(&lines, shell.colour).await?;
        } else {
            shell.print(&lines).await?;
        }
        if !args.watch {
            return Ok(Outcome::Success);
        }
        tokio::select! {
            () = tokio::time::sleep(args.every) => {}
            () = signals.any() => return Ok(interrupted),
        }
    }
}

fn json_of(facts: &Facts) -> Value {
    let mut value = serde_json::to_value(facts).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.insert("state".to_owned(), json!(facts.state()));
    }
    value
}

/// The approximate number of letters in the dead-letter queue, if that can be read.
async fn letters_now(aws: &Aws, handler: &Function) -> Option<u64> {
    let arn = queue_arn(handler.dead_letter_queue_url()?, &handler.arn);
    let QueueAttributes { visible, in_flight, delayed, .. } =
        aws.queue(&arn).await.attributes.ok()??;
    Some(visible + in_flight + delayed)
}

fn title(handler: &str, facts: &[Facts], letters: Option<u64>) -> String {
    let queues = facts.iter().filter(|it| is_queue(&it.function)).count() as u64;
    let functions = facts.len() as u64 - queues;
    let kinds = [(functions, "function"), (queues, "queue")].into_iter();
    let kinds = kinds.filter(|(number, _)| *number > 0).map(|(number, noun)| counted(number, noun));
    let letters = letters.map(|it| format!("{} now", counted(it, "dead letter")));
    format!("{handler}: {}", kinds.chain(letters).collect::<Vec<_>>().join(", "))
}

fn report(
    title: String,
    facts: &[Facts],
    unknown: Option<&Fault>,
    now: Timestamp,
    width: Option<usize>,
) -> Vec<Line> {
    let mut facts: Vec<_> = facts.iter().collect();
    facts.sort_by_key(|it| (it.state(), target_name(&it.function)));
    let header = [
        "function",
        "state",
        "waiting",
        "given up, last day",
        "next due",
        "backlog",
        "last hour: runs, failed, retries",
        "in flight / delayed / due",
        "oldest",
    ];
    let row = |facts: &&Facts| {
        [
            target_name(&facts.function).into_owned(),
            state(facts, now),
            count(facts.waiting()),
            letters(facts),
            facts.next_due.map_or(String::new(), |at| due(at, now)),
            backlog(facts),
            [facts.hour.invocations, facts.hour.errors, facts.retried].map(count).join(", "),
            [facts.in_flight, facts.delayed, facts.due].map(count).join(" / "),
            facts.oldest_seconds.map_or(String::new(), span),
        ]
    };
    let mut lines = vec![Line::of(Style::Strong, title)];
    let rows: Vec<_> = facts.iter().map(row).collect();
    lines.extend(fitting(header, &rows, width, COLUMNS_LEAST));
    if facts.iter().any(|it| it.queue_shared_with > 0) {
        let text = "Functions that share a queue show the numbers of the queue.";
        lines.push(Line::of(Style::Faint, text));
    }
    if let Some(fault) = unknown {
        let text = format!("Circuits, pauses and due times are not known: {fault}");
        lines.push(Line::of(Style::Bad, text));
    }
    lines
}

pub fn state(facts: &Facts, now: Timestamp) -> String {
    let lasts = |since: Timestamp| span(between(since, now).as_secs_f64().floor());
    let state = match facts.state() {
        State::Down => "down",
        State::Failing => "failing",
        State::Stopped => "stopped",
        State::SomeFail => "some fail",
        State::Throttled => "throttled",
        State::Paused => "",
        State::Recovering => "recovering",
        State::Waiting => "waiting",
        State::Well => "well",
        State::Idle => "idle",
    };
    let down = facts.down_since.map(|since| format!("{state} for {}", lasts(since)));
    let state = down.or_else(|| Some(state.to_owned()).filter(|state| !state.is_empty()));
    let paused = facts.paused_since.map(|since| format!("paused for {}", lasts(since)));
    [state, paused].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What has not run yet: at Lambda, or in the queue that its consumers receive from.
fn backlog(facts: &Facts) -> String {
    // An event that runs at once is no backlog.
    let at_lambda = facts.at_lambda.filter(|events| *events > 0);
    let at_lambda = at_lambda.map(|events| format!("{} at Lambda", count(events)));
    let oldest = facts.lambda_oldest_seconds.filter(|seconds| *seconds >= 1.0);
    let oldest = oldest.map(|seconds| format!("for {}", span(seconds.floor())));
    let throttles = Some(facts.throttles).filter(|it| *it > 0).map(|it| counted(it, "throttle"));
    let in_source = facts.in_source.filter(|it| it.messages > 0);
    let in_source = in_source.map(|it| counted(it.messages, "message"));
    [in_source, at_lambda, oldest, throttles].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub fn letters(facts: &Facts) -> String {
    let letters = facts.dead_letters.iter();
    letters
        .map(|(reason, number)| format!("{} {reason}", count(*number)))
        .collect::<Vec<_>>()
        .join(", ")
}

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Functions, by their names; * matches any characters [default: all that are attached].
    #[arg(value_name = "FUNCTION", value_parser = not_empty)]
    pub functions: Vec<String>,
    /// Refresh the table until Ctrl-C. In a pipe, print one table after the other.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    /// How often --watch refreshes.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = every, requires = "watch")]
    pub every: Duration,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

fn every(text: &str) -> Result<Duration, &'static str> {
    duration::parse(text)
        .filter(|every| *every >= Duration::from_secs(1))
        .ok_or("expected a duration of at least 1s, such as 5s or 1m")
}

/// The time range of the current state.
const RECENT: Duration = Duration::from_mins(5);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// No event is in Lambda's queue for longer.
const EVENT_AGE_MAX: Duration = Duration::from_hours(6);

const MINUTE: Duration = Duration::from_secs(60);

/// The most items in one call of BatchGetItem.
const ITEMS_MAX: usize = 100;

/// The facts, and why the ledger gave no answer: then the facts are those that need no table.
pub type Gathered = (Vec<Facts>, Option<Fault>);

pub async fn gather(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
    now: Timestamp,
) -> Answer<Gathered> {
    let of_table =
        async { Ok(tokio::try_join!(items(aws, handler, attached), dues(aws, handler, attached))) };
    let (queues, metrics, backlogs, of_table) = tokio::try_join!(
        queues(aws, attached),
        metrics(aws, attached, now),
        backlogs(aws, attached, now),
        of_table
    )?;
    let (of_table, unknown) = match of_table {
        Ok(of_table) => (of_table, None),
        Err(fault) => (Default::default(), Some(fault)),
    };
    let (items, dues) = of_table;
    let facts = attached.iter().enumerate().map(|(nth, it)| {
        let Attached { arn, queue_arn, consumers } = it;
        let queue = queues.get(queue_arn).cloned().unwrap_or_default();
        let in_source =
            queues.get(arn).map(|it| InSource { messages: it.messages(), due: it.visible });
        let consumer = |(function, is_enabled): &(String, bool)| Consumer {
            function: function.clone(),
            is_enabled: *is_enabled,
        };
        let metric = |kind: Metric| metrics.get(&(nth, kind)).copied();
        let sum = |kind| whole(metric(kind).unwrap_or_default());
        let item = items.get(&target_key(arn));
        let circuit = item.and_then(|item| Circuit::read(item.get("circuit")?.as_s().ok()?));
        let paused = item.and_then(|item| item.get(PAUSED_AT)?.as_n().ok()?.parse().ok());
        let dead = Reason::ALL.iter().enumerate().filter_map(|(reason, name)| {
            let letters = sum(Metric::Dead(reason));
            (letters > 0).then(|| (name.as_str().to_owned(), letters))
        });
        Facts {
            function: arn.clone(),
            queue: queue_arn.clone(),
            queue_shared_with: attached.iter().filter(|it| it.queue_arn == *queue_arn).count() - 1,
            in_flight: queue.in_flight,
            delayed: queue.delayed,
            due: queue.visible,
            recent: Runs {
                invocations: sum(Metric::RecentRuns),
                errors: sum(Metric::RecentErrors),
            },
            hour: Runs { invocations: sum(Metric::Runs), errors: sum(Metric::Errors) },
            throttles: sum(Metric::Throttles),
            at_lambda: backlogs.get(&nth).copied(),
            // AWS counts in milliseconds.
            lambda_oldest_seconds: metric(Metric::LambdaAge).map(|age| age / 1000.0),
            consumers: consumers.iter().map(consumer).collect(),
            in_source,
            retried: sum(Metric::Retried),
            oldest_seconds: metric(Metric::Oldest),
            dead_letters: dead.collect(),
            down_since: circuit.as_ref().and_then(Circuit::down_since),
            circuit: circuit.map(|circuit| circuit.name().to_owned()),
            paused_since: paused.map(at_millis),
            next_due: dues.get(arn).copied(),
        }
    });
    Ok((facts.collect(), unknown))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// How many events of each function Lambda has accepted that have not run to an end, by the function's place.
async fn backlogs(aws: &Aws, attached: &[Attached], now: Timestamp) -> Answer<HashMap<usize, u64>> {
    let until = next_minute(now);
    let functions = attached.iter().enumerate();
    let functions = functions.filter_map(|(nth, it)| Some((nth, function_dimensions(&it.arn)?)));
    let mut flows: HashMap<usize, Vec<(i64, Flow, f64)>> = HashMap::new();
    let mut asked = Vec::new();
    for (nth, dimensions) in functions {
        flows.insert(nth, Vec::new());
        asked.extend(Flow::ALL.map(|flow| {
            let (namespace, statistic, period) = ("AWS/Lambda", "Sum", MINUTE);
            let (name, dimensions) = (flow.name(), dimensions.clone());
            ((nth, flow), Query { namespace, name, dimensions, statistic, period })
        }));
    }
    let from = earlier(until, EVENT_AGE_MAX);
    for ((nth, flow), points) in metric_points(aws, asked, from, until).await? {
        let points = points.into_iter().map(|(at, value)| (at, flow, value));
        flows.entry(nth).or_default().extend(points);
    }
    Ok(flows.into_iter().map(|(nth, counts)| (nth, at_lambda(counts))).collect())
}

/// The attributes of the retry queues, and of the queues that are attached, by ARN.
async fn queues(aws: &Aws, attached: &[Attached]) -> Answer<HashMap<String, QueueAttributes>> {
    let retry_queues = attached.iter().map(|it| it.queue_arn.as_str());
    let sources = attached.iter().map(|it| it.arn.as_str()).filter(|arn| is_queue(arn));
    let retry_queues: BTreeSet<_> = retry_queues.collect();
    let all: BTreeSet<_> = retry_queues.iter().copied().chain(sources).collect();
    let queues = join_all(all.into_iter().map(|arn| aws.queue(arn))).await;
    let known = |Queue { arn, attributes, .. }: Queue| match attributes {
        Ok(Some(attributes)) => Some(Ok((arn, attributes))),
        // Without its source, a retry queue still has what waits.
        _ if !retry_queues.contains(arn.as_str()) => None,
        Ok(None) => {
            let missing =
                Fault::of("sqs:GetQueueAttributes", &arn, "NonExistentQueue", "no such queue");
            Some(Err(missing))
        }
        Err(fault) => Some(Err(fault)),
    };
    queues.into_iter().filter_map(known).collect()
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Metric {
    RecentRuns,
    RecentErrors,
    Throttles,
    LambdaAge,
    Runs,
    Errors,
    Retried,
    Oldest,
    /// Dead letters with a reason, by its index in `Reason::ALL`.
    Dead(usize),
}

/// CloudWatch's periods begin at whole minutes. The current minute is included.
fn next_minute(now: Timestamp) -> Timestamp {
    Timestamp::from_timestamp(now.timestamp().div_euclid(60) * 60 + 60, 0).unwrap_or(now)
}

async fn metrics(
    aws: &Aws,
    attached: &[Attached],
    now: Timestamp,
) -> Answer<HashMap<(usize, Metric), f64>> {
    let until = next_minute(now);
    let mut found = HashMap::new();
    for (length, kinds) in [
        (
            RECENT,
            vec![Metric::RecentRuns, Metric::RecentErrors, Metric::Throttles, Metric::LambdaAge],
        ),
        (HOUR, vec![Metric::Runs, Metric::Errors, Metric::Retried, Metric::Oldest]),
        (DAY, (0..Reason::ALL.len()).map(Metric::Dead).collect()),
    ] {
        let all =
            attached.iter().enumerate().flat_map(|it| kinds.iter().map(move |kind| (it, *kind)));
        let asked = |((nth, it), kind): ((usize, &Attached), Metric)| {
            queries(it, kind, length).into_iter().map(move |query| ((nth, kind), query))
        };
        let asked = all.flat_map(asked).collect();
        // A queue may have several consumers.
        for (key, value) in metric_data(aws, asked, earlier(until, length), until).await? {
            *found.entry(key).or_insert(0.0) += value;
        }
    }
    Ok(found)
}

/// The queries for a metric over this length of time. The period is a minute, or an hour for a day. The runs of a queue
/// are those of its consumers.
fn queries(attached: &Attached, kind: Metric, length: Duration) -> Vec<Query> {
    let Attached { arn, consumers, .. } = attached;
    let period = if length > HOUR { HOUR } else { MINUTE };
    let of_lambda = |name: &'static str| {
        let of_consumers = consumers.iter().map(|(name, _)| vec![("FunctionName", name.clone())]);
        let dimensions = of_consumers.chain(function_dimensions(arn));
        dimensions.map(|dimensions| ("AWS/Lambda", name, dimensions)).collect::<Vec<_>>()
    };
    // The handler counts all versions and aliases of a function together.
    let name = Target::parse(arn).map_or(arn.to_owned(), |target| target.name().to_owned());
    let target = || vec![("Target", name.clone())];
    let metrics = match kind {
        Metric::RecentRuns | Metric::Runs => of_lambda("Invocations"),
        Metric::RecentErrors | Metric::Errors => of_lambda("Errors"),
        Metric::Throttles => of_lambda("Throttles"),
        Metric::LambdaAge if is_queue(arn) => Vec::new(),
        Metric::LambdaAge => of_lambda("AsyncEventAge"),
        Metric::Retried => vec![(NAMESPACE, metric::Metric::Invoked.name(), target())],
        Metric::Oldest => vec![(NAMESPACE, metric::Metric::EventAge.name(), target())],
        Metric::Dead(reason) => {
            let reason = ("Reason", Reason::ALL[reason].as_str().to_owned());
            let dimensions = [target(), vec![reason]].concat();
            vec![(NAMESPACE, metric::Metric::DeadLettered.name(), dimensions)]
        }
    };
    let is_age = matches!(kind, Metric::Oldest | Metric::LambdaAge);
    let statistic = if is_age { MAXIMUM } else { "Sum" };
    let query =
        |(namespace, name, dimensions)| Query { namespace, name, dimensions, statistic, period };
    metrics.into_iter().map(query).collect()
}

/// The dimensions of a function's own metrics. Lambda has others for versions and aliases, but not for `$LATEST`.
fn function_dimensions(arn: &str) -> Option<Vec<(&'static str, String)>> {
    let function = FunctionArn::parse(arn)?;
    let mut dimensions = vec![("FunctionName", function.name().to_owned())];
    let qualifier = arn.strip_prefix(function.unqualified());
    let qualifier = qualifier.and_then(|rest| rest.strip_prefix(':'));
    if let Some(qualifier) = qualifier.filter(|it| !it.starts_with('$')) {
        dimensions.push(("Resource", format!("{}:{qualifier}", function.name())));
    }
    Some(dimensions)
}

/// The items of these functions in the ledger, by key.
async fn items(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
) -> Answer<HashMap<String, Item>> {
    let mut items = HashMap::new();
    let Some(table) = handler.ledger() else { return Ok(items) };
    let dynamodb = aws.dynamodb_of(handler);
    let mut keys: BTreeMap<String, Item> = BTreeMap::new();
    for Attached { arn, .. } in attached {
        let key = target_key(arn);
        keys.insert(key.clone(), [(ID.to_owned(), AttributeValue::S(key))].into());
    }
    let keys: Vec<_> = keys.into_values().collect();
    for keys in keys.chunks(ITEMS_MAX) {
        let failed = || fault("dynamodb:BatchGetItem", table);
        let mut wanted = KeysAndAttributes::builder().set_keys(Some(keys.to_vec())).build().ok();
        while let Some(keys) = wanted.take() {
            let answer = dynamodb.batch_get_item().request_items(table, keys).send().await;
            let answer = answer.map_err(failed())?;
            let found = answer.responses.unwrap_or_default().into_values().flatten();
            items.extend(found.filter_map(|item| Some((item.get(ID)?.as_s().ok()?.clone(), item))));
            wanted = answer.unprocessed_keys.and_then(|mut left| left.remove(table));
        }
    }
    Ok(items)
}

/// The due time of each function's next event, by ARN. Empty without a register.
async fn dues(
    aws: &Aws,
    handler: &Function,
    attached: &[Attached],
) -> Answer<HashMap<String, Timestamp>> {
    let Some(table) = handler.register() else { return Ok(HashMap::new()) };
    let dynamodb = aws.dynamodb_of(handler);
    let dues = attached.iter().map(async |Attached { arn, .. }| {
        let call = dynamodb
            .query()
            .table_name(table)
            .index_name(INDEX)
            .key_condition_expression("#target = :target")
            .expression_attribute_names("#target", TARGET)
            .expression_attribute_values(":target", AttributeValue::S(arn.clone()))
            .limit(1);
        let answer = call.send().await.map_err(fault("dynamodb:Query", table))?;
        let first = answer.items.unwrap_or_default().first().and_then(register::due);
        Ok(first.map(|due| (arn.clone(), due)))
    });
    Ok(try_join_all(dues).await?.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::tests::texts;

    #[test]
    fn the_worst_comes_first_and_a_narrow_terminal_shows_less() {
        let arn = |name: &str| format!("arn:aws:lambda:us-east-1:1:function:{name}:$LATEST");
        let failing = Runs { invocations: 9, errors: 9 };
        let facts = [
            Facts { function: arn("fine"), retried: 1, ..Facts::default() },
            Facts {
                function: arn("orders"),
                in_flight: 1200,
                at_lambda: Some(995),
                delayed: 3,
                recent: failing,
                hour: failing,
                dead_letters: [("not_retryable".to_owned(), 4)].into(),
                ..Facts::default()
            },
        ];
        let title = |letters| title("retries", &facts, letters);
        let at = Timestamp::UNIX_EPOCH;
        let text = |width| texts(&report(title(Some(1)), &facts, None, at, width));
        let wide = text(None);
        assert_eq!(wide[0], "retries: 2 functions, 1 dead letter now");
        assert_eq!(title(None), "retries: 2 functions");
        for part in [
            "orders",
            "failing",
            "1,203",
            "1,200 / 3 / 0",
            "9, 9, 0",
            "995 at Lambda",
            "4 not_retryable",
        ] {
            assert!(wide[2].contains(part), "{part}: {wide:?}");
        }
        assert!(wide[3].contains("fine") && wide[3].contains("well"), "{wide:?}");
        let narrow = text(Some(80));
        for (line, parts) in [
            (1, ["function", "waiting", "given up, last day"]),
            (2, ["orders", "1,203", "4 not_retryable"]),
        ] {
            assert!(parts.iter().all(|part| narrow[line].contains(part)), "{narrow:?}");
        }
        assert!(!narrow[1].contains("oldest"), "{narrow:?}");
        let most = wide[1].find("oldest").unwrap();
        assert!(most > wide[1].find("next due").unwrap(), "{wide:?}");
        let paused_since = Some(Timestamp::UNIX_EPOCH);
        let later = Timestamp::UNIX_EPOCH + Duration::from_secs(90);
        for (facts, expected) in [
            (Facts { paused_since, ..Facts::default() }, "paused for 1 m 30 s"),
            (
                Facts { paused_since, recent: failing, ..Facts::default() },
                "failing, paused for 1 m 30 s",
            ),
            (Facts { down_since: paused_since, ..Facts::default() }, "down for 1 m 30 s"),
        ] {
            assert_eq!(state(&facts, later), expected);
        }
        assert!(text(Some(40)).iter().all(|line| line.chars().count() <= 40));
    }

    #[test]
    fn what_has_not_run_yet_is_named() {
        let arn = "arn:aws:lambda:us-east-1:1:function:orders:$LATEST".to_owned();
        let queue = "arn:aws:sqs:us-east-1:123456789012:imports".to_owned();
        let throttled = Facts {
            function: arn.clone(),
            throttles: 340,
            lambda_oldest_seconds: Some(723.4),
            ..Facts::default()
        };
        let in_source = Some(InSource { messages: 9, due: 9 });
        let stuck = Facts { function: queue, in_source, ..Facts::default() };
        let quick = Facts { lambda_oldest_seconds: Some(0.05), function: arn, ..Facts::default() };
        for (facts, expected) in
            [(&throttled, "for 12 m 3 s, 340 throttles"), (&stuck, "9 messages"), (&quick, "")]
        {
            assert_eq!(backlog(facts), expected);
        }
        let facts = [throttled, stuck];
        let title = title("retries", &facts, None);
        assert_eq!(title, "retries: 1 function, 1 queue");
        let lines = texts(&report(title, &facts, None, Timestamp::UNIX_EPOCH, Some(100)));
        assert!(lines[2].contains("throttled") && lines[2].contains("340 throttles"), "{lines:?}");
        assert!(lines[3].contains("sqs:imports") && lines[3].contains("9 messages"), "{lines:?}");
    }

    #[test]
    fn an_alias_has_metrics_of_its_own_and_a_queue_has_those_of_its_consumers() {
        let arn = "arn:aws:lambda:us-east-1:123456789012:function:orders";
        let names = |arn: &str, kind| {
            let consumers = vec![("importer".to_owned(), true), ("backup".to_owned(), false)];
            let consumers = if is_queue(arn) { consumers } else { Vec::new() };
            let attached = Attached { arn: arn.to_owned(), queue_arn: String::new(), consumers };
            let name = |Query { name, dimensions, .. }: Query| {
                let dimensions = dimensions.iter().map(|(name, value)| format!(" {name}={value}"));
                name.to_owned() + &dimensions.collect::<String>()
            };
            let names = queries(&attached, kind, HOUR).into_iter().map(name);
            names.collect::<Vec<_>>().join("; ")
        };
        let latest = format!("{arn}:$LATEST");
        let live = format!("{arn}:live");
        let imports = "arn:aws:sqs:us-east-1:123456789012:imports".to_owned();
        for (arn, kind, expected) in [
            (&latest, Metric::Runs, "Invocations FunctionName=orders".to_owned()),
            (
                &live,
                Metric::RecentErrors,
                "Errors FunctionName=orders Resource=orders:live".to_owned(),
            ),
            (&live, Metric::Retried, "Invoked Target=orders".to_owned()),
            (&imports, Metric::Retried, "Invoked Target=sqs:imports".to_owned()),
            (
                &imports,
                Metric::Throttles,
                "Throttles FunctionName=importer; Throttles FunctionName=backup".to_owned(),
            ),
            (&imports, Metric::LambdaAge, String::new()),
            (&latest, Metric::LambdaAge, "AsyncEventAge FunctionName=orders".to_owned()),
            (&live, Metric::Dead(2), "DeadLettered Target=orders Reason=not_retryable".to_owned()),
        ] {
            assert_eq!(names(arn, kind), expected);
        }
    }
}
