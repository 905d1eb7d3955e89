//! The ledger of `comeback local --ledger`: a table in DynamoDB Local or moto. The local cloud has no DynamoDB.

use std::{io, process::Stdio};

use aws_sdk_dynamodb::{Client, types::TimeToLiveSpecification};
use comeback_core::contract;
use comeback_dynamodb::table;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::deploy::{CallError, config, failed};

/// The environment variable with a command that starts a DynamoDB. The command prints the URL, and exits when its
/// standard input is closed.
pub const DYNAMODB: &str = "COMEBACK_DYNAMODB";

/// The handler's setting with the name of the table.
pub const LEDGER_TABLE: &str = "LEDGER_TABLE";

pub const TABLE: &str = "comeback-ledger";

/// Why there is no DynamoDB for the ledger.
#[derive(Debug, thiserror::Error)]
pub enum NoDynamoDb {
    #[error(
        "expected the URL of a DynamoDB, such as --ledger http://127.0.0.1:8000 for DynamoDB Local; only scripts/local can start one by itself"
    )]
    Unknown,
    #[error(
        "the command in {DYNAMODB} must start a DynamoDB and print its URL, but it printed {got}: {command}"
    )]
    NotStarted { command: String, got: String },
    #[error(transparent)]
    NoTable(#[from] CallError),
}

/// A table, and the DynamoDB that was started for it.
pub struct Ledger {
    endpoint: String,
    /// The server, which is killed when this value is dropped.
    _server: Option<Child>,
}

impl Ledger {
    /// Creates the table, unless it exists. If `url` is empty, starts a DynamoDB with `command` first.
    pub async fn start(url: &str, command: Option<&str>) -> Result<Self, NoDynamoDb> {
        let ledger = if url.is_empty() {
            Self::serve(command.ok_or(NoDynamoDb::Unknown)?).await?
        } else {
            Self { endpoint: url.to_owned(), _server: None }
        };
        create(&Client::new(&config(&ledger.endpoint))).await?;
        Ok(ledger)
    }

    async fn serve(command: &str) -> Result<Self, NoDynamoDb> {
        let failed = |got: String| NoDynamoDb::NotStarted { command: command.to_owned(), got };
        let refused = |error: io::Error| failed(error.to_string());
        let mut words = command.split_whitespace();
        let mut server = Command::new(words.next().unwrap_or_default())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(refused)?;
        let mut line = String::new();
        if let Some(stdout) = server.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).await.map_err(refused)?;
        }
        let endpoint = line.trim().to_owned();
        if !endpoint.starts_with("http") {
            return Err(failed(format!("{endpoint:?}")));
        }
        Ok(Self { endpoint, _server: Some(server) })
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The environment variables that make the handler use this ledger.
    pub fn environment(&self) -> [(String, String); 3] {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        [
            variable(LEDGER_TABLE, TABLE),
            variable("REGISTER", "true"),
            variable("AWS_ENDPOINT_URL_DYNAMODB", &self.endpoint),
        ]
    }
}

/// Creates the table as a deployment does. An existing table is used unchanged.
async fn create(client: &Client) -> Result<(), CallError> {
    let what = format!("create the table {TABLE}");
    let request = table::create(client, TABLE);
    let request = request.map_err(|error| CallError::of(&what, error.to_string()))?;
    match request.send().await {
        Err(error)
            if error.as_service_error().is_some_and(|it| it.is_resource_in_use_exception()) =>
        {
            return Ok(());
        }
        created => created.map(drop).map_err(failed(&what))?,
    }
    // Its items expire, as those of a deployed ledger do.
    let expiry =
        TimeToLiveSpecification::builder().enabled(true).attribute_name(contract::TABLE.expiry);
    let expiry = expiry.build().map_err(|error| CallError::of(&what, error.to_string()))?;
    let call = client.update_time_to_live().table_name(TABLE).time_to_live_specification(expiry);
    call.send().await.map(drop).map_err(failed("set the expiry of the ledger's items"))
}
