//! The local cloud, killed: no process of its functions is left behind.

use crate::{
    journal::PATIENCE,
    processes,
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
    // Nobody can wait for the children of others: their end shows in /proc.
    let ended = async {
        while children.iter().any(|child| processes::is_running(*child)) {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    assert!(ended.is_ok(), "of {children:?} some still run");
}
