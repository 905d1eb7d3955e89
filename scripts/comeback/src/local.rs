//! `comeback local`: SQS and Lambda on this machine, with the retry loop deployed in them.

pub mod args;

use std::time::Duration;

use comeback_local::{
    Config, Server,
    model::{REGION, Waiting},
};
use comeback_local_client::{
    deploy::{self, Function, HANDLER, Queues, SourceQueue, queue_of},
    journal::Journal,
};
use tokio::time::timeout;

use crate::{
    activity::Reader,
    aws::{
        Aws,
        connect::{Connection, LOCAL},
    },
    dynamodb::{self, LEDGER},
    failure::Failure,
    functions::{self, Binaries, TARGET, VISIBILITY},
    local::args::{LocalArgs, RECORD_BUCKETS, handler_settings},
    log::Log,
    operate::web::{
        self,
        live::{Cloud, Live, Shared},
    },
    paint::{Line, Style},
    shell::{Shell, Signals},
    text::events_that,
};

/// Lambda's default time-out of a function.
const TARGET_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest time to wait for the last line to be printed. Standard output may be a full pipe.
const LAST_LINE_MAX: Duration = Duration::from_secs(1);

const JOURNAL_WAIT: Duration = Duration::from_secs(30);

pub async fn run(args: &LocalArgs, shell: &Shell) -> Result<(), Failure> {
    handler_settings(&args.set, &args.records, !args.no_ledger)?;
    let deployment = if args.empty { None } else { Some(Deployment::of(args)?) };
    let mut signals = Signals::listen()?;
    let page = Live::new(None, shell.now, None)?;
    let config = Config {
        port: args.port,
        concurrency: args.max_processes,
        in_flight_max: usize::try_from(args.in_flight_max).unwrap_or(usize::MAX),
        inherited: shell.inherited.clone(),
        freeze: args.freeze,
        dynamodb: Some(dynamodb::router()?),
        page: Some(web::router(Shared::clone(&page))),
        outages: page.outages.clone(),
    };
    let server = comeback_local::start(config)
        .await
        .map_err(|source| Failure::Port { port: args.port, source })?;
    let served = tokio::select! {
        served = serve(&server, deployment.as_ref(), &page, shell) => served,
        () = signals.any() => {
            let lines = [Line::default(), discarded(&server.waiting())];
            timeout(LAST_LINE_MAX, shell.print(&lines)).await.unwrap_or(Ok(())).map_err(Failure::from)
        }
    };
    page.end();
    server.stop().await;
    served
}

struct Deployment<'a> {
    args: &'a LocalArgs,
    binaries: Binaries,
    functions: Vec<Function>,
    sources: Vec<SourceQueue>,
}

impl<'a> Deployment<'a> {
    fn of(args: &'a LocalArgs) -> Result<Self, Failure> {
        let functions = functions::read(&args.function, args.functions.as_deref())?;
        let sources = functions::sources(&args.queue, &functions, TARGET)?;
        let binaries = Binaries::find(args.binaries.folder.as_deref())?;
        Ok(Self { args, binaries, functions, sources })
    }

    /// The endpoint of the DynamoDB of the ledger, and the same if that is not the local cloud at `endpoint`.
    fn ledger<'b>(&'b self, endpoint: &'b str) -> Option<(&'b str, Option<&'b str>)> {
        let elsewhere = self.args.ledger.as_deref();
        (!self.args.no_ledger).then(|| (elsewhere.unwrap_or(endpoint), elsewhere))
    }

    /// The consumers of queues, which SQS invokes, and the other functions, whose failures go to a retry queue.
    fn consumers_and_targets(&self) -> (Vec<&Function>, Vec<&Function>) {
        self.functions.iter().partition(|function| {
            self.sources.iter().any(|source| source.consumer.as_ref() == Some(&function.name))
        })
    }

    async fn deploy(&self, endpoint: &str) -> Result<Queues, Failure> {
        let Self { args, binaries, sources, .. } = self;
        let (consumers, own) = self.consumers_and_targets();
        let mut targets = vec![binaries.target(TARGET, TARGET_TIMEOUT)];
        targets.extend(own.into_iter().cloned());
        let mut handler = binaries.handler(&args.set);
        let in_flight_max = (args.in_flight_max - args.in_flight_max / 6).max(1);
        // The last value of a variable wins, so these come first.
        let mut own = vec![("IN_FLIGHT_MAX".to_owned(), in_flight_max.to_string())];
        if !args.records.is_empty() {
            own.push((RECORD_BUCKETS.to_owned(), args.records.join(",")));
        }
        if let Some((at, elsewhere)) = self.ledger(endpoint) {
            dynamodb::create_ledger(at).await?;
            own.extend(dynamodb::ledger_environment(elsewhere));
        }
        handler.environment.splice(0..0, own);
        let cloud = deploy::Cloud::at(endpoint);
        for consumer in consumers {
            cloud.create(consumer).await?;
        }
        Ok(cloud.deploy_each(handler, VISIBILITY, &targets, sources).await?)
    }
}

/// Deploys the loop and prints a description of it. Then prints all activity, until the future is dropped.
async fn serve(
    server: &Server,
    deployment: Option<&Deployment<'_>>,
    page: &Live,
    shell: &Shell,
) -> Result<(), Failure> {
    let endpoint = server.endpoint();
    let is = " is SQS, Lambda and DynamoDB on this machine.";
    let heading = [
        Line::of(Style::Strong, endpoint).and(Style::Plain, is),
        Line::of(Style::Plain, "Open it in a browser to watch failed events come back."),
        Line::default(),
    ];
    shell.print(&heading).await?;
    if let Some(deployment) = deployment {
        let queues = deployment.deploy(endpoint).await?;
        let local = Some(Some(endpoint.to_owned()));
        let connection = Connection { local, ..Connection::default() };
        let aws = Aws::connect(&connection, shell.now).await?;
        page.connect(Cloud { aws, handler: Some(HANDLER.to_owned()), connection });
        shell.print(&to_try(endpoint, &queues, deployment, shell)).await?;
        shell.print(&deployed(endpoint, &queues, deployment)).await?;
    } else {
        shell.print(&access(endpoint)).await?;
    }
    shell.print(&[Line::of(Style::Faint, "What happens, until Ctrl-C:")]).await?;
    let (mut journal, mut log) = (Journal::of(endpoint), Log::of(deployment.is_some()));
    let mut reader = Reader::default();
    loop {
        let entries = journal.next(JOURNAL_WAIT).await.map_err(Failure::Journal)?;
        let activities: Vec<_> = entries.iter().flat_map(|entry| reader.read(entry)).collect();
        let of_handler = entries.iter().filter(|entry| *entry.function == *HANDLER);
        let logged: Vec<_> = of_handler.filter_map(|entry| entry.line.as_deref()).collect();
        page.observe(&activities, &logged);
        let lines: Vec<_> = activities.iter().flat_map(|activity| log.lines(activity)).collect();
        shell.print(&lines).await?;
    }
}

fn deployed(endpoint: &str, queues: &Queues, deployment: &Deployment<'_>) -> Vec<Line> {
    let settings = deployment.args.set.iter().map(|(name, value)| format!("{name}={value}"));
    let settings = match settings.collect::<Vec<_>>().as_slice() {
        [] => "default settings".to_owned(),
        settings => settings.join(" "),
    };
    let fact = |name: &str, what: &str| {
        Line::of(Style::Plain, format!("  {name:<18}")).and(Style::Plain, what)
    };
    let of = |name: &str, what: &str| {
        let retry = beside(queues, &queue_of(name));
        [fact("target", &format!("{name}, {what}")), fact("retry queue", &retry)]
    };
    let mut lines = Vec::from(of(TARGET, "which fails as its payload says"));
    let (_, own) = deployment.consumers_and_targets();
    lines.extend(own.iter().flat_map(|it| of(&it.name, "your own")));
    lines.extend(deployment.sources.iter().flat_map(|SourceQueue { name, consumer, .. }| {
        let consumer = consumer.as_deref().unwrap_or("a program of your own");
        [
            fact("queue", &beside(queues, name)),
            fact("its consumer", consumer),
            fact("retry queue", &beside(queues, &queue_of(name))),
        ]
    }));
    lines.extend([
        fact("shared queue", &queues.retry),
        fact("handler", &format!("{HANDLER}, with {settings}")),
        fact("dead-letter queue", &queues.dead_letter),
    ]);
    lines.extend(
        deployment
            .ledger(endpoint)
            .map(|(at, _)| fact("ledger", &format!("the table {LEDGER} at {at}"))),
    );
    lines.push(Line::default());
    lines
}

/// The URL of a queue in the same account as the others.
fn beside(queues: &Queues, name: &str) -> String {
    let account = queues.retry.rsplit_once('/').map_or("", |(account, _)| account);
    format!("{account}/{name}")
}

/// The line about the events that are lost when the local cloud stops.
fn discarded(waiting: &Waiting) -> Line {
    let Waiting { invocations, messages } = waiting;
    let places = messages.iter().map(|(queue, count)| (*count, format!("in the queue {queue}")));
    let with_lambda = (*invocations, "on their way to a function".to_owned());
    let places: Vec<_> = places.chain([with_lambda]).filter(|(count, _)| *count > 0).collect();
    let events = match places.iter().map(|(count, _)| count).sum() {
        0 => return Line::of(Style::Faint, "No event was waiting, so none is discarded."),
        count => events_that(count as u64, "is discarded", "are discarded"),
    };
    let places = places.iter().map(|(count, place)| format!("{count} {place}"));
    Line::of(Style::Plain, format!("{events}: {}.", places.collect::<Vec<_>>().join(", ")))
}

/// The environment variables that make AWS clients use the local cloud.
fn access(endpoint: &str) -> Vec<Line> {
    commands(&format!(
        "# in another terminal; any credentials work
export AWS_ENDPOINT_URL={endpoint}
export AWS_REGION={REGION} AWS_DEFAULT_REGION={REGION}
export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local

"
    ))
}

/// The first commands to try. Those for operators are this program's own.
fn to_try(
    endpoint: &str,
    queues: &Queues,
    deployment: &Deployment<'_>,
    shell: &Shell,
) -> Vec<Line> {
    let program = &shell.program;
    let local =
        if endpoint == LOCAL { "--local".to_owned() } else { format!("--local={endpoint}") };
    // Both versions of the AWS CLI send a `fileb://` payload unchanged. Version 1 ignores AWS_ENDPOINT_URL for SQS.
    let mut text = format!(
        r#"# an event that fails three times, and succeeds at attempt 3
echo '{{"id":"order-1","fail":{{"attempts":3}}}}' | \
    aws lambda invoke --function-name {TARGET} \
    --invocation-type Event --payload fileb:///dev/stdin /dev/null
"#
    );
    for SourceQueue { name, .. } in &deployment.sources {
        let url = beside(queues, name);
        text += &format!(
            r#"# a message for your consumer
aws sqs send-message --endpoint-url $AWS_ENDPOINT_URL \
    --queue-url {url} \
    --message-body '{{"id":"1"}}'
"#
        );
    }
    text += &format!(
        "# how each function is, which events wait, and which were given up
{program} status {local}
{program} waiting {local}
{program} dead list {local}

"
    );
    [access(endpoint), commands(&text)].concat()
}

/// Commands, with a comment above each.
fn commands(text: &str) -> Vec<Line> {
    let style = |line: &str| if line.starts_with('#') { Style::Faint } else { Style::Plain };
    text.lines().map(|line| Line::of(style(line), line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_events_are_counted_by_place() {
        let told = |invocations, messages: &[(&str, usize)]| {
            let messages = messages.iter().map(|&(queue, count)| (queue.to_owned(), count));
            discarded(&Waiting { invocations, messages: messages.collect() }).paint(false)
        };
        assert_eq!(told(0, &[]), "No event was waiting, so none is discarded.");
        assert_eq!(told(0, &[("retry", 1)]), "1 event is discarded: 1 in the queue retry.");
        assert_eq!(
            told(2, &[("dead-letters", 3), ("retry", 7)]),
            "12 events are discarded: 3 in the queue dead-letters, 7 in the queue retry, 2 on their way to a function."
        );
    }
}
