//! The tenants' part of a backup: a snapshot of the metastore, and then the store and the ledger of each workspace.
//!
//! In this order, no recorded checkpoint lies past the end of its ledger. Must not know how one store or one ledger is
//! copied.

use std::fs;
use std::path::Path;

use engine::ledger::LedgerReader;

use crate::catalogue::Part;
use crate::copying::{Copies, MAKE_ROOM, copy_file, copy_store_to};
use crate::keep_error::KeepError;
use crate::keeping::Keeper;
use crate::trusted::{trusted_keys, verify_ledger_in};
use crate::workspaces::{Lent, Others};
use recalld_auth::{Credentials, FORMER_KEYS};
use recalld_fs_util::copies;
use recalld_fs_util::data_dir::{CONTROL_FILE, tenant_dir};

/// Temporary file of the metastore snapshot, until it is compared with the previous backup's.
const FRESH: &str = "new.snapshot.redb";
const SIGNING_KEY: &str = "keys/signing.key";

/// Copies the metastore and all workspaces; nothing if there is no metastore.
pub(super) fn copy_tenants(
    keeper: &Keeper<'_>,
    to: &Path,
    with_keys: bool,
    copies: &mut Copies,
) -> Result<Vec<Part>, KeepError> {
    let Some(others) = keeper.others else { return Ok(Vec::new()) };
    // A workspace created after this list is empty so far, and is part of the next backup.
    let names = others.names()?;
    copy_control(&others, to, with_keys, copies)?;
    let mut parts = Vec::with_capacity(names.len());
    for name in names {
        parts.extend(copy_tenant(keeper, &others, &name, (to, with_keys), copies)?);
    }
    Ok(parts)
}

/// Copies a snapshot of the metastore. Without `with_keys`, it has hashes of keys only, none of which grants access.
fn copy_control(
    others: &Others<'_>,
    to: &Path,
    with_keys: bool,
    copies: &mut Copies,
) -> Result<(), KeepError> {
    let fresh = to.join(FRESH);
    let failed = |why: &dyn std::fmt::Display| {
        KeepError::failed(format!("the control store: {why}"), MAKE_ROOM)
    };
    let remove = || match fs::remove_file(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    remove().map_err(|why| failed(&why))?;
    others.control.copy_to(&fresh, with_keys).map_err(|why| failed(&why))?;
    copy_file(&fresh, to, CONTROL_FILE, copies)?;
    remove().map_err(|why| failed(&why))
}

/// Copies a workspace; `None` if it has neither a store nor a ledger.
fn copy_tenant(
    keeper: &Keeper<'_>,
    others: &Others<'_>,
    name: &str,
    (to, with_keys): (&Path, bool),
    copies: &mut Copies,
) -> Result<Option<Part>, KeepError> {
    let (from, target) = (tenant_dir(keeper.data, name), tenant_dir(to, name));
    let has_store = from.join("store").is_dir();
    let ledger = from.join("ledger");
    if !has_store && !ledger.is_dir() {
        return Ok(None);
    }
    let failed = |why: String| KeepError::failed(format!("the workspace {name}: {why}"), MAKE_ROOM);
    let copied = match has_store {
        true => others.with(name, |lent| copy_open(keeper, lent, (to, &target), copies)),
        // The store of a deleted workspace is gone. The ledger remains, and has no writer.
        false => {
            let reader = LedgerReader::open(&ledger).map_err(|error| failed(error.to_string()))?;
            let files = reader.files().map(|(path, bytes)| (path.to_owned(), bytes)).collect();
            copies.ledger(to, &target.join("ledger"), files)?;
            let own = Credentials::signing_key(&from).map_err(|error| failed(error.to_string()))?;
            Ok((None, own.map(|signer| signer.public())))
        }
    };
    let (seq, own) = copied?;
    let public_keys = trusted_keys(&from, own).map_err(failed)?;
    verify_ledger_in(&target.join("ledger"), &public_keys)
        .map_err(|why| failed(format!("the copied ledger: {why}; run `recalld verify`")))?;
    let keys = if with_keys { &[FORMER_KEYS, SIGNING_KEY][..] } else { &[FORMER_KEYS] };
    for key in keys {
        let path = format!("tenants/{name}/{key}");
        copy_file(&keeper.data.join(&path), to, &path, copies)?;
    }
    Ok(Some(Part { name: name.to_owned(), seq, public_keys }))
}

type Copied = (Option<u64>, Option<[u8; 32]>);

fn copy_open(
    keeper: &Keeper<'_>,
    lent: &Lent<'_>,
    (to, target): (&Path, &Path),
    copies: &mut Copies,
) -> Result<Copied, KeepError> {
    let erased = lent.store.erase_pending(&keeper.pace("erasing", lent.store.bytes_on_disk()));
    erased.map_err(|error| KeepError::failed(error, "try again"))?;
    let copied = copy_store_to(keeper, lent.store, &target.join("store"));
    let copied = copied.map_err(|(error, _)| error)?;
    copies.store(&copied);
    let files = lent.audit.settled_files().map_err(|why| KeepError::failed(why, MAKE_ROOM))?;
    copies.ledger(to, &target.join("ledger"), files)?;
    Ok((Some(copied.seq), Some(lent.signer.public())))
}

/// Removes workspaces that the manifest no longer names, and the stores of deleted workspaces.
pub(super) fn remove_gone(to: &Path, parts: &[Part], local: &str) -> Result<(), KeepError> {
    let folder = to.join("tenants");
    let failed = |why: String| KeepError::failed(why, MAKE_ROOM);
    let entries = fs::read_dir(&folder).map_err(copies::at(&folder)).map_err(failed)?;
    for entry in entries {
        let path = entry.map_err(copies::at(&folder)).map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let part = parts.iter().find(|part| part.name == name);
        let gone = match part {
            _ if name == local => continue,
            Some(Part { seq: Some(_), .. }) => continue,
            Some(_) => path.join("store"),
            None => path.clone(),
        };
        match fs::remove_dir_all(&gone) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(copies::at(&gone)(error)));
            }
            _ => {}
        }
    }
    Ok(())
}
