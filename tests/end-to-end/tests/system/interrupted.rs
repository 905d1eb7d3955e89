//! The local cloud is killed: no process of its functions remains.

use crate::{
    journal::PATIENCE,
    processes::{self, Pid},
    retry_loop::{Plan, TARGET},
};

#[tokio::test]
async fn no_process_of_a_function_outlives_a_killed_cloud() {
    let mut retry_loop = Plan::quick(&[]).deploy().await;
    retry_loop.invoke(r#"{"fail":{"by":"hang"}}"#).await;
    retry_loop.invoke(r#"{"fail":{}}"#).await;
    let mut journal = retry_loop.cloud.journal();
    journal.run(TARGET).await;
    let cloud = retry_loop.cloud.process.id().unwrap();
    let mut children = retry_loop.handlers();
    children.extend(processes::descendants(cloud, "example-target"));
    assert!(children.len() >= 2, "{children:?}");

    retry_loop.cloud.process.kill().await.unwrap();
    ended(&children).await;
}

pub async fn kill(processes: &[Pid]) {
    assert!(processes.iter().copied().all(processes::kill));
    ended(processes).await;
}

/// Waits until processes have ended. They are not children of this one, so only /proc shows that.
async fn ended(processes: &[Pid]) {
    let ended = async {
        while processes.iter().any(|process| processes::is_running(*process)) {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    assert!(ended.is_ok(), "some of {processes:?} still run");
}
