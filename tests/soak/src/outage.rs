//! An outage of one function, with probes and the register, beside a function that is healthy: when the circuit opens,
//! how many retries are made in vain, when the events are back, and how late the neighbour's retries are.
//!
//! `simulation outage --probe --register` plays the same in virtual time.

mod tally;

use std::{fmt, time::Duration};

use aws_sdk_lambda::types::ScalingConfig;
use chrono::{SecondsFormat, Utc};
use end_to_end::{
    cloud::{Cloud, function},
    retry_loop::{HANDLER, TARGET},
};
use tokio::time::interval;

use self::tally::{NEIGHBOUR, Tally};
use crate::{run::kill_now_and_then, table};

/// An outage, as it is to be played.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "soak outage", about = None)]
pub struct Outage {
    /// For how many seconds the function is down.
    #[arg(long, default_value_t = 150)]
    pub down: u32,
    /// How many events the function gets in a second.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// For how many seconds events arrive, from the beginning of the outage [default: as long as it lasts].
    #[arg(long)]
    pub arrivals: Option<u32>,
    /// How many processes the local cloud has for all functions and handlers.
    #[arg(long, default_value_t = 60)]
    pub processes: u32,
    /// The maximum concurrency of the mapping of each retry queue; 10 is what is deployed.
    #[arg(long, default_value_t = 10)]
    pub batches: i32,
    /// The average time between two kills of a handler, in seconds; 0 for no kills.
    #[arg(long, default_value_t = 9)]
    pub kill_every: u32,
    /// Decides when which handler is killed.
    #[arg(long, default_value_t = crate::SEED)]
    pub seed: u64,
}

/// The neighbour gets an event a second.
const SECOND: Duration = Duration::from_secs(1);

/// The handler's time-out and the visibility time-out of its queues, as deployed.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(30);
const VISIBILITY: Duration = Duration::from_secs(180);

/// All events are back before that after the outage: SQS's longest delay, and a ramp. With very few processes, some
/// wait at Lambda for longer.
const BACK_WITHIN: Duration = Duration::from_mins(20);

pub struct Played {
    outage: Outage,
    sent: [usize; 2],
    tally: Tally,
    killed: usize,
}

/// Plays the outage, and waits until all events are back.
#[allow(clippy::disallowed_methods, reason = "the target fails until a time")]
pub async fn soak(outage: Outage) -> Played {
    let cloud = Cloud::with_tables(outage.processes).await;
    drop(table::create(&cloud.endpoint).await);
    let mut handler = function(HANDLER, "retry-handler");
    handler.timeout = HANDLER_TIMEOUT;
    handler.environment = [("LEDGER_TABLE", table::NAME), ("REGISTER", "true"), ("PROBE", "true")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let targets = [TARGET, NEIGHBOUR].map(|name| function(name, "example-target"));
    cloud.deploy_each(handler, VISIBILITY, &targets, &[]).await.unwrap();
    limit(&cloud, outage.batches).await;

    let began_at = Utc::now();
    let up_at = began_at + Duration::from_secs(outage.down.into());
    let until = up_at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let fails = format!(r#"{{"until":"{until}"}}"#);
    let seconds = outage.arrivals.unwrap_or(outage.down);
    let counts = [outage.rate * seconds, seconds].map(|count| count as usize);
    let send = async |name: &str, count: usize, every: Duration, fail: &str| {
        let mut ticks = interval(every);
        for event in 0..count {
            ticks.tick().await;
            let payload = format!(r#"{{"id":{event},"fail":{fail}}}"#);
            cloud.invoke(name, &payload).await.unwrap();
        }
    };
    let sent = async {
        tokio::join!(
            send(TARGET, counts[0], SECOND / outage.rate, &fails),
            send(NEIGHBOUR, counts[1], SECOND, r#"{"attempts":1}"#),
        );
        // All are sent, but not all are back.
        std::future::pending::<()>().await;
    };
    let (mut tally, mut killed) = (Tally::new(began_at, up_at), 0);
    let kills = async {
        if outage.kill_every == 0 {
            std::future::pending::<()>().await;
        }
        let pause = u64::from(outage.kill_every) * 1_000;
        let pause = [pause / 2, pause * 3 / 2];
        let cloud = cloud.process.id().unwrap();
        kill_now_and_then(cloud, &[HANDLER], pause, outage.seed, |_| killed += 1).await;
    };
    let follow = async {
        let mut journal = cloud.journal();
        let last = up_at + BACK_WITHIN;
        while tally.missing(counts) != [0; 2] && Utc::now() < last {
            let known = tally.turns.len();
            journal.page(SECOND).await.iter().for_each(|entry| tally.note(entry));
            for (after, circuit) in &tally.turns[known..] {
                eprintln!("{:>5.0} s  the circuit is {circuit}", after.as_secs_f64());
            }
        }
    };
    tokio::select! {
        () = follow => {}
        () = sent => {}
        () = kills => {}
    }
    Played { outage, sent: counts, tally, killed }
}

/// Limits how many batches of each queue are handled at once.
async fn limit(cloud: &Cloud, batches: i32) {
    let mappings = cloud.lambda.list_event_source_mappings().function_name(HANDLER).send().await;
    for mapping in mappings.unwrap().event_source_mappings.unwrap_or_default() {
        let scaling = ScalingConfig::builder().maximum_concurrency(batches).build();
        let call = cloud.lambda.update_event_source_mapping().uuid(mapping.uuid.unwrap());
        call.scaling_config(scaling).send().await.unwrap();
    }
}

impl Played {
    /// Whether no event is lost.
    pub fn is_good(&self) -> bool {
        self.tally.missing(self.sent) == [0; 2]
    }
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outage, sent, tally, killed, .. } = self;
        let seconds = |after: Option<Duration>| {
            after.map_or("never".to_owned(), |after| format!("{:.0} s", after.as_secs_f64()))
        };
        let [of_target, of_neighbour] = sent;
        writeln!(
            f,
            "{of_target:>7} events in an outage of {} s, {} failed",
            outage.down,
            tally.failed()
        )?;
        let missing: usize = tally.missing(*sent).iter().sum();
        writeln!(f, "{missing:>7} lost, or not back within 20 minutes, of both functions")?;
        writeln!(
            f,
            "{killed:>7} handlers killed; {} runs of a handler had no free process",
            tally.throttled
        )?;
        writeln!(
            f,
            "{:>7} suspected after, open after {}",
            seconds(tally.first("suspected")),
            seconds(tally.first("open"))
        )?;
        writeln!(f, "{:>7} retries while it was down", tally.retries_while_down)?;
        let [half, most, last] = [50, 90, 100].map(|percent| seconds(tally.back_after(percent)));
        writeln!(f, "back after the outage: half {half}, 90 % {most}, the last {last}")?;
        let late = tally.lateness();
        writeln!(
            f,
            "the neighbour: {of_neighbour} events, {} retries late by {:.1} s (p95), of which {:.1} s after Lambda had accepted them",
            late.retries,
            late.in_all.as_secs_f64(),
            late.at_lambda.as_secs_f64(),
        )?;
        f.write_str(if self.is_good() { "good" } else { "NOT GOOD" })
    }
}
