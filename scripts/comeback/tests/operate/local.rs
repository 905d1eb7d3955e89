//! `comeback local`: the user's own functions, the journal, and the last line.

use std::{
    fs,
    io::{BufReader, Lines},
    path::{Path, PathBuf},
    process::{ChildStdout, Command},
    sync::mpsc,
    thread,
};

use aws_sdk_lambda::primitives::Blob;

use crate::support::{Cloud, PATIENCE, example_target};

struct Local {
    cloud: Cloud,
    lines: Lines<BufReader<ChildStdout>>,
    /// The lines before the journal.
    opening: Vec<String>,
}

impl Local {
    fn start(arguments: &[&str]) -> Self {
        let (cloud, opening, lines) = Cloud::launch(arguments);
        Self { cloud, lines, opening }
    }

    async fn invoke(&self, function: &str, payload: &str) {
        let call = self.cloud.client.lambda.invoke().function_name(function);
        let answer = call.payload(Blob::new(payload)).send().await.unwrap();
        assert_eq!(answer.function_error, None, "{answer:?}");
    }

    /// The lines of the journal up to the first one that contains `last`.
    fn journal(&mut self, last: &str) -> Vec<String> {
        let mut journal = Vec::new();
        while !journal.last().is_some_and(|line: &String| line.contains(last)) {
            journal.push(self.lines.next().unwrap_or_else(|| panic!("{last}")).unwrap());
        }
        journal
    }

    /// Sends SIGINT, as Ctrl-C does, and returns the last line of output.
    fn interrupt(mut self) -> String {
        let pid = self.cloud.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let last = self.lines.by_ref().last().unwrap().unwrap();
        assert!(self.cloud.process.wait().unwrap().success());
        last
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn own_functions_are_retried_and_deployed_again_after_a_restart() {
    let folder = folder("given");
    fs::create_dir(folder.join("later")).unwrap();
    fs::copy(example_target(), folder.join("later/bootstrap")).unwrap();
    let file = folder.join("functions.json");
    fs::write(&file, r#"{"later": {"code": "later", "timeout": 9}}"#).unwrap();
    let orders = format!("orders={}", example_target().display());
    let arguments = [
        "--function",
        &orders,
        "--functions",
        file.to_str().unwrap(),
        "--set",
        r#"POLICIES={"later":{"BASE_BACKOFF":"1h"}}"#,
    ];

    let mut local = Local::start(&arguments);
    local.cloud.client.invoke("orders", r#"{"id":"1","fail":{"attempts":1}}"#).await.unwrap();
    let journal = local.journal("attempt 1 succeeds");
    let at = |words: &str| journal.iter().position(|line| line.contains(words));
    let steps = ["the first run fails", "was retried as attempt 1", "attempt 1 begins"].map(at);
    assert!(steps.is_sorted() && steps.iter().all(Option::is_some), "{journal:#?}");
    local.cloud.client.invoke("later", r#"{"id":"2","fail":{}}"#).await.unwrap();
    local.journal("for attempt 1, due");
    assert_eq!(local.interrupt(), "1 event is discarded: 1 in the queue retry-later.");

    let local = Local::start(&arguments);
    let named = |name: &str| local.opening.iter().any(|line| line.ends_with(name));
    for part in
        [" orders, your own", " later, your own", "/retry-later", "/dead-letters", "\"1h\"}}"]
    {
        assert!(named(part), "{part}: {:#?}", local.opening);
    }
    local.invoke("orders", r#"{"id":"3"}"#).await;
    let later = local.cloud.client.lambda.get_function_configuration().function_name("later");
    assert_eq!(later.send().await.unwrap().timeout, Some(9));
    assert_eq!(local.interrupt(), "No event was waiting, so none is discarded.");
}

#[tokio::test]
async fn messages_of_a_queue_come_back_to_their_consumer() {
    // It ends before it takes an event.
    let consumed = ["--function", "importer=false", "--queue", "imports=importer"];
    let mut local = Local::start(&[&consumed[..], &["--queue", "mails"]].concat());
    let url = |name: &str| {
        let facts = local.opening.iter().flat_map(|line| line.split_whitespace());
        let mut urls = facts.map(|word| word.trim_end_matches(','));
        urls.find(|word| word.ends_with(&format!("/{name}"))).unwrap().to_owned()
    };
    let (imports, mails) = (url("imports"), url("mails"));
    let to_try = format!("    --queue-url {mails} \\");
    assert!(local.opening.contains(&to_try), "{:#?}", local.opening);
    let widest = local.opening.iter().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{:#?}", local.opening);
    let sqs = local.cloud.client.sqs.clone();
    sqs.send_message().queue_url(&imports).message_body("1").send().await.unwrap();
    let journal = local.journal("was retried as attempt 1").join("\n");
    assert!(journal.contains("the first run does not start"), "{journal}");
    local.journal("attempt 1 does not start");
    // A program that receives a message and doesn't delete it.
    sqs.send_message().queue_url(&mails).message_body("2").send().await.unwrap();
    let receive = || sqs.receive_message().queue_url(&mails).wait_time_seconds(20).send();
    let first = receive().await.unwrap().messages.unwrap().remove(0);
    let again = receive().await.unwrap().messages.unwrap().remove(0);
    assert_ne!(again.message_id, first.message_id);
}

#[tokio::test]
async fn an_event_of_a_function_without_a_destination_is_reported_lost() {
    let mut local = Local::start(&["--empty"]);
    local.cloud.create("mine").await;
    // With Lambda's own retries, this would take minutes.
    let set = local.cloud.client.lambda.put_function_event_invoke_config().function_name("mine");
    set.maximum_retry_attempts(0).send().await.unwrap();
    local.cloud.client.invoke("mine", r#"{"id":"1","fail":{}}"#).await.unwrap();
    local.journal("is lost after its last run: mine has no on-failure destination");
    assert_eq!(local.interrupt(), "No event was waiting, so none is discarded.");
}

#[tokio::test]
async fn an_idle_process_ends_to_make_room_for_another_function() {
    let folder = folder("room");
    // A process keeps the pipe of its function open until it ends.
    fs::write(folder.join("held.sh"), "exec 3>\"$1\"\nexec \"$2\"\n").unwrap();
    let (ended, ends) = mpsc::channel();
    let mut arguments = vec!["--max-processes".to_owned(), "2".to_owned()];
    for name in ["first", "second", "third"] {
        let pipe = folder.join(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let (script, target) = (folder.join("held.sh"), example_target());
        let code = [&script, &pipe, &target].map(|path| path.display().to_string()).join(" ");
        arguments.extend(["--function".to_owned(), format!("{name}=sh {code}")]);
        let ended = ended.clone();
        thread::spawn(move || {
            fs::read(pipe).unwrap();
            // Fails after the end of the test, when the receiver is gone.
            let _ = ended.send(name);
        });
    }
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let local = Local::start(&arguments);
    for name in ["first", "second", "third"] {
        local.invoke(name, r#"{"id":"1"}"#).await;
    }
    assert_eq!(ends.recv_timeout(PATIENCE), Ok("first"));
    // The other processes are still running.
    assert!(ends.try_recv().is_err());
    local.interrupt();
}
