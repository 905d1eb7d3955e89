//! The retry handler's program: it reads the settings, creates the clients, and runs. `comeback-core` decides, and
//! `comeback-flow` handles a batch.

use std::{io::Write, process::ExitCode, time::Duration};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    in_flight::QUOTA,
    settings::{Misspelt, Settings},
    time::at_millis,
};
use comeback_flow::{
    batch::{Context, Handler},
    in_flight::Gauges,
    memory::CircuitMemory,
    metrics,
    outages::Outages,
    ports::Clock,
};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use tracing::level_filters::LevelFilter;

use crate::{
    clients::connect, functions::LambdaFunctions, ledger::DynamoLedger, queues::SqsQueues,
    records::S3Records,
};

type AwsHandler = Handler<SqsQueues, LambdaFunctions, DynamoLedger, S3Records, SystemClock>;

/// Runs the handler until Lambda ends the process. A program calls this first in its `main`.
pub fn run() -> ExitCode {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false)
        .with_max_level(LevelFilter::INFO)
        .init();
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Error> {
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for misspelt in Misspelt::among(variables) {
        tracing::warn!("{misspelt}");
    }
    #[allow(clippy::disallowed_methods, reason = "a main is where the settings are read")]
    let settings = Settings::from_lookup(|name| std::env::var(name).ok())?;
    let in_flight_max = settings.in_flight_max.get();
    if in_flight_max > QUOTA {
        tracing::warn!(
            "IN_FLIGHT_MAX is {in_flight_max}, more than the {QUOTA} messages that SQS has in flight by default; \
             unless AWS has raised the quota of the retry queues, they stall before it is reached"
        );
    }
    // One thread: a function with less than 1,769 MB has less than one CPU, and the handler mostly waits.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(settings))
}

async fn serve(settings: Settings) -> Result<(), Error> {
    let aws = connect().await;
    let queues =
        SqsQueues::new(aws_sdk_sqs::Client::new(&aws), settings.dead_letter_queue_url.clone());
    let functions = LambdaFunctions::new(&aws, settings.probe);
    let ledger = settings.ledger_table.clone();
    let ledger = ledger.map(|table| DynamoLedger::new(&aws, table));
    let records = (!settings.record_buckets.is_empty()).then(|| S3Records::new(&aws));
    let gauges = Gauges::default();
    let memory = CircuitMemory::default();
    let (clock, outages) = (SystemClock, Outages::default());
    let handler =
        &Handler { settings, queues, functions, ledger, records, clock, gauges, memory, outages };
    lambda_runtime::run(service_fn(|event| handle(handler, event))).await
}

async fn handle(
    handler: &AwsHandler,
    event: LambdaEvent<SqsEvent>,
) -> Result<SqsBatchResponse, Error> {
    let LambdaEvent { payload, context } = event;
    let own = &context.invoked_function_arn;
    let home = FunctionArn::parse(own)
        .ok_or_else(|| format!("expected the ARN of this function in its context, got {own:?}"))?
        .home();
    let deadline = at_millis(context.deadline);
    let context = Context { request_id: &context.request_id, home: &home, deadline };
    // On the heap, because the compiler limits how deep futures are nested.
    let report = Box::pin(handler.handle(&payload, &context)).await?;
    publish(&metrics::lines(&report, handler.clock.now()));
    Ok(report.response())
}

/// Embedded metrics are lines on standard output, like the log. The batch is done by now, so a line that can't be
/// written must not make it fail.
fn publish(lines: &[String]) {
    let mut stdout = std::io::stdout().lock();
    for line in lines {
        let _ = writeln!(stdout, "{line}");
    }
}

pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one clock of the handler")]
    fn now(&self) -> Timestamp {
        chrono::Utc::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
