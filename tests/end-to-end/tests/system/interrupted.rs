//! The local cloud, killed: no process of its functions is left behind.

use crate::{
    journal::PATIENCE,
    processes::{self, Pid},
    retry_loop::{Plan, TARGET},
};

#[tokio::test]
async fn a_killed_cloud_leaves_no_process_behind() {
    let mut retry_loop = Plan::quick(&[]).deploy().await;
    retry_loop.invoke(r#"{"fail":{"by":"hang"}}"#).await;
    retry_loop.invoke(r#"{"fail":{}}"#).await;
    let mut journal = retry_loop.cloud.journal();
    journal.run(TARGET).await;
    let cloud = retry_loop.cloud.process.id().unwrap();
    let mut children = processes::below(cloud, "retry-handler");
    children.extend(processes::below(cloud, "example-target"));
    assert!(children.len() >= 2, "{children:?}");

    retry_loop.cloud.process.kill().await.unwrap();
    ended(&children).await;
}

/// Kills these processes, and returns when they do nothing more.
pub async fn kill(processes: &[Pid]) {
    assert!(processes.iter().copied().all(processes::kill));
    ended(processes).await;
}

/// Nobody can wait for the children of others: their end shows in /proc.
async fn ended(processes: &[Pid]) {
    let ended = async {
        while processes.iter().any(|process| processes::is_running(*process)) {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    assert!(ended.is_ok(), "of {processes:?} some still run");
}
