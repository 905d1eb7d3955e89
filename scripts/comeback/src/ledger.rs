//! The ledger of `comeback local`: a table in the local cloud's DynamoDB, or in another one.

use aws_sdk_dynamodb::{Client, types::TimeToLiveSpecification};
use comeback_core::contract;
use comeback_dynamodb::register;

use crate::deploy::{CallError, config, failed};

/// The handler's setting with the name of the table.
pub const LEDGER_TABLE: &str = "LEDGER_TABLE";

pub const TABLE: &str = "comeback-ledger";

/// The variables that make the handler use the ledger in the DynamoDB at `elsewhere`, or in the local cloud.
pub fn environment(elsewhere: Option<&str>) -> Vec<(String, String)> {
    let endpoint = elsewhere.map(|url| ("AWS_ENDPOINT_URL_DYNAMODB", url));
    let variables = [(LEDGER_TABLE, TABLE), ("REGISTER", "true")].into_iter().chain(endpoint);
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Creates the table in the DynamoDB at `endpoint`, as a deployment does. An existing table is used unchanged.
pub async fn create(endpoint: &str) -> Result<(), CallError> {
    let client = Client::new(&config(endpoint));
    let what = format!("create the table {TABLE}");
    let request = register::create_table(&client, TABLE);
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
