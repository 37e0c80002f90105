//! actix-web with one runtime per thread.

use std::io;

use actix_web::http::header::ContentType;
use actix_web::{App, HttpResponse, HttpServer, web};
use http_peers::{Start, pong};
use serde_json::Value;

#[actix_web::main]
async fn main() -> io::Result<()> {
    let start = Start::from_arguments()?;
    let health = start.health;
    let answer =
        move || async move { HttpResponse::Ok().content_type(ContentType::json()).body(health) };
    HttpServer::new(move || {
        App::new().route("/health", web::get().to(answer)).route("/mcp", web::post().to(mcp))
    })
    .workers(start.threads)
    .bind(start.address)?
    .run()
    .await
}

async fn mcp(message: web::Json<Value>) -> HttpResponse {
    match pong(&message) {
        Some(answer) => HttpResponse::Ok().content_type(ContentType::json()).body(answer),
        None => HttpResponse::BadRequest().finish(),
    }
}
