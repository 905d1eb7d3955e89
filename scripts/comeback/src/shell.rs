//! What a command has around it: a terminal or none, the time, and a person who wants it to end.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use comeback_core::{Timestamp, settings::BadSettings, time::between};
use comeback_local::Inherited;
use tokio::{
    io::AsyncWriteExt,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{binaries::Missing, deploy::CallError, functions::BadFunctions, paint::Line};

/// Where the size of a terminal can't be learnt.
const WIDTH_DEFAULT: usize = 80;
/// As old as terminals.
const HEIGHT_DEFAULT: usize = 24;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A function's binary is not there.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The retry handler would not start.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// The user's functions can't be read.
    #[error(transparent)]
    Functions(#[from] BadFunctions),
    /// The local cloud could not be started.
    #[error("expected to listen on port {port} of 127.0.0.1, got: {source}{}", advice(source))]
    Port {
        /// The port that was asked for.
        port: u16,
        /// Why not.
        source: io::Error,
    },
    /// The local cloud refused a call.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The terminal, or the program at the other end of the pipe, is gone.
    #[error(transparent)]
    Output(#[from] io::Error),
}

fn advice(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::AddrInUse {
        "; another `comeback local` may be running: end it, choose another port with --port N, or any free one with --port 0"
    } else {
        ""
    }
}

/// What a command has around it.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The present.
    pub now: fn() -> Timestamp,
    /// Whether pictures can be drawn in place.
    pub terminal: bool,
    /// Whether text may have colours.
    pub colour: bool,
    /// What functions on the local cloud have of the environment.
    pub inherited: Inherited,
}

impl Shell {
    /// Looks at the standard output, and at `variables`, in which people say what they want of it.
    pub fn look(now: fn() -> Timestamp, variables: impl Fn(&str) -> Option<String>) -> Self {
        Self::judge(now, io::stdout().is_terminal(), variables)
    }

    fn judge(
        now: fn() -> Timestamp,
        is_terminal: bool,
        variables: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let terminal = is_terminal && variables("TERM").is_none_or(|term| term != "dumb");
        // https://no-color.org: any value counts but the empty one.
        let no_colour = variables("NO_COLOR").is_some_and(|value| !value.is_empty());
        let inherited = Inherited::from_lookup(|name| variables(name).map(Into::into));
        Self { now, terminal, colour: terminal && !no_colour, inherited }
    }

    /// How long it is until a moment.
    pub fn until(&self, moment: Timestamp) -> Duration {
        between((self.now)(), moment)
    }

    /// Prints lines at once: who waits for one must not wait for more.
    ///
    /// # Errors
    ///
    /// If nobody reads any more.
    pub async fn print(&self, lines: &[Line]) -> io::Result<()> {
        let mut text = String::new();
        for line in lines {
            text.push_str(&line.paint(self.colour));
            text.push('\n');
        }
        write(&text).await
    }
}

/// Signals by which a person, or a program, ends a command.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// If that can't be done.
    pub fn listen() -> io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for one of them.
    pub async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A picture that is drawn over and over. It has the terminal's second screen, so that whatever was
/// on the first is there again when this is dropped.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    /// To the second screen, without a cursor.
    const ENTER: &str = "\x1b[?1049h\x1b[?25l";
    /// And back.
    const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
    /// To the first column of the first line.
    const HOME: &str = "\x1b[H";
    /// Clears what is behind the end of a line.
    const END_OF_LINE: &str = "\x1b[K";
    /// Clears what is below the picture.
    const END_OF_PICTURE: &str = "\x1b[J";

    /// Takes the screen.
    ///
    /// # Errors
    ///
    /// If the terminal is gone.
    pub fn take() -> io::Result<Self> {
        command(Self::ENTER).map(|()| Self(()))
    }

    /// Columns and lines, which may change at any time.
    pub fn size() -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((WIDTH_DEFAULT, HEIGHT_DEFAULT), |size| {
            (usize::from(size.ws_col), usize::from(size.ws_row))
        })
    }

    /// Draws a picture over the last one.
    ///
    /// # Errors
    ///
    /// If the terminal is gone.
    pub async fn draw(&mut self, lines: &[Line], colour: bool) -> io::Result<()> {
        let lines = lines.iter().map(|line| line.paint(colour) + Self::END_OF_LINE);
        // No line break behind the last one: it would move a full screen up.
        let picture = lines.collect::<Vec<_>>().join("\r\n");
        write(&format!("{}{picture}{}", Self::HOME, Self::END_OF_PICTURE)).await
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It fails only where there is no terminal left to be given back.
        let _ = command(Self::LEAVE);
    }
}

/// Writes, and lets other things happen meanwhile: a pipe that nobody reads may hold this up for ever,
/// and a person must still be able to end the command.
async fn write(text: &str) -> io::Result<()> {
    let mut stdout = tokio::io::stdout();
    stdout.write_all(text.as_bytes()).await?;
    stdout.flush().await
}

/// Tells the terminal what to do.
fn command(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_of_people_who_want_them() {
        let judge = |is_terminal, term: &str, no_colour: Option<&str>| {
            let shell = Shell::judge(Timestamp::default, is_terminal, |name| match name {
                "TERM" => Some(term.to_owned()),
                "NO_COLOR" => no_colour.map(str::to_owned),
                _ => None,
            });
            (shell.terminal, shell.colour)
        };
        assert_eq!(judge(true, "xterm", None), (true, true));
        assert_eq!(judge(true, "xterm", Some("")), (true, true));
        assert_eq!(judge(true, "xterm", Some("1")), (true, false));
        assert_eq!(judge(true, "dumb", None), (false, false));
        assert_eq!(judge(false, "xterm", None), (false, false));
    }

    #[test]
    fn a_port_that_is_in_use_is_told_with_what_to_do() {
        let failure = |kind: io::ErrorKind| Failure::Port { port: 4700, source: kind.into() };
        let in_use = failure(io::ErrorKind::AddrInUse).to_string();
        assert!(in_use.starts_with("expected to listen on port 4700 of 127.0.0.1"), "{in_use}");
        assert!(in_use.ends_with("any free one with --port 0"), "{in_use}");
        let denied = failure(io::ErrorKind::PermissionDenied).to_string();
        assert!(!denied.contains("--port"), "{denied}");
    }
}
