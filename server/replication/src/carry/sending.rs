use std::sync::PoisonError;

use super::shared::{Inner, Shared};
use super::state::Sent;
use crate::limits::{PAUSE_MAX, PAUSE_MIN};
use crate::parts::{Shelf, Untransferred, hash_of};

/// Uploads files and log objects until the shipper stops.
pub(super) fn run(shared: &Shared) {
    let mut pause = PAUSE_MIN;
    while shared.sends() {
        match send_next(shared) {
            Ok(true) => pause = PAUSE_MIN,
            Ok(false) => wait_for_more(shared),
            Err(Untransferred::Stopped) => {}
            Err(why) => {
                shared.change(|inner| inner.trouble = Some(why.to_string()));
                shared.driver.halt.wait(pause);
                pause = PAUSE_MAX.min(pause * 2);
            }
        }
    }
}

fn wait_for_more(shared: &Shared) {
    let inner = shared.lock();
    let is_idle = |inner: &mut Inner| {
        let state = &inner.state;
        let is_idle = state.next_fold().is_none() && state.next_file().is_none();
        inner.sends() && is_idle && !state.is_list_due
    };
    let _woken = shared.changed.wait_while(inner, is_idle).unwrap_or_else(PoisonError::into_inner);
}

/// Uploads the next log object or file. Returns false if there was none. Log objects come first, since a full record
/// waits for them while steps grow in number.
fn send_next(shared: &Shared) -> Result<bool, Untransferred> {
    let shelf = Shelf { objects: &*shared.driver.objects, tenant: &shared.tenant };
    let (fold, file, is_list_due) = {
        let state = &shared.lock().state;
        (state.next_fold(), state.next_file(), state.is_list_due)
    };
    if is_list_due {
        shared.write_list();
    }
    if let Some((number, file, folding)) = fold {
        folding.upload.send(shelf, &*file, &|| shared.sends(), &|_| ())?;
        let hash = hash_of(&*file, folding.from, folding.to.end)?;
        shared.change(|inner| inner.state.folded(number, &folding, hash));
        return Ok(true);
    }
    let Some((name, way)) = file else { return Ok(false) };
    // The upload is cancelled if a newer manifest does not need the file.
    let is_wanted = || {
        let inner = shared.lock();
        let same = |sent: &Sent| sent.is_on(&way);
        inner.sends() && inner.state.files.get(&name).is_some_and(same)
    };
    way.upload.send(shelf, &*way.file, &is_wanted, &|bytes| shared.put(bytes))?;
    let hash = hash_of(&*way.file, 0, way.file.bytes())?;
    if let Some(wanted) = way.sha256.filter(|&wanted| wanted != hash) {
        let why = format!("{name} on this disk hashes to {hash}, its manifest says {wanted}");
        return Err(Untransferred::Other(why));
    }
    shared.change(|inner| inner.state.file_sent(&name, &way, hash));
    Ok(true)
}
