//! `recalld remote`: inspects an object store and restores workspaces from it, without a server.

mod ledgers;
mod sweep;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use engine::Micros;
use engine::os::clock::{Random, SystemRandom};
use engine::os::disk::{Disk, FsDisk};
use recalld_replication::{
    BootClock, Checked, Driver, Halt, Hex, Look, NodeId, NotAName, NotRestored, Reached, Tenant,
    find_erased, restore, tenants, verify,
};
use serde_json::{Value, json};

use self::ledgers::Seen;
use super::common::Common;
use super::failure::Failure;
use super::given::Flags;
use super::scratch::Scratch;
use super::tell::{shell_word, tell_line};
use recalld_auth::ClusterSecret;
use recalld_cluster::seats;
use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_config::remote::Remote;
use recalld_fs_util::data_dir::workspace_dir;
use recalld_store_admin::Fresh;

#[derive(Debug, Args)]
pub(super) struct RemoteArgs {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: RemoteCommand,
}

#[derive(Debug, Subcommand)]
enum RemoteCommand {
    /// Test the write access to an object store: of many concurrent creations of one object, exactly one must succeed.
    Probe(Place),
    /// Create the secret that all nodes of a remote share, in a file with owner-only access.
    Secret {
        /// Output file. Copy this file to every node and name it there in remote.secret_file.
        file: PathBuf,
    },
    /// List each workspace's leader and its last record.
    Status(Place),
    /// Read the records of workspaces, and check that every referenced object exists.
    Verify {
        #[command(flatten)]
        place: Place,
        /// Check only this workspace.
        #[arg(long, value_name = "SLUG", value_parser = tenant)]
        workspace: Option<Tenant>,
        /// Read all bytes and compare hashes, not only lengths.
        #[arg(long)]
        bytes: bool,
        /// Search all bytes for an erased item, by its id.
        #[arg(long, value_name = "ID")]
        erased: Option<String>,
        /// Search for a phrase of the erased item, too.
        #[arg(long, value_name = "TEXT", requires = "erased")]
        phrase: Option<String>,
    },
    /// Collect garbage now: through the running server of the given data directory, else in-process for workspaces
    /// without a leader.
    Gc {
        #[command(flatten)]
        place: Place,
        /// Collect only this workspace.
        #[arg(long, value_name = "SLUG", value_parser = tenant)]
        workspace: Option<Tenant>,
        /// Wait the five minutes after which newly seen records may be removed.
        #[arg(long)]
        wait: bool,
    },
    /// Stop waiting for a node that never returns. Erasure of the data on that node is not confirmed.
    ForgetNode {
        /// s3://BUCKET/PREFIX or file:///FOLDER.
        address: String,
        /// The node's name, as `recalld remote status` prints it.
        #[arg(value_name = "NODE", value_parser = node)]
        node: NodeId,
        /// Settings file with a table [remote] [env: RECALLD_CONFIG].
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Address of the record logs, if not beside the objects.
        #[arg(long, value_name = "ADDRESS")]
        coordinator: Option<String>,
    },
    /// Restore a workspace to a data directory, as of a given time.
    Restore {
        #[command(flatten)]
        place: Place,
        /// The time, RFC 3339 [default: now].
        #[arg(long, value_name = "TIME", value_parser = names::parse_time)]
        as_of: Option<Micros>,
        /// The workspace; it becomes `local` in the new data directory.
        #[arg(long, value_name = "SLUG", default_value = LOCAL_WORKSPACE, value_parser = tenant)]
        workspace: Tenant,
    },
}

fn tenant(text: &str) -> Result<Tenant, NotAName> {
    Tenant::new(text)
}

fn node(text: &str) -> Result<NodeId, NotAName> {
    NodeId::new(text)
}

/// The location of a remote.
#[derive(Debug, Args)]
struct Place {
    /// s3://BUCKET/PREFIX or file:///FOLDER [default: the address in the settings].
    address: Option<String>,
    /// Settings file with a table [remote] [env: RECALLD_CONFIG].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the record logs, if not beside the objects: etcd://HOST:PORT,HOST:PORT/PREFIX [default: the
    /// coordinator in the settings].
    #[arg(long, value_name = "ADDRESS")]
    coordinator: Option<String>,
}

impl Place {
    fn settings(&self) -> Result<Remote, Failure> {
        let known = Flags::of_file(self.config.as_deref()).settings()?.config.remote;
        let mut remote = match (&self.address, known) {
            (Some(address), Some(known)) => Remote { address: address.clone(), ..known },
            (Some(address), None) => Remote::at(address.clone()),
            (None, Some(known)) => known,
            (None, None) => {
                let why = "say where it is: s3://BUCKET/PREFIX, file:///FOLDER or a file of settings with [remote]";
                return Err(Failure::Usage(why.to_owned()));
            }
        };
        if let Some(coordinator) = &self.coordinator {
            remote.coordinator = Some(coordinator.clone());
        }
        Ok(remote)
    }

    fn reach(&self) -> Result<Far, Failure> {
        let settings = self.settings()?;
        let reached = seats::reached(&settings).map_err(Failure::Usage)?;
        let driver = Driver {
            chain: Arc::clone(&reached.chain),
            objects: Arc::clone(&reached.objects),
            ticks: Arc::new(BootClock),
            halt: Arc::new(Halt::default()),
        };
        Ok(Far { address: settings.address.clone(), settings, reached, driver })
    }
}

/// A connected remote.
struct Far {
    address: String,
    settings: Remote,
    reached: Reached,
    driver: Driver,
}

impl Far {
    fn could(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Could(format!("{}: {why}", self.address))
    }

    /// The workspaces on the remote, or only the requested workspace.
    fn workspaces(&self, only: Option<&Tenant>) -> Result<Vec<Tenant>, Failure> {
        seats::check_ours(&self.reached).map_err(|why| self.could(why))?;
        let there = tenants(&*self.reached.objects).map_err(|away| self.could(away))?;
        match only {
            None => Ok(there),
            Some(one) if there.contains(one) => Ok(vec![one.clone()]),
            Some(one) => Err(Failure::No(format!("{}: there is no workspace {one}", self.address))),
        }
    }
}

pub(super) fn run(args: &RemoteArgs) -> Result<(), Failure> {
    let common = &args.common;
    match &args.command {
        RemoteCommand::Probe(place) => probe(common, &place.reach()?),
        RemoteCommand::Secret { file } => make_secret(common, file),
        RemoteCommand::Status(place) => status(common, &place.reach()?),
        RemoteCommand::Verify { place, workspace, bytes, erased, phrase } => {
            let far = place.reach()?;
            let workspaces = far.workspaces(workspace.as_ref())?;
            match erased {
                Some(id) => look_for(common, &far, &workspaces, id, phrase.as_deref()),
                None => check(common, &far, &workspaces, *bytes),
            }
        }
        RemoteCommand::Gc { place, workspace, wait } => match &common.data {
            Some(data) => sweep::ask(common, data, workspace.as_ref()),
            None => sweep::run(common, &place.reach()?, workspace.as_ref(), *wait),
        },
        RemoteCommand::ForgetNode { address, node, config, coordinator } => {
            let (config, coordinator) = (config.clone(), coordinator.clone());
            let place = Place { address: Some(address.clone()), config, coordinator };
            sweep::forget_node(common, &place.reach()?, node)
        }
        RemoteCommand::Restore { place, as_of, workspace } => {
            bring_back(common, &place.reach()?, workspace, *as_of)
        }
    }
}

fn make_secret(common: &Common, file: &Path) -> Result<(), Failure> {
    let mut random = |bytes: &mut [u8]| SystemRandom.fill(bytes);
    ClusterSecret::make(file, &mut random).map_err(Failure::Could)?;
    if common.json {
        return tell_line(&json!({"file": file.to_string_lossy()}));
    }
    let file = shell_word(file);
    tell_line(&format_args!(
        "made {file}; bring the same file to every node, and start each with --set remote.secret_file={file}"
    ))
}

fn probe(common: &Common, far: &Far) -> Result<(), Failure> {
    far.reached.probe().map_err(|unfit| far.could(unfit))?;
    let address = &far.address;
    if common.json {
        return tell_line(&json!({"address": address, "may_write": true}));
    }
    tell_line(&format_args!(
        "{address}: it can be written to; of those who create the same, one does"
    ))
}

fn status(common: &Common, far: &Far) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for tenant in far.workspaces(None)? {
        let found = far
            .driver
            .run(&tenant, async |port| recalld_replication::core::find(&port, None).await);
        let found = found.ok_or_else(|| far.could(NotRestored::Over))?;
        let found = found.map_err(|lost| far.could(NotRestored::from(lost)))?;
        let Some(found) = found else { continue };
        let head = &found.newest.head;
        let edge = far.driver.chain.edge(&tenant).map_err(|away| far.could(away))?;
        let is_gone = found.is_gone(&edge);
        let erased =
            far.driver.run(&tenant, async |port| recalld_replication::core::reached(&port).await);
        let erased = erased.ok_or_else(|| far.could(NotRestored::Over))?;
        let erased = erased.map_err(|away| far.could(away))?;
        rows.push(json!({
            "workspace": tenant.as_str(), "node": head.node.as_str(), "url": head.url,
            "given": found.newest.given.is_some(), "epoch": head.epoch, "record": head.number,
            "seq": head.seq, "at": names::time(Micros(head.at)),
            "emptied": is_gone, "emptying": found.emptied_by().is_some() && !is_gone,
            "erased": erased.as_ref().map(sweep::erased),
        }));
    }
    if common.json {
        return tell_line(&json!({"address": far.address, "workspaces": rows}));
    }
    if rows.is_empty() {
        return tell_line(&format_args!("{}: no workspace was carried there yet", far.address));
    }
    rows.iter().try_for_each(|row| tell_line(&readable(row)))
}

fn readable(row: &Value) -> String {
    let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| row[key].as_u64().unwrap_or_default();
    let by = match row["given"] == true {
        // The name of the purging node belongs to no server, so it is not printed.
        _ if row["emptied"] == true => "deleted, and emptied".to_owned(),
        _ if row["emptying"] == true => "deleted, being emptied".to_owned(),
        true => format!("given away by node {}", word("node")),
        false => format!("written by node {} {}", word("node"), word("url")),
    };
    format!(
        "{}: {}, epoch {}, record {}, commit {}, {}",
        word("workspace"),
        by.trim_end(),
        number("epoch"),
        number("record"),
        number("seq"),
        word("at"),
    ) + &sweep::erased_readable(&row["erased"])
}

fn check(common: &Common, far: &Far, workspaces: &[Tenant], bytes: bool) -> Result<(), Failure> {
    let look = if bytes { Look::Bytes } else { Look::Lengths };
    let mut is_sound = true;
    for tenant in workspaces {
        let checked = verify(&far.driver, tenant, look).map_err(|why| far.could(why))?;
        let ledgers = ledgers::look(far, tenant, bytes)?;
        is_sound &= checked.findings.is_empty();
        is_sound &= ledgers.iter().all(|ledger| ledger.finding.is_none());
        tell_checked(common, tenant, &checked, &ledgers)?;
    }
    if is_sound { Ok(()) } else { Err(Failure::No("damage was found".to_owned())) }
}

fn tell_checked(
    common: &Common,
    tenant: &Tenant,
    checked: &Checked,
    ledgers: &[Seen],
) -> Result<(), Failure> {
    let Checked { records, objects, bytes, findings, .. } = checked;
    if common.json {
        return tell_line(&json!({
            "workspace": tenant.as_str(), "records": records, "objects": objects, "bytes": bytes,
            "findings": findings, "ledgers": ledgers.iter().map(Seen::to_json).collect::<Vec<_>>(),
        }));
    }
    let found = match findings.len() {
        0 => "all as it must be".to_owned(),
        more => counted(more as u64, "finding"),
    };
    let (records, objects) = (counted(*records, "record"), counted(*objects, "object"));
    tell_line(&format_args!("{tenant}: {records}, {objects}, {bytes} bytes: {found}"))?;
    findings.iter().try_for_each(|finding| tell_line(&format_args!("  {finding}")))?;
    ledgers.iter().try_for_each(|ledger| tell_line(&format_args!("  {ledger}")))
}

fn look_for(
    common: &Common,
    far: &Far,
    workspaces: &[Tenant],
    id: &str,
    phrase: Option<&str>,
) -> Result<(), Failure> {
    let number = names::parse_item(id).map_err(|why| Failure::Usage(format!("--erased: {why}")))?;
    let scratch = Scratch::create("recalld-erased")?;
    let (mut found, mut has_tombstone) = (Vec::new(), false);
    for tenant in workspaces {
        let folder = scratch.path().join(tenant.as_str());
        let disk: Arc<dyn Disk> = Arc::new(FsDisk::open(&folder).map_err(Failure::could)?);
        let left = find_erased(&far.driver, tenant, (number.0, phrase), &disk);
        let left = left.map_err(|why| far.could(why))?;
        has_tombstone |= left.has_tombstone;
        found.extend(left.found.iter().map(|what| format!("{tenant}: {what}")));
    }
    if common.json {
        tell_line(&json!({"id": id, "found": found, "has_tombstone": has_tombstone}))?;
    }
    if !has_tombstone && found.is_empty() {
        return Err(Failure::No(format!(
            "nothing in {} says that {id} was ever erased, so nothing is proven; see that the id is right",
            far.address
        )));
    }
    if found.is_empty() {
        return match common.json {
            true => Ok(()),
            false => tell_line(&format_args!("nothing of {id} is left in {}", far.address)),
        };
    }
    Err(Failure::No(format!("{id} is still in {}: {}", far.address, found.join("; "))))
}

fn bring_back(
    common: &Common,
    far: &Far,
    workspace: &Tenant,
    as_of: Option<Micros>,
) -> Result<(), Failure> {
    if workspace.is_control() {
        let why = "the control store is no workspace: a node that is started with the remote and its secret has it";
        return Err(Failure::Usage(why.to_owned()));
    }
    let data = common.data()?;
    let fresh = Fresh::at(&data).map_err(Failure::could)?;
    let store = workspace_dir(fresh.path()).join("store");
    let disk: Arc<dyn Disk> = Arc::new(FsDisk::open(&store).map_err(Failure::could)?);
    let name = Hex::<8>::drawn(&SystemRandom);
    let node = NodeId::new(format!("restore-{name}")).expect("letters and digits");
    let as_of = as_of.map(|at| at.0);
    let mark = restore(&far.driver, workspace, &node, as_of, (&disk, &SystemRandom));
    let mark = mark.map_err(|why| match why {
        NotRestored::TooOld(at) => {
            let at = names::time(Micros(at));
            Failure::No(format!(
                "{}: nothing as old as that is kept; the oldest is of {at}",
                far.address
            ))
        }
        NotRestored::Emptied => {
            Failure::No(format!("{}: workspace {workspace}: {why}", far.address))
        }
        NotRestored::Missing => {
            Failure::No(format!("{}: there is no workspace {workspace}", far.address))
        }
        why => far.could(why),
    })?;
    drop(disk);
    let brought = workspace_dir(fresh.path()).join("ledgers");
    let count = ledgers::bring_back(far, workspace, &brought)?;
    fresh.put_in_place().map_err(Failure::could)?;
    tell_restored(common, &data, &mark.head, count)
}

fn tell_restored(
    common: &Common,
    data: &Path,
    head: &recalld_replication::Head,
    ledgers: usize,
) -> Result<(), Failure> {
    let at = names::time(Micros(head.at));
    if common.json {
        let data = data.to_string_lossy();
        return tell_line(&json!({
            "data": data, "record": head.number, "seq": head.seq, "at": at, "ledgers": ledgers,
        }));
    }
    let brought = workspace_dir(data).join("ledgers");
    let ledgers = counted(ledgers as u64, "ledger");
    tell_line(&format_args!("{ledgers} of its nodes: {}", shell_word(&brought)))?;
    let data = shell_word(data);
    tell_line(&format_args!(
        "commit {} of {at} is in {data}; no keys are on a remote: the first start makes new credentials and a new \
         signing key\nstart it with: recalld serve --data {data}",
        head.seq
    ))
}
