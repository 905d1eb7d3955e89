//! The proxy as the bootstrap of a custom runtime.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use super::{
    Api, PROGRAM, asks,
    extension::{Opt, answer, asked},
    sees_end,
};

/// Starts the proxy as the `bootstrap` in this folder, with this program as the real bootstrap.
fn start(task: &Opt, api: &str, program: Option<&str>) -> Command {
    let path = task.path("bootstrap");
    if !Path::new(&path).exists() {
        symlink(PROGRAM, &path).unwrap();
    }
    let mut command = Command::new(path);
    // The API's own port, which is taken: only the layer's proxy listens on the port of its setting.
    let port = api.rsplit(':').next().unwrap();
    command.env("AWS_LAMBDA_RUNTIME_API", api).env("COMEBACK_PROXY_PORT", port);
    if let Some(program) = program {
        command.env("COMEBACK_BOOTSTRAP", task.program("real", program));
    }
    command
}

#[test]
fn the_real_bootstrap_runs_in_the_process_that_lambda_started_and_the_proxy_ends_with_it() {
    let (task, api) = (Opt::new("task-real"), Api::new());
    let program = "#!/bin/sh\necho \"$$ $AWS_LAMBDA_RUNTIME_API $*\"\nread -r _\nexit 7\n";
    let mut command = start(&task, &api.address(), Some(program));
    command.args(["app.handler", "2"]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The first connection only checked that the API is there.
    drop(api.accept());
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let [id, address, "app.handler", "2"] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{line}");
    };
    assert_eq!(id, process.id().to_string());

    let (mut runtime, mut upstream) = asks(address, &api);
    process.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(7));
    sees_end(&mut runtime);
    sees_end(&mut upstream);
}

#[test]
fn the_reason_why_it_does_not_start_is_logged_and_reported() {
    let (task, api) = (Opt::new("task-wrong"), Api::new());
    let said = |mut command: Command| {
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        String::from_utf8(output.stderr).unwrap()
    };
    // It is also reported to Lambda, in place of the runtime.
    let told = |command: Command, probes: usize| {
        std::thread::scope(|scope| {
            let said = scope.spawn(|| said(command));
            (0..probes).for_each(|_| drop(api.accept()));
            let (report, connection) = asked(&api);
            answer(connection, "", "");
            let said = said.join().unwrap();
            assert!(
                report.starts_with("POST /2018-06-01/runtime/init/error HTTP/1.1\r\n"),
                "{report}"
            );
            let message = said.trim_end().strip_prefix("comeback: ").unwrap();
            assert!(report.contains(message), "{report}");
            said
        })
    };
    let expected =
        "comeback: COMEBACK_BOOTSTRAP must be the path of the program to start, got nothing\n";
    assert_eq!(told(start(&task, &api.address(), None), 0), expected);
    let mut missing = start(&task, &api.address(), None);
    missing.env("COMEBACK_BOOTSTRAP", "/missing");
    let expected = "comeback: /missing (COMEBACK_BOOTSTRAP) can't be started: No such file or directory (os error 2)\n";
    assert_eq!(told(missing, 1), expected);
    let mut itself = start(&task, &api.address(), None);
    itself.env("COMEBACK_BOOTSTRAP", task.path("bootstrap"));
    let expected = format!(
        "comeback: COMEBACK_BOOTSTRAP must be the function's own program, got {}, which is the proxy\n",
        task.path("bootstrap")
    );
    assert_eq!(told(itself, 0), expected);
    let nobody = format!("127.0.0.1:{}", super::free_port());
    let expected = format!(
        "comeback: the Runtime API at {nobody} (AWS_LAMBDA_RUNTIME_API) can't be reached: Connection refused (os error 111)\n\
         comeback: the proxy did not start\n"
    );
    assert_eq!(said(start(&task, &nobody, Some("#!/bin/sh\necho started\n"))), expected);
}
