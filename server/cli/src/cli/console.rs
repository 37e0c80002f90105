//! `recalld console`: prints the console's address, and opens it in a browser.

use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::remote::announced;
use super::tell::{tell, tell_line};
use recalld_api::console::assets::PAGE;

/// Programs that open an address in the user's default browser, in the order of attempts.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

#[derive(Debug, Args)]
pub(super) struct ConsoleArgs {
    #[command(flatten)]
    common: Common,
    /// Open the console in the browser.
    #[arg(long)]
    open: bool,
}

pub(super) fn run(args: &ConsoleArgs) -> Result<(), Failure> {
    let data = args.common.data()?;
    let Some(local) = announced(&data) else {
        let data = data.display();
        return Err(Failure::Could(format!(
            "no server with a local listener has {data}; start one: recalld serve --data {data}"
        )));
    };
    let url = format!("{local}{}", PAGE.path);
    if args.open {
        open(&url)?;
    }
    if args.common.json {
        return tell_line(&json!({"url": url}));
    }
    tell(&format!(
        "{url}\n# Reading asks for nothing here; tenants and keys ask for the bearer of `recalld credentials show`.\n"
    ))
}

/// Waits only for the opener; the browser continues on its own.
fn open(url: &str) -> Result<(), Failure> {
    let opens = |program: &&str| -> bool {
        let mut command = Command::new(*program);
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.arg(url).status().is_ok_and(|status| status.success())
    };
    match OPENERS.iter().any(opens) {
        true => Ok(()),
        false => {
            let tried = OPENERS.join(" nor ");
            Err(Failure::Could(format!(
                "neither {tried} opens a browser here; open {url} yourself"
            )))
        }
    }
}
