//! The DynamoDB of the local cloud, and the ledger of `comeback local` in it or in another one.
//!
//! It is dynoxide, which keeps its tables in SQLite, in memory.
//! Its own HTTP server answers every web page in a browser (CORS), so this program serves it behind the checks of the
//! local cloud.

use std::sync::Arc;

use aws_sdk_dynamodb::{Client, types::TimeToLiveSpecification};
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use comeback_core::settings::contract;
use comeback_dynamodb::register;
use comeback_local_client::deploy::{CallError, config, failed};
use dynoxide::{Database, DynoxideError};
use serde::{Serialize, de::DeserializeOwned};

/// Requests for DynamoDB name their operation with this prefix.
const TARGET: &str = "DynamoDB_20120810.";

const JSON: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/x-amz-json-1.0");

#[derive(Debug, thiserror::Error)]
#[error("opening the local cloud's DynamoDB in memory failed: {0}")]
pub struct NoDatabase(DynoxideError);

/// Serves an empty DynamoDB, which forgets everything when it is dropped.
pub fn router() -> Result<Router, NoDatabase> {
    let database = Arc::new(Database::memory().map_err(NoDatabase)?);
    Ok(Router::new().fallback(answer).with_state(database))
}

async fn answer(
    State(database): State<Arc<Database>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix(TARGET));
    let operation = operation.unwrap_or_default().to_owned();
    // SQLite blocks its thread.
    let answered = tokio::task::spawn_blocking(move || call(&database, &operation, &body)).await;
    match answered {
        Ok(Ok(body)) => ([JSON], body).into_response(),
        Ok(Err(error)) => {
            let status = StatusCode::from_u16(error.status_code());
            (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), [JSON], error.to_json())
                .into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn call(database: &Database, operation: &str, body: &[u8]) -> Result<String, DynoxideError> {
    match operation {
        "BatchGetItem" => step(body, |request| database.batch_get_item(request)),
        "BatchWriteItem" => step(body, |request| database.batch_write_item(request)),
        "CreateTable" => step(body, |request| database.create_table(request)),
        "DeleteItem" => step(body, |request| database.delete_item(request)),
        "DeleteTable" => step(body, |request| database.delete_table(request)),
        "DescribeTable" => step(body, |request| database.describe_table(request)),
        "DescribeTimeToLive" => step(body, |request| database.describe_time_to_live(request)),
        "GetItem" => step(body, |request| database.get_item(request)),
        "ListTables" => step(body, |request| database.list_tables(request)),
        "PutItem" => step(body, |request| database.put_item(request)),
        "Query" => step(body, |request| database.query(request)),
        "Scan" => step(body, |request| database.scan(request)),
        "TransactGetItems" => step(body, |request| database.transact_get_items(request)),
        "TransactWriteItems" => step(body, |request| database.transact_write_items(request)),
        "UpdateItem" => step(body, |request| database.update_item(request)),
        "UpdateTable" => step(body, |request| database.update_table(request)),
        "UpdateTimeToLive" => step(body, |request| database.update_time_to_live(request)),
        other => Err(DynoxideError::ValidationException(format!(
            "the local cloud's DynamoDB does not support {other:?}"
        ))),
    }
}

fn step<Request: DeserializeOwned, Answer: Serialize>(
    body: &[u8],
    operation: impl FnOnce(Request) -> Result<Answer, DynoxideError>,
) -> Result<String, DynoxideError> {
    let unreadable =
        |error: serde_json::Error| DynoxideError::SerializationException(error.to_string());
    let answer = operation(serde_json::from_slice(body).map_err(unreadable)?)?;
    serde_json::to_string(&answer)
        .map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

pub const LEDGER_TABLE: &str = "LEDGER_TABLE";

pub const LEDGER: &str = "comeback-ledger";

/// The variables that make the handler use the ledger in the DynamoDB at `elsewhere`, or in the local cloud.
pub fn ledger_environment(elsewhere: Option<&str>) -> Vec<(String, String)> {
    let endpoint = elsewhere.map(|url| ("AWS_ENDPOINT_URL_DYNAMODB", url));
    let variables = [(LEDGER_TABLE, LEDGER), ("REGISTER", "true")].into_iter().chain(endpoint);
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Creates the table in the DynamoDB at `endpoint`, as a deployment does. An existing table is used unchanged.
pub async fn create_ledger(endpoint: &str) -> Result<(), CallError> {
    let client = Client::new(&config(endpoint));
    let what = format!("create the table {LEDGER}");
    let request = register::create_table(&client, LEDGER);
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
    let call = client.update_time_to_live().table_name(LEDGER).time_to_live_specification(expiry);
    call.send().await.map(drop).map_err(failed("set the expiry of the ledger's items"))
}
