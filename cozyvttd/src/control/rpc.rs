//! The JSON-RPC methods of the control socket.

use std::sync::Arc;

use cozyvtt_proto::control::{
    CallResult, DaemonStatus, DaemonStop, EventPage, EventPoll, Method, Stopping, ToolCall,
    ToolList, Tools,
};
use cozyvtt_proto::jsonrpc::{ErrorKind, Request, Response, RpcError};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::status;
use crate::hub::Hub;
use crate::journal::PageError;
use crate::mcp;
use crate::tools::Caller;

/// Answers one request body.
pub(super) async fn answer(body: &[u8], hub: &Hub) -> Response {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => {
            let sentence = format!("the body is not valid JSON: {error}");
            return Response::failure(Value::Null, ErrorKind::ParseError.error(sentence));
        }
    };
    let id = value.get("id").cloned().unwrap_or_default();
    let request = match serde_json::from_value::<Request>(value) {
        Ok(request) if !(request.id.is_string() || request.id.is_number()) => {
            return invalid(Value::Null, "its \"id\" is neither a string nor a number");
        }
        Ok(request) if request.jsonrpc == "2.0" => request,
        Ok(_) => return invalid(id, "its \"jsonrpc\" is not \"2.0\""),
        Err(error) => return invalid(id, &error.to_string()),
    };
    match call(&request, hub).await {
        Ok(result) => Response::success(id, result),
        Err(error) => Response::failure(id, error),
    }
}

fn invalid(id: Value, why: &str) -> Response {
    let sentence = format!("the body is no JSON-RPC 2.0 request: {why}");
    Response::failure(id, ErrorKind::InvalidRequest.error(sentence))
}

async fn call(request: &Request, hub: &Hub) -> Result<Value, RpcError> {
    match request.method.as_str() {
        DaemonStatus::NAME => {
            params::<DaemonStatus>(request)?;
            result::<DaemonStatus>(status::status(hub))
        }
        DaemonStop::NAME => {
            params::<DaemonStop>(request)?;
            tracing::info!("asked to stop");
            let draining = hub.running();
            hub.stop.cancel();
            result::<DaemonStop>(Stopping { draining })
        }
        ToolList::NAME => {
            params::<ToolList>(request)?;
            let tools = hub
                .definitions()
                .map(|definition| serde_json::to_value(mcp::tool(definition)))
                .collect::<Result<_, _>>()
                .map_err(internal)?;
            result::<ToolList>(Tools { tools })
        }
        ToolCall::NAME => {
            let params = params::<ToolCall>(request)?;
            if hub.stop.is_cancelled() {
                return Err(ErrorKind::Stopping
                    .error("cozyvttd is stopping and begins nothing new; nothing was done"));
            }
            let caller = Arc::new(Caller { cwd: params.cwd });
            let outcome = hub
                .call(&params.name, params.arguments, caller)
                .await
                .ok_or_else(|| {
                    ErrorKind::UnknownTool.error(format!(
                        "there is no tool {:?}; `cozyvttctl tools` lists them",
                        params.name
                    ))
                })?;
            result::<ToolCall>(CallResult {
                is_error: outcome.is_error,
                envelope: outcome.envelope,
            })
        }
        EventPoll::NAME => {
            let params = params::<EventPoll>(request)?;
            result::<EventPoll>(page(hub, params.since, params.limit).await?)
        }
        unknown => Err(ErrorKind::MethodNotFound.error(format!(
            "there is no method {unknown:?}; there are {}",
            [
                DaemonStatus::NAME,
                DaemonStop::NAME,
                ToolList::NAME,
                ToolCall::NAME,
                EventPoll::NAME
            ]
            .join(", ")
        ))),
    }
}

async fn page(hub: &Hub, since: u64, limit: u32) -> Result<EventPage, RpcError> {
    let session = hub.session.as_ref().map_err(not_configured)?;
    session
        .journal
        .page(since, limit)
        .await
        .map_err(|error| match error {
            PageError::Bounds => ErrorKind::InvalidParams.error(error.to_string()),
            PageError::Journal(_) => ErrorKind::Internal.error(error.to_string()),
        })
}

/// The error of a method that needs a session where there is none.
pub(super) fn not_configured(trouble: &crate::hub::Trouble) -> RpcError {
    ErrorKind::NotConfigured.error(format!("{}; {}", trouble.what, trouble.fix))
}

fn params<M: Method>(request: &Request) -> Result<M::Params, RpcError>
where
    M::Params: DeserializeOwned,
{
    // Parameters that are left out are an empty object.
    let params = match &request.params {
        Value::Null => Value::Object(serde_json::Map::new()),
        params => params.clone(),
    };
    serde_json::from_value(params).map_err(|error| {
        ErrorKind::InvalidParams.error(format!("the parameters of {} do not fit: {error}", M::NAME))
    })
}

fn result<M: Method>(result: M::Result) -> Result<Value, RpcError> {
    serde_json::to_value(result).map_err(internal)
}

fn internal(error: serde_json::Error) -> RpcError {
    ErrorKind::Internal.error(error.to_string())
}
