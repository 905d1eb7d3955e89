//! `comeback demo`: events that fail, wait, come back, and succeed or are given up.
//!
//! The demo sends [`events`] to functions in a local cloud whose upstream is down for a while. A [`History`]
//! collects their steps. A terminal shows them as a table that is redrawn, a pipe as one line per step. The demo ends
//! with a summary, which a small terminal still shows when everything is printed.

pub mod args;
mod events;
mod history;
mod summary;
mod table;

use std::time::Duration;

use comeback_core::{
    Timestamp,
    time::{between, later},
};
use comeback_local::{Config, Server};
use comeback_local_client::{dead_letters::DeadLetter, deploy::Cloud, journal::Journal};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};

use self::{
    events::{PAUSED, Plan, PlannedEvent, Scenario},
    history::History,
    table::{draw, introduction},
};

use crate::{
    activity,
    demo::args::DemoArgs,
    dynamodb,
    failure::Failure,
    functions::{Binaries, VISIBILITY},
    paint::{Line, Style},
    shell::{Outcome, Screen, Shell, Signals},
    text::counted,
};

/// How often the table is redrawn, or new lines are printed.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// How long the demo waits for missing outcomes after `MAX_AGE`, when every event should have ended.
const PATIENCE: Duration = Duration::from_secs(30);

const JOURNAL_WAIT: Duration = Duration::from_secs(30);

pub async fn run(args: &DemoArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let binaries = Binaries::find(args.binaries.folder.as_deref())?;
    let plan = Plan { events: usize::from(args.events), outage: args.outage, seed: args.seed };
    let mut signals = Signals::listen()?;
    let config = Config {
        inherited: shell.inherited.clone(),
        dynamodb: Some(dynamodb::router()?),
        ..Config::default()
    };
    let server =
        comeback_local::start(config).await.map_err(|source| Failure::Port { port: 0, source })?;
    let outcome = tokio::select! {
        outcome = perform(&server, &binaries, plan, shell) => outcome,
        () = signals.any() => Ok(Outcome::Interrupted),
    };
    server.stop().await;
    outcome
}

async fn perform(
    server: &Server,
    binaries: &Binaries,
    plan: Plan,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let cloud = Cloud::at(server.endpoint());
    dynamodb::create_ledger(server.endpoint()).await?;
    let mut handler = binaries.handler(&plan.settings());
    handler.environment.extend(dynamodb::ledger_environment(None));
    let queues = cloud.deploy_each(handler, VISIBILITY, &Plan::targets(binaries), &[]).await?;
    cloud.pause(PAUSED).await?;
    let began = (shell.now)();
    let mut schedule = plan.schedule(began);
    // A terminal with few lines shows only the first rows, so events other than orders come first.
    schedule.sort_by_key(|event| event.scenario == Scenario::Order);
    let demo = Demo {
        history: History::begin(began, schedule.iter().map(|event| event.name.clone())),
        schedule: &schedule,
        cloud: &cloud,
        shell,
        upstream_back: later(began, plan.outage),
        deadline: later(began, plan.max_age() + PATIENCE),
        title: format!(
            "{}, upstream down for {} s, seed {}",
            counted(plan.events as u64, "event"),
            plan.outage.as_secs(),
            plan.seed
        ),
    };
    let history = demo.run(Journal::of(server.endpoint())).await?;
    let mut letters: Vec<DeadLetter> = Vec::new();
    loop {
        let more = cloud.take_dead_letters(&queues.dead_letter, 10, 0).await?;
        if more.is_empty() {
            break;
        }
        letters.extend(more);
    }
    let faults = summary::faults(&schedule, &history, &letters);
    let lost = schedule.iter().filter(|event| event.lost_by_lambda_alone(plan.outage));
    let lost: Vec<_> = lost.map(|event| event.scenario.name()).collect();
    shell.print(&summary::one_letter(&letters)).await?;
    shell.print(&summary::summary(&history, &letters, &lost, &faults)).await?;
    if !faults.is_empty() {
        return Ok(Outcome::Unsuccessful);
    }
    shell.print(&summary::next_steps(&shell.program)).await?;
    Ok(Outcome::Success)
}

struct Demo<'a> {
    history: History,
    schedule: &'a [PlannedEvent],
    cloud: &'a Cloud,
    shell: &'a Shell,
    upstream_back: Timestamp,
    /// When the demo ends even if events are still waiting.
    deadline: Timestamp,
    title: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    Send(usize),
    UpstreamBack,
    End,
}

impl Demo<'_> {
    async fn run(mut self, mut journal: Journal) -> Result<History, Failure> {
        let mut screen = if self.shell.terminal { Some(Screen::take()?) } else { None };
        if screen.is_none() {
            self.shell.print(&[Line::of(Style::Strong, &self.title)]).await?;
            self.shell.print(&introduction("line is one step in an event's life")).await?;
        }
        // The journal is read in a task of its own, because `select!` would cancel a request at every tick.
        let (send, mut pages) = mpsc::channel(1);
        tokio::spawn(
            async move { while send.send(journal.next(JOURNAL_WAIT).await).await.is_ok() {} },
        );
        let mut reader = activity::Reader::default();
        let mut ticks = interval(REFRESH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut actions = self.actions().into_iter();
        let mut next = actions.next();
        while let Some((at, action)) = next {
            if self.history.is_over() {
                break;
            }
            tokio::select! {
                () = sleep(between((self.shell.now)(), at)) => {
                    // This completes before the next page is read, so the history has the request id of an event before
                    // the event's first activity.
                    self.carry_out(action).await?;
                    next = actions.next();
                }
                Some(entries) = pages.recv() => {
                    for activity in entries.map_err(Failure::Journal)?.iter().flat_map(|entry| reader.read(entry)) {
                        self.history.observe(&activity);
                    }
                }
                _ = ticks.tick() => self.show(&mut screen).await?,
            }
        }
        if screen.take().is_some() {
            // The final table, with all rows, stays in the normal screen.
            self.shell.print(&self.table((Screen::size().0, usize::MAX))).await?;
        } else {
            self.show(&mut None).await?;
        }
        Ok(self.history)
    }

    fn actions(&self) -> Vec<(Timestamp, Action)> {
        let send = |(index, event): (usize, &PlannedEvent)| {
            (later(self.history.began, event.sent_after), Action::Send(index))
        };
        let mut actions: Vec<_> = self.schedule.iter().enumerate().map(send).collect();
        actions.push((self.upstream_back, Action::UpstreamBack));
        actions.push((self.deadline, Action::End));
        actions.sort_by_key(|(at, _)| *at);
        actions
    }

    async fn carry_out(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Send(event) => {
                let PlannedEvent { function, payload, .. } = &self.schedule[event];
                let at = (self.shell.now)();
                let request_id = self.cloud.invoke(function, payload).await?;
                self.history.sent(event, &request_id, at);
            }
            Action::UpstreamBack => {
                self.cloud.resume(PAUSED).await?;
                self.history.add_line(self.upstream_back, "", Style::Good, "the upstream is back");
            }
            Action::End => {}
        }
        Ok(())
    }

    async fn show(&mut self, screen: &mut Option<Screen>) -> Result<(), Failure> {
        let new_lines = self.history.take_lines();
        match screen {
            Some(screen) => screen.draw(&self.table(Screen::size()), self.shell.colour).await?,
            None => self.shell.print(&new_lines).await?,
        }
        Ok(())
    }

    fn table(&self, size: (usize, usize)) -> Vec<Line> {
        let now = (self.shell.now)();
        draw(&self.history, &self.title, self.upstream_back, now, size)
    }
}
