//! Guards one function's process, so that no child is left behind, even if the local cloud is killed.
//!
//! The local cloud doesn't start a function itself. It starts its own executable again with [`WARDEN`] as the first
//! argument. That process, the warden, starts the function in its own process group and watches it. The warden's
//! standard input is a pipe from the local cloud. When the pipe is closed, because the local cloud ends the function or
//! is dead, the warden kills the whole group. The bytes that the local cloud writes to it are [`FREEZE`] and [`THAW`].
//! On each, the warden sends a signal to the group. When the function exits by itself, the warden kills the rest of the
//! group, and exits with the same status or signal.
//!
//! The warden has its own process group as well, so that Ctrl-C at a terminal reaches neither of them. A child that
//! leaves its process group is not killed.

use std::{
    ffi::OsString,
    io::Read as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    thread,
};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group, waitid,
};

pub const WARDEN: &str = "__warden";

pub(super) const FREEZE: u8 = b'f';
pub(super) const THAW: u8 = b'c';

/// The exit status if the command can't be started, as in a shell.
const NOT_STARTED: u8 = 127;

/// Starts the command `args`, and guards it until it ends. A program that [`start`](crate::start)s a local cloud must
/// begin its `main` with this: if its first argument is [`WARDEN`], call this with the remaining arguments.
pub fn warden(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let Some(program) = args.next() else {
        eprintln!("there is no command to start");
        return ExitCode::from(NOT_STARTED);
    };
    let started = Command::new(&program).args(args).stdin(Stdio::null()).process_group(0).spawn();
    match started {
        Ok(child) => guard(child),
        Err(error) => {
            eprintln!("{} can't be started: {error}", program.display());
            ExitCode::from(NOT_STARTED)
        }
    }
}

fn guard(mut child: Child) -> ExitCode {
    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return ExitCode::from(NOT_STARTED);
    };
    thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1) = std::io::stdin().read(&mut byte) {
            match byte {
                [FREEZE] => signal_group(group, Signal::STOP),
                [THAW] => signal_group(group, Signal::CONT),
                _ => {}
            }
        }
        signal_group(group, Signal::KILL);
    });
    // The process stays a zombie until its group is killed, so that no other group can get its id.
    while waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .is_err_and(|error| error == rustix::io::Errno::INTR)
    {}
    signal_group(group, Signal::KILL);
    match child.wait() {
        Ok(status) => exit_like(status),
        Err(_) => ExitCode::from(NOT_STARTED),
    }
}

fn signal_group(group: Pid, signal: Signal) {
    // This fails if the group has no processes left, which is fine.
    let _ = kill_process_group(group, signal);
}

fn exit_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal().and_then(Signal::from_named_raw) {
        let _ = kill_process(getpid(), signal);
    }
    // A signal that doesn't end this process is reported as in a shell.
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
