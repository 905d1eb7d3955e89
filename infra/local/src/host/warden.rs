//! The guard of one function's process: no child is left behind, whatever becomes of the local
//! cloud.
//!
//! The local cloud doesn't start a function itself. It starts its own executable once more with
//! [`WARDEN`] as the first argument; that starts the function in a process group of its own and then
//! only watches. Its standard input is a pipe whose other end the local cloud holds: its end means
//! that the local cloud let go of the function, or is gone itself, be it by SIGKILL. Then the whole
//! group is killed. The only thing that is ever written to it is [`TERMINATE`], which asks the group
//! to end. When the function ends by itself, what it started is
//! killed too, and the warden ends as the function did, by the same status or the same signal.
//!
//! The warden has a process group of its own as well, so that Ctrl-C at a terminal reaches neither
//! of them: the local cloud ends them in its own time. A process that leaves its group escapes.

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

/// The first argument of a program that is to be a warden.
pub const WARDEN: &str = "__warden";

/// What is written to a warden's standard input so that SIGTERM is sent to what it guards.
pub(super) const TERMINATE: u8 = b't';

/// What a shell answers where a command can't be started.
const NOT_STARTED: u8 = 127;

/// Starts the command that `args` are, and guards it to its end. To be called first thing in the
/// `main` of a program that [`start`](crate::start)s a local cloud, when its first argument is
/// [`WARDEN`], with the arguments behind that.
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
        let mut asked = [0];
        while let Ok(1) = std::io::stdin().read(&mut asked) {
            if asked == [TERMINATE] {
                signal_group(group, Signal::TERM);
            }
        }
        signal_group(group, Signal::KILL);
    });
    // The process is only looked at, and stays a zombie until its group is killed: as long as it is
    // one, no other group can have its number.
    while waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .is_err_and(|error| error == rustix::io::Errno::INTR)
    {}
    signal_group(group, Signal::KILL);
    match child.wait() {
        Ok(status) => end_as(status),
        Err(_) => ExitCode::from(NOT_STARTED),
    }
}

fn signal_group(group: Pid, signal: Signal) {
    // It fails where no process of the group is left, which is what is wanted.
    let _ = kill_process_group(group, signal);
}

/// Ends this process as its child did.
fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal().and_then(Signal::from_named_raw) {
        let _ = kill_process(getpid(), signal);
    }
    // A signal that doesn't end this process is told as a shell would.
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
}
