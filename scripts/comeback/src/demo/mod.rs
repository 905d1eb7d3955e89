//! `comeback demo`: events that fail, wait, come back, and succeed or are given up.
//!
//! The demo sends a [`cast`] of events to functions of a local cloud, whose upstream is down for a while. The
//! [`story`] collects what happens to them: a terminal shows it as a [`table`] that is redrawn, a pipe as one
//! line per step. A [`summary`] ends the demo.

mod cast;
mod story;
mod summary;
mod table;
#[cfg(test)]
pub mod testing;

use std::time::Duration;

use comeback_core::{Timestamp, time::later};
use comeback_local::{Config, Server};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};

use self::{
    cast::{PAUSED, Part, Play, Role},
    story::Story,
};
use crate::{
    args::DemoArgs,
    binaries::{Binaries, VISIBILITY},
    dead_letters::DeadLetter,
    deploy::{Cloud, Queues},
    happening,
    journal::Journal,
    paint::{Line, Style},
    shell::{Ended, Failure, Screen, Shell, Signals},
};

/// How often news are shown.
const SHOW_PERIOD: Duration = Duration::from_millis(100);

/// How long the demo waits for the last events after every one must have ended.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one request for the journal waits for news.
const JOURNAL_WAIT: Duration = Duration::from_secs(30);

pub async fn run(args: &DemoArgs, shell: &Shell) -> Result<Ended, Failure> {
    let binaries = args.binaries.find()?;
    let play = Play { events: usize::from(args.events), outage: args.outage, seed: args.seed };
    let mut signals = Signals::listen()?;
    let config = Config { inherited: shell.inherited.clone(), ..Config::default() };
    let server =
        comeback_local::start(config).await.map_err(|source| Failure::Port { port: 0, source })?;
    let played = tokio::select! {
        played = perform(&server, &binaries, play, shell) => played,
        () = signals.any() => Ok(Ended::Interrupted),
    };
    server.stop().await;
    played
}

async fn perform(
    server: &Server,
    binaries: &Binaries,
    play: Play,
    shell: &Shell,
) -> Result<Ended, Failure> {
    let cloud = Cloud::at(server.endpoint());
    let handler = binaries.handler(&play.settings());
    let queues = cloud.deploy(handler, VISIBILITY, &Play::targets(binaries)).await?;
    cloud.pause(PAUSED).await?;
    let began = (shell.now)();
    let mut cast = play.cast(began);
    // A low terminal shows the first rows, so the events that differ come first.
    let mut rows: Vec<_> = (0..cast.len()).collect();
    rows.sort_by_key(|&event| cast[event].part == Part::Order);
    cast = rows.into_iter().map(|event| cast[event].clone()).collect();
    let stage = Stage {
        story: Story::begin(began, cast.iter().map(|role| role.name.clone())),
        cast: &cast,
        cloud: &cloud,
        shell,
        upstream_back: later(began, play.outage),
        deadline: later(began, play.max_age() + PATIENCE),
        title: title(play),
    };
    let story = stage.play(Journal::of(server.endpoint())).await?;
    close(&cast, play.outage, &story, &cloud, &queues, shell).await
}

fn title(play: Play) -> String {
    let Play { events, outage, seed } = play;
    let plural = if events == 1 { "" } else { "s" };
    format!("{events} event{plural}, upstream down for {} s, seed {seed}", outage.as_secs())
}

/// Reads the dead letters and prints the summary.
async fn close(
    cast: &[Role],
    outage: Duration,
    story: &Story,
    cloud: &Cloud,
    queues: &Queues,
    shell: &Shell,
) -> Result<Ended, Failure> {
    let mut letters: Vec<DeadLetter> = Vec::new();
    loop {
        let more = cloud.take_dead_letters(&queues.dead_letter, 10, 0).await?;
        if more.is_empty() {
            break;
        }
        letters.extend(more);
    }
    let faults = summary::faults(cast, story, &letters);
    let lost = cast.iter().filter(|role| role.lost_by_lambda_alone(outage));
    let lost: Vec<_> = lost.map(|role| role.part.name()).collect();
    shell.print(&[Line::default()]).await?;
    shell.print(&summary::summary(story, &letters, &lost, &faults)).await?;
    if !faults.is_empty() {
        return Ok(Ended::Badly);
    }
    shell.print(&summary::next(&letters)).await?;
    Ok(Ended::Well)
}

/// A demo that runs.
struct Stage<'a> {
    story: Story,
    cast: &'a [Role],
    cloud: &'a Cloud,
    shell: &'a Shell,
    upstream_back: Timestamp,
    /// When the demo ends, even if events have not.
    deadline: Timestamp,
    title: String,
}

/// Something that the demo does at a given time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cue {
    Send(usize),
    UpstreamBack,
    End,
}

impl Stage<'_> {
    async fn play(mut self, mut journal: Journal) -> Result<Story, Failure> {
        let mut screen = if self.shell.terminal { Some(Screen::take()?) } else { None };
        if screen.is_none() {
            self.shell.print(&[Line::of(Style::Strong, &self.title)]).await?;
            self.shell.print(&table::introduction("line is one step in an event's life")).await?;
        }
        // A task reads the journal, so that no tick cancels a request.
        let (send, mut pages) = mpsc::channel(1);
        tokio::spawn(
            async move { while send.send(journal.next(JOURNAL_WAIT).await).await.is_ok() {} },
        );
        let mut ticks = interval(SHOW_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut cues = self.cues().into_iter();
        let mut next = cues.next();
        while let Some((at, cue)) = next {
            if self.story.is_over() {
                break;
            }
            tokio::select! {
                () = sleep(self.shell.until(at)) => {
                    // The story learns the request id of an event before it observes the event.
                    self.carry_out(cue).await?;
                    next = cues.next();
                }
                Some(entries) = pages.recv() => {
                    for happening in entries?.iter().filter_map(happening::read) {
                        self.story.observe(&happening);
                    }
                }
                _ = ticks.tick() => self.show(&mut screen).await?,
            }
        }
        if screen.take().is_some() {
            // The last table stays on the screen, with all its rows.
            self.shell.print(&self.table((Screen::size().0, usize::MAX))).await?;
        } else {
            self.show(&mut None).await?;
        }
        Ok(self.story)
    }

    /// What the demo does, in order.
    fn cues(&self) -> Vec<(Timestamp, Cue)> {
        let send = |(event, role): (usize, &Role)| {
            (later(self.story.began, role.sent_after), Cue::Send(event))
        };
        let mut cues: Vec<_> = self.cast.iter().enumerate().map(send).collect();
        cues.push((self.upstream_back, Cue::UpstreamBack));
        cues.push((self.deadline, Cue::End));
        cues.sort_by_key(|(at, _)| *at);
        cues
    }

    async fn carry_out(&mut self, cue: Cue) -> Result<(), Failure> {
        match cue {
            Cue::Send(event) => {
                let Role { function, payload, .. } = &self.cast[event];
                let at = (self.shell.now)();
                let request_id = self.cloud.invoke(function, payload).await?;
                self.story.sent(event, &request_id, at);
            }
            Cue::UpstreamBack => {
                self.cloud.resume(PAUSED).await?;
                self.story.tell(self.upstream_back, "", Style::Good, "the upstream is back");
            }
            Cue::End => {}
        }
        Ok(())
    }

    async fn show(&mut self, screen: &mut Option<Screen>) -> Result<(), Failure> {
        let news = self.story.news();
        match screen {
            Some(screen) => screen.draw(&self.table(Screen::size()), self.shell.colour).await?,
            None => self.shell.print(&news).await?,
        }
        Ok(())
    }

    fn table(&self, size: (usize, usize)) -> Vec<Line> {
        let now = (self.shell.now)();
        table::draw(&self.story, &self.title, self.upstream_back, now, size)
    }
}
