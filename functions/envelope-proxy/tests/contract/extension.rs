//! The extension, as Lambda sees it, and the wrapper between Lambda and the runtime.

use std::{
    fs::Permissions,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use super::{Api, PROGRAM, asks, free_port};

/// A folder with the contents of `/opt` under the layer.
pub struct Opt(PathBuf);

impl Opt {
    pub fn new(name: &str) -> Self {
        let folder = format!("comeback-opt-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(folder.join("extensions")).unwrap();
        symlink(PROGRAM, folder.join("extensions/comeback")).unwrap();
        let wrapper = concat!(env!("CARGO_MANIFEST_DIR"), "/comeback-exec");
        symlink(wrapper, folder.join("comeback-exec")).unwrap();
        Self(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Adds a program; returns its path.
    pub fn program(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        self.path(name)
    }

    /// Starts the extension, as Lambda does.
    pub fn extension(&self, api: &str, port: impl ToString) -> Extension {
        let mut command = Command::new(self.0.join("extensions/comeback"));
        command.env("AWS_LAMBDA_RUNTIME_API", api).env("COMEBACK_PROXY_PORT", port.to_string());
        command.env("AWS_LAMBDA_EXEC_WRAPPER", "/opt/comeback-exec");
        Extension(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Runs a runtime through the wrapper.
    pub fn runtime(&self, api: &str, port: u16, command: &[&str]) -> Output {
        self.start(api, port, command).wait_with_output().unwrap()
    }

    fn start(&self, api: &str, port: u16, command: &[&str]) -> Child {
        let mut wrapper = Command::new(self.0.join("comeback-exec"));
        wrapper.args(command).env("AWS_LAMBDA_RUNTIME_API", api);
        wrapper.env("COMEBACK_PROXY_PORT", port.to_string());
        wrapper.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Opt {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// A running extension, ended with the test.
pub struct Extension(Child);

impl Drop for Extension {
    fn drop(&mut self) {
        // It may already have ended.
        drop(self.0.kill());
        self.0.wait().unwrap();
    }
}

impl Extension {
    /// Waits for its end, and returns its status and its output.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap().code(), said)
    }
}

/// Plays Lambda until an extension has registered, and returns its next request.
pub fn registered(api: &Api) -> (String, TcpStream) {
    let (request, connection) = asked(api);
    assert!(request.starts_with("POST /2020-01-01/extension/register HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nLambda-Extension-Name: comeback\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"events\":[\"SHUTDOWN\"]}"), "{request}");
    answer(connection, "lambda-extension-identifier: 4711\r\n", "{}");
    let (request, connection) = asked(api);
    assert!(request.contains("\r\nLambda-Extension-Identifier: 4711\r\n"), "{request}");
    (request, connection)
}

/// The next request, complete.
pub fn asked(api: &Api) -> (String, TcpStream) {
    let mut connection = api.accept();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let (_, length) = head.split_once("Content-Length: ").unwrap();
    let mut body = vec![0; length.trim_end().parse().unwrap()];
    connection.read_exact(&mut body).unwrap();
    (head + str::from_utf8(&body).unwrap(), connection)
}

/// Answers a request, and returns its connection.
pub fn answer(mut connection: TcpStream, headers: &str, body: &str) -> TcpStream {
    let length = body.len();
    write!(connection, "HTTP/1.1 200 OK\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
        .unwrap();
    connection
}

/// Lambda may frame an answer in any way that HTTP allows, and need not close the connection.
#[test]
fn an_answer_ends_where_its_framing_says_although_the_connection_stays_open() {
    let event = r#"{"eventType":"SHUTDOWN"}"#;
    let length = event.len();
    let framings = [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{event}"),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{event}\r\n0\r\n\r\n"
        ),
        format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{event}"
        ),
    ];
    for (nth, framing) in framings.iter().enumerate() {
        let (opt, api, port) = (Opt::new(&format!("open-{nth}")), Api::new(), free_port());
        let mut extension = opt.extension(&api.address(), port);
        let (_, registering) = asked(&api);
        let registering = answer(registering, "Lambda-Extension-Identifier: 4711\r\n", "{}");
        let (_, mut waiting) = asked(&api);
        // In two pieces, and both connections stay open.
        let (first, rest) = framing.split_at(framing.len() - 7);
        waiting.write_all(first.as_bytes()).unwrap();
        waiting.write_all(rest.as_bytes()).unwrap();
        let (status, said) = extension.end();
        // The only output is that no wrapper ran.
        let expected = "comeback: the runtime was not started by /opt/comeback-exec: events stayed in their envelopes.";
        assert!(status == Some(0) && said.starts_with(expected), "{framing}: {said}");
        drop((registering, waiting));
    }
}

#[test]
fn a_port_that_is_in_use_fails_the_init_with_its_number() {
    let (opt, api) = (Opt::new("port"), Api::new());
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let mut extension = opt.extension(&api.address(), port);
    let (request, reporting) = registered(&api);
    assert!(request.starts_with("POST /2020-01-01/extension/init/error HTTP/1.1\r\n"), "{request}");
    assert!(
        request.contains("\r\nLambda-Extension-Function-Error-Type: Extension.ComebackProxy\r\n")
    );
    let message = format!(
        "the proxy can't listen on 127.0.0.1:{port}: Address already in use (os error 98); \
         COMEBACK_PROXY_PORT chooses another port"
    );
    assert!(request.contains(&message), "{request}");
    // The wrapper, which Lambda starts as soon as the extension has registered, gives the same reason.
    let wrapper = opt.start(&api.address(), port, &["true"]);
    let (request, of_wrapper) = asked(&api);
    assert!(request.starts_with("POST /2018-06-01/runtime/init/error HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&message), "{request}");
    answer(of_wrapper, "", "");
    assert_eq!(wrapper.wait_with_output().unwrap().status.code(), Some(1));
    answer(reporting, "", "");
    assert_eq!(extension.end(), (Some(1), format!("comeback: {message}\n")));
}

#[test]
fn a_bad_port_fails_the_init_with_the_name_of_the_variable() {
    let (opt, api) = (Opt::new("none"), Api::new());
    let mut extension = opt.extension(&api.address(), "http");
    let (request, reporting) = registered(&api);
    let message = "COMEBACK_PROXY_PORT must be a port, 1 to 65535, got";
    assert!(request.contains(message), "{request}");
    answer(reporting, "", "");
    assert_eq!(extension.end(), (Some(1), format!("comeback: {message} \"http\"\n")));
}

#[test]
fn an_api_that_is_unreachable_or_refuses_is_named() {
    let opt = Opt::new("refuses");
    let address = format!("127.0.0.1:{}", free_port());
    let (status, said) = opt.extension(&address, free_port()).end();
    let expected = format!(
        "comeback: the request /2020-01-01/extension/register to Lambda at {address} failed: "
    );
    assert!(status == Some(1) && said.starts_with(&expected), "{said}");

    let api = Api::new();
    let mut extension = opt.extension(&api.address(), free_port());
    let (_, mut connection) = asked(&api);
    connection.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope").unwrap();
    drop(connection);
    let expected =
        "comeback: Lambda refuses /2020-01-01/extension/register with status 403: nope\n";
    assert_eq!(extension.end(), (Some(1), expected.to_owned()));
}

#[test]
fn a_layer_without_its_wrapper_is_logged() {
    let api = Api::new();
    let mut command = Command::new(PROGRAM);
    command
        .env("AWS_LAMBDA_RUNTIME_API", api.address())
        .env("COMEBACK_PROXY_PORT", free_port().to_string());
    let mut extension = Extension(command.stderr(Stdio::piped()).spawn().unwrap());
    let (_, connection) = asked(&api);
    drop(connection);
    let (_, said) = extension.end();
    let expected = "comeback: AWS_LAMBDA_EXEC_WRAPPER must be /opt/comeback-exec, got nothing: events stay in their envelopes\n";
    assert!(said.starts_with(expected), "{said}");
}

#[test]
fn a_wrong_setting_is_named() {
    let run = |argument: &[&str], port: &str| {
        let mut command = Command::new(PROGRAM);
        command
            .args(argument)
            .env("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9")
            .env("COMEBACK_PROXY_PORT", port);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let expected = "comeback: COMEBACK_PROXY_PORT must be a port, 1 to 65535, got \"70000\"\n";
    assert_eq!(run(&["address"], "70000"), expected);
    let expected = "comeback: expected no argument, `address` or `serve`, got \"help\"\n";
    assert_eq!(run(&["help"], "1"), expected);
    let unset = Command::new(PROGRAM).env_remove("AWS_LAMBDA_RUNTIME_API").output().unwrap();
    let expected =
        "comeback: AWS_LAMBDA_RUNTIME_API must be host and port, as Lambda sets it, got nothing\n";
    assert_eq!(String::from_utf8(unset.stderr).unwrap(), expected);
}

const PRINT_API: [&str; 4] =
    ["sh", "-c", "echo \"$AWS_LAMBDA_RUNTIME_API $1 $2\"; exit 7", "runtime"];

#[test]
fn the_runtime_is_started_with_the_proxys_address_until_lambda_ends_the_extension() {
    let (opt, api, port) = (Opt::new("starts"), Api::new(), free_port());
    let mut extension = opt.extension(&api.address(), port);
    let (request, waiting) = registered(&api);
    assert!(request.starts_with("GET /2020-01-01/extension/event/next HTTP/1.1\r\n"), "{request}");
    let command = [&PRINT_API[..], &["a  b", "*"]].concat();
    let proxy = format!("127.0.0.1:{port}");
    // The second time, the wrapper runs in a wrapper, which changes nothing.
    for api_address in [api.address(), proxy.clone()] {
        let ran = opt.runtime(&api_address, port, &command);
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{proxy} a  b *\n"));
        assert_eq!(ran.status.code(), Some(7));
    }
    // The first connection only checked that the API is there.
    drop(api.accept());
    asks(&proxy, &api);
    let end = r#"{"eventType":"SHUTDOWN","shutdownReason":"SPINDOWN","deadlineMs":1}"#;
    answer(waiting, "", end);
    assert_eq!(extension.end(), (Some(0), String::new()));
}

#[test]
fn another_proxy_stays_between_this_one_and_lambda() {
    let (opt, lambda, other, port) = (Opt::new("chain"), Api::new(), Api::new(), free_port());
    let _extension = opt.extension(&lambda.address(), port);
    let _waiting = registered(&lambda);
    // Another vendor's wrapper, which puts a proxy of its own before Lambda, and a wrapper that runs both, as in
    // the README.
    let theirs =
        format!("#!/bin/sh\nexport AWS_LAMBDA_RUNTIME_API={}\nexec \"$@\"\n", other.address());
    let theirs = opt.program("the-other-one", &theirs);
    let both = format!("#!/bin/sh\nexec {theirs} {} \"$@\"\n", opt.path("comeback-exec"));
    let mut both = Command::new(opt.program("both", &both));
    both.args(PRINT_API).env("AWS_LAMBDA_RUNTIME_API", lambda.address());
    let ran = both.env("COMEBACK_PROXY_PORT", port.to_string()).output().unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("127.0.0.1:{port}  \n"));
    // The first connection only checked that it is there.
    drop(other.accept());
    asks(&format!("127.0.0.1:{port}"), &other);
}

#[test]
fn without_the_extension_or_an_api_behind_it_no_runtime_is_started() {
    let (opt, api, port) = (Opt::new("alone"), Api::new(), free_port());
    let refused = |address: &str| {
        let ran = opt.runtime(address, port, &PRINT_API);
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0));
        String::from_utf8(ran.stderr).unwrap()
    };
    let expected = format!("comeback: the extension does not listen for port {port}: ");
    let said = refused(&api.address());
    assert!(said.starts_with(&expected), "{said}");
    // The wrapper has reported it to Lambda.
    drop(api.accept());
    let _extension = opt.extension(&api.address(), port);
    let _waiting = registered(&api);
    let nobody = format!("127.0.0.1:{}", free_port());
    let expected = format!(
        "comeback: the Runtime API at {nobody} (AWS_LAMBDA_RUNTIME_API) can't be reached: Connection refused (os error 111)\n"
    );
    assert_eq!(refused(&nobody), expected);
}
