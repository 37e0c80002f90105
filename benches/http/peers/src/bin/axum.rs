//! axum on hyper and the threads of tokio.

use std::io;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use http_peers::{Start, pong};
use serde_json::Value;

const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

fn main() -> io::Result<()> {
    let start = Start::from_arguments()?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(start.threads)
        .enable_io()
        .build()?;
    threads.block_on(serve(start))
}

async fn serve(start: Start) -> io::Result<()> {
    let health = start.health;
    let app = Router::new()
        .route("/health", get(move || async move { (JSON, health) }))
        .route("/mcp", post(mcp));
    let listener = tokio::net::TcpListener::bind(start.address).await?;
    let listener = listener.tap_io(|socket| {
        // TCP_NODELAY is set as in our server and actix-web; if the socket refuses it, the connection is served all the
        // same.
        let _set = socket.set_nodelay(true);
    });
    axum::serve(listener, app).await
}

async fn mcp(axum::Json(message): axum::Json<Value>) -> Response {
    match pong(&message) {
        Some(answer) => (JSON, answer).into_response(),
        None => StatusCode::BAD_REQUEST.into_response(),
    }
}
