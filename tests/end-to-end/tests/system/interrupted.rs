//! The local cloud, killed: no process of its functions is left behind.

use std::fs;

use rustix::process::Pid;

use crate::{
    journal::PATIENCE,
    retry_loop::{Plan, TARGET},
};

/// The processes of this name that have `ancestor` above them.
pub fn processes_below(ancestor: u32, name: &str) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        if status(pid, "Name").is_some_and(|of| name.starts_with(&of)) && is_below(pid, ancestor) {
            found.extend(Pid::from_raw(pid));
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

/// A line of what the kernel says of a process; the name there is cut to fifteen characters.
fn status(pid: i32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

#[tokio::test]
async fn a_killed_cloud_leaves_no_process_behind() {
    let mut retry_loop = Plan::quick(&[]).deploy().await;
    retry_loop.invoke(r#"{"fail":{"by":"hang"}}"#).await;
    retry_loop.invoke(r#"{"fail":{}}"#).await;
    let mut journal = retry_loop.cloud.journal();
    journal.run(TARGET).await;
    let cloud = retry_loop.cloud.process.id().unwrap();
    let mut children = processes_below(cloud, "retry-handler");
    children.extend(processes_below(cloud, "example-target"));
    assert!(children.len() >= 2, "{children:?}");

    retry_loop.cloud.process.kill().await.unwrap();
    ended(&children).await;
}

/// Kills these processes, and returns when they do nothing more.
pub async fn kill(processes: &[Pid]) {
    for process in processes {
        rustix::process::kill_process(*process, rustix::process::Signal::KILL).unwrap();
    }
    ended(processes).await;
}

/// Nobody can wait for the children of others: their end shows in /proc.
async fn ended(processes: &[Pid]) {
    let ended = async {
        while processes.iter().any(|process| is_running(process.as_raw_pid())) {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    assert!(ended.is_ok(), "of {processes:?} some still run");
}

fn is_running(pid: i32) -> bool {
    status(pid, "State").is_some_and(|state| !state.starts_with('Z'))
}
