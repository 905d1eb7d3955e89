//! Environments that Lambda stops between two events, while others close their connections.

use std::fs;

use crate::{
    cloud,
    other_languages::{Code, REQUIREMENTS, python},
    processes::{Pid, stopped},
    retry_loop::{HANDLER, Plan, TARGET},
    servers::Proxy,
};

/// The function keeps a connection from one event to the next, and fails if it finds the connection closed.
const KEEPS_A_CONNECTION: &str = r#"
import http.client, os

upstream = http.client.HTTPConnection(os.environ["UPSTREAM"])

def handler(event, context):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{os.getpid()}\n")
    upstream.request("GET", "/_local/health")
    upstream.getresponse().read()
    if event.get("id") == 1:
        raise ConnectionError("the upstream is down")
"#;

#[tokio::test]
async fn events_come_back_through_frozen_processes_whose_connections_were_closed_meanwhile() {
    let code = Code::new("keeps.py", KEEPS_A_CONNECTION);
    let proxy = Proxy::hanging().await;
    let client = python(REQUIREMENTS).display().to_string();
    let command = cloud::command([client.as_str(), "-m", "awslambdaric", "keeps.handler"]);
    let (notes, folder) = (code.notes(), code.folder());
    let upstream = proxy.endpoint.trim_start_matches("http://");
    let environment = [("NOTES", &*notes), ("PYTHONPATH", &folder), ("UPSTREAM", upstream)];
    let plan = Plan::quick(&[("AWS_ENDPOINT_URL", &proxy.endpoint)]);
    let plan = Plan { freeze: true, ..plan.with_target(command, &environment) };
    let retry_loop = plan.deploy().await;
    let mut journal = retry_loop.cloud.journal();
    let targets = || -> Vec<Pid> {
        let noted = fs::read_to_string(&notes).unwrap();
        let pids: std::collections::BTreeSet<i32> =
            noted.lines().map(|pid| pid.parse().unwrap()).collect();
        pids.into_iter().filter_map(Pid::from_raw).collect()
    };
    let mut handlers = Vec::new();
    for id in 1..=3 {
        // This closes all connections.
        proxy.release(&retry_loop.cloud.endpoint);
        retry_loop.invoke(&format!(r#"{{"id":{id}}}"#)).await;
        let endings = journal.runs(TARGET).await.map(|run| run.ending);
        // The first event fails by itself, the others because the function's connection was closed.
        assert_eq!(endings, ["Failed", "Succeeded"], "event {id}");
        stopped(&targets()).await;
        let now = retry_loop.handlers();
        stopped(&now).await;
        if id > 1 {
            assert_eq!(now, handlers, "the same processes");
        }
        handlers = now;
    }
    assert_eq!(targets().len(), 1, "one process ran all events");
    let mut journal = retry_loop.cloud.journal();
    for _ in 1..=3 {
        assert_eq!(journal.run(HANDLER).await.ending, "Succeeded");
    }
    assert_eq!(retry_loop.settled(&mut retry_loop.cloud.journal()).await, (0, 0));
}
