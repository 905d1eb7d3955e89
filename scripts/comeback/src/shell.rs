//! The environment of a command: the terminal, the clock, environment variables and signals.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use comeback_core::Timestamp;
use comeback_local::Inherited;
use dialoguer::Confirm;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use tokio::{
    io::AsyncWriteExt,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    failure::Failure,
    notice::{Notice, Tone},
    paint::{self, Line, Style},
    text::number,
};

/// The exit code that a shell reports for a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// The width to assume if the terminal doesn't report its size.
const WIDTH_DEFAULT: usize = 80;
const HEIGHT_DEFAULT: usize = 24;
const TICK: Duration = Duration::from_millis(100);

/// The result of a command that ran without an error. It determines the exit code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    Success,
    /// The command found a problem, or did not do everything that was asked.
    Unsuccessful,
    Interrupted,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::SUCCESS,
            Outcome::Unsuccessful => Self::FAILURE,
            Outcome::Interrupted => Self::from(INTERRUPTED),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Shell {
    pub now: fn() -> Timestamp,
    /// Whether standard output is a terminal that supports escape sequences.
    pub terminal: bool,
    pub colour: bool,
    /// The program as a person types it here, such as `comeback` or `target/release/comeback`.
    pub program: String,
    pub inherited: Inherited,
}

impl Shell {
    /// Judges the environment by the environment variables, by whether standard output is a terminal, and by how the
    /// program was started.
    pub fn of(
        now: fn() -> Timestamp,
        is_terminal: bool,
        program: String,
        variables: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let terminal = is_terminal && variables("TERM").is_none_or(|term| term != "dumb");
        // https://no-color.org: an empty value does not count.
        let no_colour = variables("NO_COLOR").is_some_and(|value| !value.is_empty());
        let inherited = Inherited::from_lookup(|name| variables(name).map(Into::into));
        Self { now, terminal, colour: terminal && !no_colour, program, inherited }
    }

    pub async fn print(&self, lines: &[Line]) -> io::Result<()> {
        let mut text = String::new();
        let width = if self.terminal { Screen::size().0 } else { usize::MAX };
        for line in lines.iter().flat_map(|line| line.wrapped(width)) {
            text.push_str(&line.paint(self.colour));
            text.push('\n');
        }
        write(&text).await
    }

    /// The width of the terminal in columns, or None if standard output is not a terminal.
    pub fn width(&self) -> Option<usize> {
        self.terminal.then(|| Screen::size().0)
    }

    pub async fn print_notices(&self, notices: &[Notice]) -> io::Result<()> {
        let line = |Notice { tone, text }: &Notice| match tone {
            Tone::Good => Line::of(Style::Good, "✓ ").and(Style::Plain, text),
            Tone::Plain => Line::of(Style::Plain, format!("  {text}")),
            Tone::Faint => Line::of(Style::Faint, format!("  {text}")),
            Tone::Warning => Line::of(Style::GivenUp, "! ").and(Style::Plain, text),
            Tone::Bad => Line::of(Style::Bad, "✗ ").and(Style::Plain, text),
        };
        self.print(&notices.iter().map(line).collect::<Vec<_>>()).await
    }

    pub async fn print_json(&self, value: &impl serde::Serialize) -> io::Result<()> {
        write(&(paint::json(value)? + "\n")).await
    }
}

/// How to start the program again from this folder. A shell finds a name without a slash by itself.
pub fn program(started: &Path, folder: &Path) -> String {
    let here = started.strip_prefix(folder).ok().filter(|_| started.is_absolute());
    match here.map(|path| path.display().to_string()) {
        Some(path) if path.contains('/') => path,
        Some(path) => format!("./{path}"),
        None => started.display().to_string(),
    }
}

/// The signals that end a command: SIGINT and SIGTERM.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    pub async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Returns a function that is true until the first SIGINT or SIGTERM. The second signal ends the program.
pub fn uninterrupted() -> io::Result<impl Fn() -> bool> {
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::listen()?;
    let set = Arc::clone(&flag);
    tokio::spawn(async move {
        signals.any().await;
        set.store(true, Ordering::Relaxed);
        signals.any().await;
        std::process::exit(INTERRUPTED.into());
    });
    Ok(move || !flag.load(Ordering::Relaxed))
}

/// A progress bar on standard error, if that is a terminal.
pub fn progress(length: u64, what: &str) -> ProgressBar {
    let template = "{wide_bar} {human_pos}/{human_len} {msg}, {rate}{left}";
    drawn(ProgressBar::new(length), template, what)
}

/// How long the rest takes, once that can be known from what is done.
fn left(done: u64, of: u64, rest: Duration) -> String {
    if done == 0 || done >= of {
        String::new()
    } else {
        format!(", {:#} left", HumanDuration(rest))
    }
}

/// A counter of items read, on standard error if that is a terminal.
pub fn spinner(what: &str) -> ProgressBar {
    drawn(ProgressBar::no_length(), "{spinner} {human_pos} {msg}, {rate}", what)
}

/// Starts to draw a bar. The bar hides itself if standard error is not a terminal.
fn drawn(bar: ProgressBar, template: &str, what: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        let left = |state: &ProgressState, text: &mut dyn fmt::Write| {
            let _ =
                text.write_str(&left(state.pos(), state.len().unwrap_or_default(), state.eta()));
        };
        let rate = |state: &ProgressState, text: &mut dyn fmt::Write| {
            let _ = write!(text, "{}/s", number(state.per_sec()));
        };
        bar.set_style(style.with_key("left", left).with_key("rate", rate));
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}

pub fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err("there is no terminal to ask on: add --yes. Nothing was changed".into());
    }
    match Confirm::new().with_prompt(question).default(false).interact_opt() {
        Ok(Some(true)) => Ok(()),
        Ok(Some(false) | None) | Err(_) => Err("nothing was changed".into()),
    }
}

/// The alternate screen of the terminal, for output that is redrawn. Dropping it restores the normal screen.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    const ENTER: &str = "\x1b[?1049h\x1b[?25l";
    /// Shows the cursor and switches back.
    const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
    const HOME: &str = "\x1b[H";
    const CLEAR_LINE: &str = "\x1b[K";
    const CLEAR_BELOW: &str = "\x1b[J";

    pub fn take() -> io::Result<Self> {
        command(Self::ENTER).map(|()| Self(()))
    }

    /// The columns and lines of the terminal, which may change at any time.
    pub fn size() -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((WIDTH_DEFAULT, HEIGHT_DEFAULT), |size| {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        })
    }

    pub async fn draw(&mut self, lines: &[Line], colour: bool) -> io::Result<()> {
        let lines = lines.iter().map(|line| line.paint(colour) + Self::CLEAR_LINE);
        // No line break after the last line: it would scroll a full screen.
        let picture = lines.collect::<Vec<_>>().join("\r\n");
        write(&format!("{}{picture}{}", Self::HOME, Self::CLEAR_BELOW)).await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the write fails, the terminal is gone, so there is nothing to restore.
        let _ = command(Self::LEAVE);
    }
}

/// Writes without blocking the thread. A write into a full pipe may block forever, and Ctrl-C must still work.
async fn write(text: &str) -> io::Result<()> {
    let mut stdout = tokio::io::stdout();
    stdout.write_all(text.as_bytes()).await?;
    stdout.flush().await
}

fn command(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_colours_unless_no_color_is_set() {
        let judge = |is_terminal, term: &str, no_colour: Option<&str>| {
            let variables = |name: &str| match name {
                "TERM" => Some(term.to_owned()),
                "NO_COLOR" => no_colour.map(str::to_owned),
                _ => None,
            };
            let shell = Shell::of(Timestamp::default, is_terminal, String::new(), variables);
            (shell.terminal, shell.colour)
        };
        assert_eq!(judge(true, "xterm", None), (true, true));
        assert_eq!(judge(true, "xterm", Some("")), (true, true));
        assert_eq!(judge(true, "xterm", Some("1")), (true, false));
        assert_eq!(judge(true, "dumb", None), (false, false));
        assert_eq!(judge(false, "xterm", None), (false, false));
    }

    #[test]
    fn a_program_that_no_shell_finds_by_its_name_is_typed_with_its_path() {
        for (started, expected) in [
            ("comeback", "comeback"),
            ("./comeback", "./comeback"),
            ("/home/me/comeback/target/release/comeback", "target/release/comeback"),
            ("/home/me/comeback/comeback", "./comeback"),
            ("/tmp/comeback", "/tmp/comeback"),
        ] {
            assert_eq!(program(Path::new(started), Path::new("/home/me/comeback")), expected);
        }
    }

    #[test]
    fn the_time_that_is_left_is_shown_once_something_is_done() {
        let minute = Duration::from_mins(1);
        assert_eq!((left(0, 96, Duration::ZERO), left(96, 96, minute)), <_>::default());
        assert_eq!(left(1, 96, minute), ", 60s left");
    }
}
