//! Requests of the administration API.

use serde::Deserialize;
use serde_json::Value;

use super::office::AdminError;
use recalld_metastore::{Kind, check_slug};

/// An act, as parsed from a request.
#[derive(Debug, Deserialize)]
#[serde(tag = "act")]
pub(super) enum Act {
    #[serde(rename = "tenant create")]
    TenantCreate(NewTenant),
    #[serde(rename = "tenant list")]
    TenantList(Page),
    #[serde(rename = "tenant show")]
    TenantShow(OfTenant),
    #[serde(rename = "tenant suspend")]
    TenantSuspend(OfTenant),
    #[serde(rename = "tenant resume")]
    TenantResume(OfTenant),
    #[serde(rename = "tenant delete")]
    TenantDelete(Removal),
    #[serde(rename = "tenant email")]
    TenantEmail(EmailOfTenant),
    #[serde(rename = "tenant verify")]
    TenantVerify(OfTenant),
    #[serde(rename = "tenant end-tokens")]
    TenantEndTokens(OfTenant),
    #[serde(rename = "grant list")]
    GrantList(PageOfTenant),
    #[serde(rename = "grant revoke")]
    GrantRevoke(OfKey),
    #[serde(rename = "clock accept")]
    ClockAccept(Nothing),
    #[serde(rename = "key issue")]
    KeyIssue(NewKey),
    #[serde(rename = "key rotate")]
    KeyRotate(NextKey),
    #[serde(rename = "key revoke")]
    KeyRevoke(OfKey),
    #[serde(rename = "key list")]
    KeyList(PageOfTenant),
    #[serde(rename = "key rotate-signing")]
    KeyRotateSigning(Nothing),
    #[serde(rename = "client list")]
    ClientList(Page),
    #[serde(rename = "client revoke")]
    ClientRevoke(OfClient),
    #[serde(rename = "plan list")]
    PlanList(Nothing),
    #[serde(rename = "plan show")]
    PlanShow(OfPlan),
    #[serde(rename = "plan set")]
    PlanSet(PlanOfTenant),
    #[serde(rename = "anchor list")]
    AnchorList(Page),
    #[serde(rename = "quota show")]
    QuotaShow(OfTenant),
    #[serde(rename = "quota set")]
    QuotaSet(QuotaOfTenant),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    pub(super) after: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfTenant {
    pub(super) slug: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Removal {
    pub(super) slug: String,
    /// The slug, repeated.
    pub(super) confirm: String,
    /// Deletes an already deleted workspace again, including later writes of other nodes.
    #[serde(default)]
    pub(super) again: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageOfTenant {
    pub(super) slug: String,
    pub(super) after: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTenant {
    pub(super) slug: String,
    pub(super) title: Option<String>,
    pub(super) plan: Option<String>,
    pub(super) email: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmailOfTenant {
    pub(super) slug: String,
    /// Null for the stored address.
    pub(super) email: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewKey {
    pub(super) slug: String,
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) expires: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NextKey {
    pub(super) slug: String,
    /// Null for the scopes of the previous key.
    pub(super) scopes: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfKey {
    pub(super) slug: String,
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfClient {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfPlan {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanOfTenant {
    pub(super) slug: String,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuotaOfTenant {
    pub(super) slug: String,
    /// Null for the plan's quota.
    pub(super) calls: Option<u64>,
}

impl Act {
    pub(super) fn parse(raw: &Value) -> Result<Self, AdminError> {
        Self::deserialize(raw).map_err(|error| AdminError::wrong("act", error.to_string()))
    }

    /// Returns true if the act may be the first one in a data directory.
    pub(super) fn may_make_store(&self) -> bool {
        matches!(self, Self::TenantCreate(new) if check_slug(&new.slug).is_ok())
    }

    /// Name in the ledger.
    pub(super) fn tool(&self) -> &'static str {
        match self {
            Self::TenantCreate(_) => "recalld tenant create",
            Self::TenantList(_) => "recalld tenant list",
            Self::TenantShow(_) => "recalld tenant show",
            Self::TenantSuspend(_) => "recalld tenant suspend",
            Self::TenantResume(_) => "recalld tenant resume",
            Self::TenantDelete(_) => "recalld tenant delete",
            Self::TenantEmail(_) => "recalld tenant email",
            Self::TenantVerify(_) => "recalld tenant verify",
            Self::KeyIssue(_) => "recalld key issue",
            Self::KeyRotate(_) => "recalld key rotate",
            Self::KeyRevoke(_) => "recalld key revoke",
            Self::KeyList(_) => "recalld key list",
            Self::KeyRotateSigning(_) => "recalld key rotate-signing",
            Self::ClientList(_) => "recalld client list",
            Self::ClientRevoke(_) => "recalld client revoke",
            Self::PlanList(_) => "recalld plan list",
            Self::PlanShow(_) => "recalld plan show",
            Self::PlanSet(_) => "recalld plan set",
            Self::AnchorList(_) => "recalld ledger anchors",
            Self::QuotaShow(_) => "recalld quota show",
            Self::QuotaSet(_) => "recalld quota set",
            Self::ClockAccept(_) => "recalld clock accept",
            Self::TenantEndTokens(_) => "recalld tenant end-tokens",
            Self::GrantList(_) => "recalld grant list",
            Self::GrantRevoke(_) => "recalld grant revoke",
        }
    }

    /// Name of the ledger entry before the act begins; `None` if the act changes nothing.
    pub(super) fn begun(&self) -> Option<&'static str> {
        match self {
            Self::TenantCreate(_) => Some("recalld tenant create: begun"),
            Self::TenantSuspend(_) => Some("recalld tenant suspend: begun"),
            Self::TenantResume(_) => Some("recalld tenant resume: begun"),
            Self::TenantDelete(_) => Some("recalld tenant delete: begun"),
            Self::TenantEmail(_) => Some("recalld tenant email: begun"),
            Self::TenantVerify(_) => Some("recalld tenant verify: begun"),
            Self::KeyIssue(_) => Some("recalld key issue: begun"),
            Self::KeyRotate(_) => Some("recalld key rotate: begun"),
            Self::KeyRevoke(_) => Some("recalld key revoke: begun"),
            Self::KeyRotateSigning(_) => Some("recalld key rotate-signing: begun"),
            Self::ClientRevoke(_) => Some("recalld client revoke: begun"),
            Self::PlanSet(_) => Some("recalld plan set: begun"),
            Self::QuotaSet(_) => Some("recalld quota set: begun"),
            Self::ClockAccept(_) => Some("recalld clock accept: begun"),
            Self::TenantEndTokens(_) => Some("recalld tenant end-tokens: begun"),
            Self::GrantRevoke(_) => Some("recalld grant revoke: begun"),
            Self::TenantList(_)
            | Self::TenantShow(_)
            | Self::KeyList(_)
            | Self::GrantList(_)
            | Self::ClientList(_)
            | Self::PlanList(_)
            | Self::PlanShow(_)
            | Self::AnchorList(_)
            | Self::QuotaShow(_) => None,
        }
    }
}
