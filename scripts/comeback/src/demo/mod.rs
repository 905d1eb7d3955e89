//! `comeback demo`: events that fail, wait, come back, and succeed or are given up, to be watched.
//!
//! A [`cast`] of events is sent to functions of a local cloud, whose upstream is down for a while.
//! What happens to them becomes a [`story`], which is shown as it grows: as a picture ([`frame`],
//! [`timeline`]) where there is a terminal, as [`plain`] lines where there is none. When it is over,
//! the [`evidence`] in the queues is gathered, and together they get a [`verdict`] and a [`summary`].

mod cast;
mod evidence;
mod frame;
mod plain;
mod story;
mod summary;
#[cfg(test)]
pub mod testing;
mod timeline;
mod verdict;

use std::{io, time::Duration};

use comeback_core::{
    Timestamp,
    time::{between, later},
};
use comeback_local::{Config, Server};
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::{
    cast::{MAX_BACKOFF, PAUSED, Part, Play, Role},
    frame::View,
    plain::Teller,
    story::Story,
};
use crate::{
    args::DemoArgs,
    binaries::{Binaries, VISIBILITY},
    deploy::{Cloud, Queues},
    happening,
    journal::Journal,
    paint::{Line, Style},
    shell::{Failure, Screen, Shell, Signals},
};

/// How often the picture is drawn: often enough to look alive.
const PICTURE_PERIOD: Duration = Duration::from_millis(100);

/// How long events go on after the upstream is back, beside the longest wait: SQS rounds it up, and an
/// event may have begun to wait just before.
const AFTERMATH: Duration = Duration::from_secs(2);

/// How long after the last event must have ended the demo gives up on those that have not.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long one request for the journal waits for news.
const JOURNAL_WAIT: Duration = Duration::from_secs(30);

/// How a demo went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Every event ended as it should.
    AsItShould,
    /// One or more did not.
    NotAsItShould,
    /// A person ended it.
    Interrupted,
}

/// Plays the demo.
///
/// # Errors
///
/// If it can't be played at all.
pub async fn run(args: &DemoArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let binaries = args.binaries.find()?;
    let play = Play { events: usize::from(args.events), outage: args.outage, seed: args.seed };
    let mut signals = Signals::listen()?;
    let config = Config { inherited: shell.inherited.clone(), ..Config::default() };
    let server =
        comeback_local::start(config).await.map_err(|source| Failure::Port { port: 0, source })?;
    let played = tokio::select! {
        played = perform(&server, &binaries, play, shell) => played,
        () = signals.any() => Ok(Outcome::Interrupted),
    };
    server.stop().await;
    played
}

async fn perform(
    server: &Server,
    binaries: &Binaries,
    play: Play,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let cloud = Cloud::at(server.endpoint());
    let handler = binaries.handler(&play.settings());
    let queues = cloud.deploy(handler, VISIBILITY, &Play::targets(binaries)).await?;
    cloud.pause(PAUSED).await?;
    let began = (shell.now)();
    let cast = play.cast(began);
    let names = cast.iter().map(|role| (role.name.clone(), role.part != Part::Order));
    let stage = Stage {
        story: Story::begin(began, names),
        cast: &cast,
        cloud: &cloud,
        shell,
        upstream_back: later(began, play.outage),
        curtain: later(began, play.max_age() + PATIENCE),
        title: title(play),
        expected: play.outage + MAX_BACKOFF + AFTERMATH,
    };
    let story = stage.play(Journal::of(server.endpoint())).await?;
    close(&cast, play.outage, &story, &cloud, &queues, shell).await
}

fn title(play: Play) -> String {
    let Play { events, outage, seed } = play;
    let plural = if events == 1 { "" } else { "s" };
    format!("{events} event{plural}, upstream down for {} s, seed {seed}", outage.as_secs())
}

/// Looks into the queues, and has the last word.
async fn close(
    cast: &[Role],
    outage: Duration,
    story: &Story,
    cloud: &Cloud,
    queues: &Queues,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let evidence = evidence::gather(cloud, queues).await?;
    let faults = verdict::faults(cast, story, &evidence);
    let lost = cast.iter().filter(|role| role.lost_by_lambda_alone(outage));
    let lost: Vec<_> = lost.map(|role| role.part.name()).collect();
    shell.print(&[Line::default()]).await?;
    shell.print(&summary::summary(story, &evidence, &lost, &faults)).await?;
    if faults.is_empty() {
        shell.print(&summary::next(&evidence)).await?;
    }
    Ok(if faults.is_empty() { Outcome::AsItShould } else { Outcome::NotAsItShould })
}

/// Where the demo is played.
struct Stage<'a> {
    story: Story,
    cast: &'a [Role],
    cloud: &'a Cloud,
    shell: &'a Shell,
    upstream_back: Timestamp,
    /// When it ends, whatever has not.
    curtain: Timestamp,
    title: String,
    expected: Duration,
}

/// Something that the demo itself does at its time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Cue {
    Send(usize),
    UpstreamBack,
    Curtain,
}

impl Stage<'_> {
    /// Plays to the end.
    async fn play(mut self, mut journal: Journal) -> Result<Story, Failure> {
        let mut show = Show::begin(&self).await?;
        let mut ticks = interval(PICTURE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut cues = self.cues().into_iter();
        let mut next = cues.next();
        while let Some((at, cue)) = next {
            if self.story.is_over() {
                break;
            }
            tokio::select! {
                () = sleep(self.shell.until(at)) => {
                    // While it is carried out nothing is observed, so the story knows every event
                    // by its request id before anything happens to it.
                    self.carry_out(cue).await?;
                    next = cues.next();
                }
                entries = journal.next(JOURNAL_WAIT) => {
                    for happening in entries?.iter().filter_map(happening::read) {
                        self.story.observe(&happening);
                        show.news(&self).await?;
                    }
                }
                _ = ticks.tick() => show.picture(&self).await?,
            }
        }
        show.end(&self).await?;
        Ok(self.story)
    }

    /// What is to be done, in order.
    fn cues(&self) -> Vec<(Timestamp, Cue)> {
        let send = |(event, role): (usize, &Role)| {
            (later(self.story.began, role.sent_after), Cue::Send(event))
        };
        let mut cues: Vec<_> = self.cast.iter().enumerate().map(send).collect();
        cues.push((self.upstream_back, Cue::UpstreamBack));
        cues.push((self.curtain, Cue::Curtain));
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
            Cue::UpstreamBack => self.cloud.resume(PAUSED).await?,
            Cue::Curtain => {}
        }
        Ok(())
    }

    fn view(&self) -> View {
        let (width, height) = Screen::size();
        View {
            now: (self.shell.now)(),
            upstream_back: self.upstream_back,
            expected: self.expected,
            width,
            height: Some(height),
        }
    }
}

/// How the story is shown.
enum Show {
    Picture(Screen),
    Lines(Teller),
}

impl Show {
    async fn begin(stage: &Stage<'_>) -> io::Result<Self> {
        if stage.shell.terminal {
            return Screen::take().map(Self::Picture);
        }
        stage.shell.print(&[Line::of(Style::Strong, &stage.title)]).await?;
        stage.shell.print(&frame::introduction("line is one step in an event's life")).await?;
        Ok(Self::Lines(Teller::new(stage.upstream_back)))
    }

    async fn news(&mut self, stage: &Stage<'_>) -> io::Result<()> {
        match self {
            Self::Picture(_) => Ok(()),
            Self::Lines(teller) => {
                stage.shell.print(&teller.news(&stage.story, (stage.shell.now)())).await
            }
        }
    }

    async fn picture(&mut self, stage: &Stage<'_>) -> io::Result<()> {
        match self {
            Self::Picture(screen) => {
                let picture = frame::draw(&stage.story, &stage.title, &stage.view());
                screen.draw(&picture, stage.shell.colour).await
            }
            Self::Lines(_) => self.news(stage).await,
        }
    }

    /// The last picture stays, whole: of the moment when the last event ended, or of now where some
    /// have not.
    async fn end(mut self, stage: &Stage<'_>) -> io::Result<()> {
        self.news(stage).await?;
        let Self::Picture(screen) = self else { return Ok(()) };
        drop(screen);
        let story = &stage.story;
        let now = if story.is_over() { story.last_step_at() } else { (stage.shell.now)() };
        let expected = between(story.began, now);
        let view = View { now, expected, height: None, ..stage.view() };
        stage.shell.print(&frame::draw(story, &stage.title, &view)).await
    }
}
