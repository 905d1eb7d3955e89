//! The proxy as the bootstrap of a custom runtime.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Stdio},
};

use super::{
    Api, PROGRAM,
    extension::{answer, asked},
    guarded, sees, sees_end,
};

/// A function's folder, with the proxy as its `bootstrap`.
struct Task(PathBuf);

impl Task {
    fn new(name: &str) -> Self {
        let folder = format!("comeback-task-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        symlink(PROGRAM, folder.join("bootstrap")).unwrap();
        Self(folder)
    }

    /// Starts it, with this program as the real bootstrap.
    fn start(&self, api: &str, program: Option<&str>) -> Command {
        let mut command = Command::new(self.0.join("bootstrap"));
        command.env("AWS_LAMBDA_RUNTIME_API", api).env_remove("COMEBACK_PROXY_PORT");
        if let Some(program) = program {
            let path = self.0.join("real");
            std::fs::write(&path, program).unwrap();
            Command::new("chmod").arg("+x").arg(&path).status().unwrap();
            command.env("COMEBACK_BOOTSTRAP", &path);
        }
        command
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn the_real_bootstrap_runs_in_the_process_that_lambda_started_and_the_proxy_ends_with_it() {
    let (task, api) = (Task::new("real"), Api::new());
    let program = "#!/bin/sh\necho \"$$ $AWS_LAMBDA_RUNTIME_API $*\"\nread -r _\nexit 7\n";
    let mut command = task.start(&api.address(), Some(program));
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

    let mut runtime = guarded(std::net::TcpStream::connect(address).unwrap());
    let mut upstream = api.accept();
    runtime.write_all(b"GET /x HTTP/1.1\r\n\r\n").unwrap();
    sees(&mut upstream, b"GET /x HTTP/1.1\r\n\r\n");
    process.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(7));
    sees_end(&mut runtime);
    sees_end(&mut upstream);
}

#[test]
fn the_reason_why_it_does_not_start_is_logged_and_reported() {
    let (task, api) = (Task::new("wrong"), Api::new());
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
            let (report, mut connection) = asked(&api);
            answer(&mut connection, "", "");
            drop(connection);
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
    assert_eq!(told(task.start(&api.address(), None), 0), expected);
    let mut missing = task.start(&api.address(), None);
    missing.env("COMEBACK_BOOTSTRAP", "/missing");
    let expected = "comeback: /missing (COMEBACK_BOOTSTRAP) can't be started: No such file or directory (os error 2)\n";
    assert_eq!(told(missing, 1), expected);
    let mut itself = task.start(&api.address(), None);
    itself.env("COMEBACK_BOOTSTRAP", task.0.join("bootstrap"));
    let expected = format!(
        "comeback: COMEBACK_BOOTSTRAP must be the function's own program, got {}/bootstrap, which is the proxy\n",
        task.0.display()
    );
    assert_eq!(told(itself, 0), expected);
    let nobody = format!("127.0.0.1:{}", super::free_port());
    let expected = format!(
        "comeback: the Runtime API at {nobody} (AWS_LAMBDA_RUNTIME_API) can't be reached: Connection refused (os error 111)\n\
         comeback: the proxy did not start\n"
    );
    assert_eq!(said(task.start(&nobody, Some("#!/bin/sh\necho started\n"))), expected);
}
