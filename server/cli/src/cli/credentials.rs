use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::tell::{tell, tell_line};

/// Prints the gateway token and the operator's bearer. Missing credentials are created.
pub(super) fn show(common: &Common) -> Result<(), Failure> {
    let data = common.data_there()?;
    let (credentials, _) =
        recalld_workspace::opening::credentials(&data).map_err(Failure::could)?;
    let shown = credentials.show();
    let pairs = [
        ("gateway_client_id", shown.gateway_client_id.expose()),
        ("gateway_client_secret", shown.gateway_client_secret.expose()),
        ("bearer", shown.bearer.expose()),
    ];
    if common.json {
        let object: serde_json::Map<String, serde_json::Value> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        tell_line(&serde_json::Value::Object(object))
    } else {
        let lines: String =
            pairs.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        tell(&lines)
    }
}
