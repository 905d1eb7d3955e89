//! The processes of this machine, from /proc.

use std::fs;

pub use rustix::process::Pid;
use rustix::process::{Signal, kill_process};

use crate::journal::PATIENCE;

/// The descendants of `ancestor` with this name that run.
pub fn descendants(ancestor: u32, name: &str) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        if status(pid, "Name").is_some_and(|of| name.starts_with(&of)) && is_below(pid, ancestor) {
            found.extend(Pid::from_raw(pid).filter(|pid| is_running(*pid)));
        }
    }
    found
}

fn is_below(mut pid: i32, ancestor: u32) -> bool {
    while let Some(parent) = status(pid, "PPid").and_then(|parent| parent.parse().ok()) {
        if u32::try_from(parent) == Ok(ancestor) {
            return true;
        }
        pid = parent;
    }
    false
}

/// Whether a process runs. A zombie does not.
fn is_running(pid: Pid) -> bool {
    status(pid.as_raw_pid(), "State").is_some_and(|state| !state.starts_with('Z'))
}

/// The resident memory of a process in KiB, or `None` if it has ended.
pub fn resident_kib(pid: Pid) -> Option<u64> {
    status(pid.as_raw_pid(), "VmRSS")?.split_whitespace().next()?.parse().ok()
}

/// Kills a process with SIGKILL. Returns whether it was still there.
pub fn kill(pid: Pid) -> bool {
    kill_process(pid, Signal::KILL).is_ok()
}

/// Kills these processes and waits until they have ended. They are not children of this one, so only /proc shows that.
/// One of them may have ended by itself.
pub async fn kill_all(processes: &[Pid]) {
    for process in processes {
        kill(*process);
    }
    let ended = async {
        while processes.iter().any(|process| is_running(*process)) {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    assert!(ended.is_ok(), "some of {processes:?} still run");
}

/// Waits until these processes are stopped.
pub async fn stopped(processes: &[Pid]) {
    let is_stopped = |process: &Pid| {
        status(process.as_raw_pid(), "State").is_some_and(|state| state.starts_with('T'))
    };
    let stopped = async {
        while !processes.iter().all(is_stopped) {
            tokio::task::yield_now().await;
        }
    };
    let stopped = tokio::time::timeout(PATIENCE, stopped).await;
    assert!(stopped.is_ok(), "some of {processes:?} are not stopped");
}

/// A field of /proc/PID/status. The kernel cuts names to fifteen characters.
fn status(pid: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}
