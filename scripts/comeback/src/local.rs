//! `comeback local`: SQS and Lambda on this machine, with the retry loop deployed in them.

use std::time::Duration;

use comeback_local::{Config, Server, journal::Watch, model::REGION};

use crate::{
    args::LocalArgs,
    binaries::Binaries,
    deploy::{Cloud, HANDLER, Queues, Target},
    happening,
    log::Log,
    paint::{Line, Style},
    settings::{self, Setting},
    shell::{Failure, Shell, Signals},
};

/// The function to try it with.
const TARGET: &str = "example-target";

/// The time-out that Lambda gives a function by default.
const TARGET_TIMEOUT: Duration = Duration::from_secs(3);

/// Longer commands are broken into lines.
const WIDTH_MAX: usize = 100;

/// Keeps the local cloud running until a person ends it.
///
/// # Errors
///
/// If it can't be started, or the retry loop not be deployed.
pub async fn run(args: &LocalArgs, shell: &Shell) -> Result<(), Failure> {
    settings::check(&args.set)?;
    let binaries = if args.empty { None } else { Some(args.functions.binaries()?) };
    let mut signals = Signals::listen()?;
    let inherited = shell.inherited.clone();
    let config = Config { port: args.port, inherited, ..Config::default() };
    let server = comeback_local::start(config)
        .await
        .map_err(|source| Failure::Port { port: args.port, source })?;
    let watch = server.watch();
    let served = tokio::select! {
        served = serve(&server, watch, binaries.as_ref(), &args.set, shell) => served,
        () = signals.any() => Ok(()),
    };
    server.stop().await;
    served
}

/// Deploys, says what there is, and tells what happens for ever.
async fn serve(
    server: &Server,
    mut watch: Watch,
    binaries: Option<&Binaries>,
    settings: &[Setting],
    shell: &Shell,
) -> Result<(), Failure> {
    let endpoint = server.endpoint();
    shell.print(&heading(endpoint)).await?;
    if let Some(binaries) = binaries {
        let target = Target { name: TARGET.to_owned(), timeout: TARGET_TIMEOUT };
        let queues = Cloud::at(endpoint).deploy(binaries, settings, &[target]).await?;
        shell.print(&deployed(&queues, settings)).await?;
        shell.print(&to_try(endpoint, &queues)).await?;
    } else {
        shell.print(&access(endpoint)).await?;
    }
    shell.print(&[Line::of(Style::Faint, "What happens, until Ctrl-C:")]).await?;
    let mut log = Log::default();
    loop {
        let entries = watch.next().await;
        let happenings = entries.iter().filter_map(|entry| happening::read(&entry.event));
        let lines: Vec<_> = happenings.flat_map(|happening| log.lines(&happening)).collect();
        shell.print(&lines).await?;
    }
}

fn heading(endpoint: &str) -> Vec<Line> {
    let line = Line::of(Style::Strong, endpoint);
    vec![
        line.and(Style::Plain, " is SQS and Lambda on this machine, for trying and for testing."),
        Line::default(),
    ]
}

fn deployed(queues: &Queues, given: &[Setting]) -> Vec<Line> {
    let settings: Vec<_> = given.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let settings = match settings.as_slice() {
        [] => "its own defaults".to_owned(),
        settings => settings.join(" "),
    };
    let fact = |name: &str, what: &str| {
        Line::of(Style::Plain, format!("  {name:<18}")).and(Style::Plain, what)
    };
    vec![
        fact("target", &format!("{TARGET}, which fails as its payload says")),
        fact("retry queue", &queues.retry),
        fact("handler", &format!("{HANDLER}, with {settings}")),
        fact("dead-letter queue", &queues.dead_letter),
        Line::default(),
    ]
}

/// What any AWS client needs to come here.
fn access(endpoint: &str) -> Vec<Line> {
    vec![
        Line::of(Style::Faint, "# in another terminal; any credentials are good"),
        Line::of(Style::Plain, format!("export AWS_ENDPOINT_URL={endpoint}")),
        Line::of(Style::Plain, format!("export AWS_REGION={REGION} AWS_DEFAULT_REGION={REGION}")),
        Line::of(Style::Plain, "export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local"),
        Line::default(),
    ]
}

fn to_try(endpoint: &str, queues: &Queues) -> Vec<Line> {
    // `fileb://` is read as it is by both versions of the AWS CLI.
    let invoke = |payload: &str| {
        [
            format!("echo '{payload}' |"),
            format!("aws lambda invoke --function-name {TARGET} --invocation-type Event"),
            "--payload fileb:///dev/stdin /dev/null".to_owned(),
        ]
    };
    // For SQS, version 1 of the AWS CLI ignores the endpoint in the environment.
    let sqs = |what: &str, queue: &str, options: &str| {
        let queue = format!("--endpoint-url $AWS_ENDPOINT_URL --queue-url {queue}");
        [format!("aws sqs {what}"), queue, options.to_owned()]
    };
    let lambda = |what: &str, options: &str| {
        [format!("aws lambda {what}"), format!("--function-name {TARGET}"), options.to_owned()]
    };
    let counts =
        "--attribute-names ApproximateNumberOfMessages ApproximateNumberOfMessagesNotVisible";
    let whole = "--max-number-of-messages 10 --message-attribute-names All";
    let mut lines = access(endpoint);
    for (what, command) in [
        (
            "an event that fails three times, and succeeds at attempt 3",
            invoke(r#"{"id":"order-1","fail":{"attempts":3}}"#),
        ),
        (
            "an event that is given up at once",
            invoke(r#"{"id":"order-2","fail":{"error":"PermanentFailure"}}"#),
        ),
        ("how many events wait", sqs("get-queue-attributes", &queues.retry, counts)),
        ("the dead letters, and why", sqs("receive-message", &queues.dead_letter, whole)),
        (
            "pause the function: its events wait in the retry queue",
            lambda("put-function-concurrency", "--reserved-concurrent-executions 0"),
        ),
        ("and go on", lambda("delete-function-concurrency", "")),
    ] {
        lines.push(Line::of(Style::Faint, format!("# {what}")));
        lines.extend(broken(&command));
    }
    lines.push(Line::default());
    lines
}

/// A command in lines that a person can read, and a shell takes as one.
fn broken(parts: &[String]) -> Vec<Line> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.len() + part.len() < WIDTH_MAX => *line = format!("{line} {part}"),
            Some(line) => {
                line.push_str(" \\");
                lines.push(format!("    {part}"));
            }
            None => lines.push(part.clone()),
        }
    }
    lines.iter().map(|line| Line::of(Style::Plain, line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = "http://127.0.0.1:4700";

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| line.paint(false) + "\n").collect()
    }

    fn queues() -> Queues {
        let url = |name| format!("{ENDPOINT}/000000000000/{name}");
        Queues { retry: url("retry"), dead_letter: url("dead-letters") }
    }

    #[test]
    fn the_endpoint_is_the_first_word() {
        assert!(text(&heading(ENDPOINT)).starts_with("http://127.0.0.1:4700 is"));
    }

    #[test]
    fn what_is_deployed_is_said_with_its_settings() {
        let with = |given: &[(&str, &str)]| {
            let given: Vec<_> = given.iter().map(|&(n, v)| (n.to_owned(), v.to_owned())).collect();
            text(&deployed(&queues(), &given))
        };
        assert!(with(&[]).contains("retry-handler, with its own defaults\n"));
        let given = with(&[("JITTER", "none"), ("MAX_AGE", "1h")]);
        assert!(given.contains("retry-handler, with JITTER=none MAX_AGE=1h\n"), "{given}");
        assert!(
            given.contains("dead-letter queue http://127.0.0.1:4700/000000000000/dead-letters")
        );
    }

    #[test]
    fn the_lines_to_try_name_this_endpoint_and_these_queues() {
        let lines = text(&to_try(ENDPOINT, &queues()));
        let whole = lines.replace(" \\\n   ", "");
        for part in [
            "export AWS_ENDPOINT_URL=http://127.0.0.1:4700\n",
            "echo '{\"id\":\"order-1\",\"fail\":{\"attempts\":3}}' | aws lambda invoke --function-name example-target --invocation-type Event --payload fileb:///dev/stdin /dev/null\n",
            "aws sqs get-queue-attributes --endpoint-url $AWS_ENDPOINT_URL --queue-url http://127.0.0.1:4700/000000000000/retry --attribute-names",
            "--queue-url http://127.0.0.1:4700/000000000000/dead-letters --max-number-of-messages 10 --message-attribute-names All\n",
            "aws lambda put-function-concurrency --function-name example-target --reserved-concurrent-executions 0\n",
            "aws lambda delete-function-concurrency --function-name example-target\n",
        ] {
            assert!(whole.contains(part), "{part} is not in\n{lines}");
        }
    }

    #[test]
    fn a_long_command_is_broken_between_its_parts() {
        let part = |length| "x".repeat(length);
        let broken = |lengths: &[usize]| {
            let parts: Vec<_> = lengths.iter().map(|&length| part(length)).collect();
            text(&broken(&parts))
        };
        assert_eq!(broken(&[3, 0, 2]), "xxx xx\n");
        let (first, second) = (part(60), part(50));
        assert_eq!(broken(&[60, 50, 4]), format!("{first} \\\n    {second} xxxx\n"));
    }
}
