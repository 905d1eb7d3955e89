//! Starts the local cloud as a process and calls it over HTTP. Connections tell when processes end: each process holds
//! one open, and the system closes it when the process ends.

use std::{
    io::{BufRead as _, BufReader, Cursor, ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

/// The signature header of an AWS client. The local cloud checks only its beginning.
pub const SIGNATURE: (&str, &str) = (
    "authorization",
    "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/lambda/aws4_request, Signature=0",
);

pub struct Cloud {
    process: Child,
    endpoint: String,
}

pub struct Answer {
    pub status: u16,
    pub is_error: bool,
    pub request_id: String,
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn header(&self, wanted: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Checks that it is Lambda's own report of a run.
    pub fn reports(&self, error_type: &str, what: &str) {
        let message = format!("RequestId: {} Error: {what}", self.request_id);
        assert_eq!(self.json(), json!({"errorType": error_type, "errorMessage": message}));
        assert!(self.is_error);
    }
}

impl Cloud {
    pub fn start() -> Self {
        Self::with(&[])
    }

    pub fn with(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_comeback-local"))
            .args(arguments)
            // A killed local cloud can't remove its temporary folders, so they go into cargo's.
            .env("TMPDIR", env!("CARGO_TARGET_TMPDIR"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut endpoint = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut endpoint).unwrap();
        Self { process, endpoint: endpoint.trim().to_owned() }
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sends a signal to the local cloud's process, but not to its children.
    pub fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        let killed = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(killed.success());
    }

    pub fn ended(mut self) {
        self.process.wait().unwrap();
    }

    pub fn get(&self, path: &str) -> Value {
        self.call("GET", path, &[], b"").json()
    }

    pub fn delete(&self, function: &str) {
        let path = format!("/2015-03-31/functions/{function}");
        assert_eq!(self.call("DELETE", &path, &[], b"").status, 204);
    }

    pub fn layer(&self, name: &str, content: &Value) -> String {
        let path = format!("/2018-10-31/layers/{name}/versions");
        let answer = self.ask("POST", &path, &json!({"Content": content}));
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["LayerVersionArn"].as_str().unwrap().to_owned()
    }

    /// Creates a function from `function.py`.
    pub fn function(&self, name: &str, settings: Value) -> Function<'_> {
        let mut request = json!({
            "FunctionName": name,
            "Role": "arn:aws:iam::000000000000:role/local",
            "Handler": "own.handler",
            "PackageType": "Image",
            "Code": {"ImageUri": "local-command"},
            "ImageConfig": {
                "Command": ["python3", "function.py"],
                "WorkingDirectory": concat!(env!("CARGO_MANIFEST_DIR"), "/tests/functions"),
            },
        });
        for (member, value) in settings.as_object().unwrap() {
            request[member] = value.clone();
        }
        let answer = self.ask("POST", "/2015-03-31/functions", &request);
        assert_eq!(answer.status, 201, "{}", answer.text());
        Function { cloud: self, name: name.to_owned() }
    }

    pub fn journal_until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut after = 0;
        loop {
            let path = format!("/_local/journal?after={after}&wait=60");
            let news = self.raw("GET", &path, &[], b"").json();
            let events = news["events"].as_array().unwrap();
            assert!(!events.is_empty(), "nothing more happened");
            if let Some(event) = events.iter().find(|event| wanted(event)) {
                return event.clone();
            }
            after = news["next"].as_u64().unwrap();
        }
    }

    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.call(method, path, &[], body.to_string().as_bytes())
    }

    pub fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let headers: Vec<_> = headers.iter().copied().chain([SIGNATURE]).collect();
        self.raw(method, path, &headers, body)
    }

    /// Sends a request with exactly these headers, besides those that HTTP needs.
    pub fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let address = self.endpoint.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += &format!("host: {address}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        parse(&answer)
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        // The process may have ended already, because some tests kill it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A zip in base64. Each file has a path, a mode and its content.
pub fn zip(files: &[(&str, u32, &[u8])]) -> String {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, mode, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default().unix_permissions(*mode)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    BASE64.encode(zip.finish().unwrap().into_inner())
}

fn parse(answer: &[u8]) -> Answer {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let header = |wanted: &str| {
        headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    };
    Answer {
        status,
        is_error: header("x-amz-function-error").is_some(),
        request_id: header("x-amzn-requestid").unwrap_or_default(),
        body: answer[end + 4..].to_vec(),
        headers,
    }
}

pub struct Function<'a> {
    cloud: &'a Cloud,
    name: String,
}

impl Function<'_> {
    fn request(&self, kind: &str, event: &Value) -> Answer {
        let path = format!("/2015-03-31/functions/{}/invocations", self.name);
        let kind = [("x-amz-invocation-type", kind)];
        self.cloud.call("POST", &path, &kind, event.to_string().as_bytes())
    }

    pub fn invoke(&self, event: &Value) -> Answer {
        self.request("RequestResponse", event)
    }

    /// Invokes the function asynchronously. Returns the request id.
    pub fn send(&self, event: &Value) -> String {
        let answer = self.request("Event", event);
        assert_eq!(answer.status, 202, "{}", answer.text());
        answer.request_id
    }
}

/// A test fails if it waits for longer than this. Even on a busy machine, a function's process starts and ends
/// sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a function's process has connected and sent its first byte.
pub fn accept(connections: &Receiver<TcpStream>) -> TcpStream {
    let mut connection =
        connections.recv_timeout(PATIENCE).expect("no process of the function connects");
    connection.read_exact(&mut [0]).expect("the process connects, but says nothing");
    connection
}

/// Waits until every process that holds the other end has ended.
pub fn ends(mut connection: TcpStream) {
    match connection.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
        read => panic!("a process still holds its connection: {read:?}"),
    }
}

/// Listens on a free port. Returns the accepted connections and the port.
pub fn listener() -> (Receiver<TcpStream>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, connections) = mpsc::channel();
    // The thread ends with the test process, or at the first connection after the test dropped the receiver.
    thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.unwrap();
            connection.set_read_timeout(Some(PATIENCE)).unwrap();
            if sender.send(connection).is_err() {
                break;
            }
        }
    });
    (connections, port)
}
