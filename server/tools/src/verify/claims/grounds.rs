use engine::{ItemId, RowAddress, Status};

use recalld_audit::{TenantHash, check};
use recalld_policy::{Action, Verdict};
use recalld_recall::{AccessView, show};
use recalld_tool_framework::reading::NO_SUCH_ITEM;
use recalld_tool_framework::{ANSWER_KIND, ServiceError, ToolContext};

/// Result of resolving a grounding token.
pub(super) enum Ground {
    /// The cited item, with the caller's read verdict.
    Of(RowAddress, Verdict),
    /// Invalid token, with the reason.
    Not(String),
}

/// Resolves a token to its item. If the item was forgotten, or the caller may not know of it, the item is reported as
/// missing.
pub(super) fn ground(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    token: &str,
    tenant: &TenantHash,
) -> Result<Ground, ServiceError> {
    let grounded = match check(token, &context.workspace.signer.verifier(), tenant) {
        Ok(grounded) => grounded,
        Err(fault) => return Ok(Ground::Not(fault.to_string())),
    };
    let missing = || Ok(Ground::Not(NO_SUCH_ITEM.to_owned()));
    let Some(place) = snapshot.find(ItemId(u128::from_le_bytes(grounded.item)))? else {
        return missing();
    };
    let item = snapshot.item(place)?;
    let is_gone = snapshot.status(place)? == Status::Tombstoned || item.kind == ANSWER_KIND;
    let verdict = snapshot.judge(&item, Action::Read).0;
    if is_gone || verdict == Verdict::Deny {
        return missing();
    }
    if !grounded.is_of(&show::content_sha256(&item, verdict)) {
        return Ok(Ground::Not(
            "the token is of another text than the item has for you".to_owned(),
        ));
    }
    Ok(Ground::Of(place, verdict))
}
