//! Workspaces with their state and plan (CTL-10 to CTL-12).

use serde::{Deserialize, Serialize};

use super::error::ControlError;
use super::record::Record;
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::{LISTED_MAX, Look};
use super::text::{LINE_BYTES_MAX, check_line, check_word};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::slug::slug_fault;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of workspaces, including deleted ones. Some thousands are usual; a list of the maximum is read in
    /// a second.
    pub const TENANTS_MAX: u64 = 100_000;
}

/// State of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantState {
    /// The workspace is usable.
    Active,
    /// The workspace is suspended, and can be resumed.
    Suspended,
    /// The workspace is deleted permanently; its slug is not reused.
    Deleted,
}

/// A workspace. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Name in credentials and paths.
    pub slug: String,
    /// Display name.
    pub title: String,
    /// Name of the plan.
    pub plan: String,
    /// The state.
    pub state: TenantState,
    /// Time of the creation.
    pub made_at: u64,
    /// Time of the deletion.
    #[serde(default)]
    pub deleted_at: Option<u64>,
    /// Time of the first check that found nothing of the workspace in the object store.
    #[serde(default)]
    pub emptied_at: Option<u64>,
    /// Time of the second, later check.
    #[serde(default)]
    pub looked_again_at: Option<u64>,
    /// Access tokens with an earlier issue time are inactive.
    #[serde(default)]
    pub tokens_not_before: u64,
    /// Email address.
    #[serde(default)]
    pub email: Option<String>,
    /// Time of the confirmation of the email address.
    #[serde(default)]
    pub email_verified_at: Option<u64>,
    /// Quota of calls per calendar month, instead of the plan's.
    #[serde(default)]
    pub calls_per_month: Option<u64>,
    /// The key in `mails` of the outstanding confirmation link.
    #[serde(default)]
    pub(super) mail: Option<super::Hash>,
}

impl Record for Tenant {
    const ENTRY: TableEntry = schema::TENANTS;
}

/// Properties of a new workspace.
#[derive(Debug, Clone, Copy)]
pub struct NewTenant<'a> {
    /// Slug, valid by [`check_slug`].
    pub slug: &'a str,
    /// Display name.
    pub title: &'a str,
    /// Name of the plan; the caller checks that the plan exists.
    pub plan: &'a str,
}

/// Checks that `slug` is a valid name of a workspace (CTL-10).
///
/// # Errors
/// `Refused`, with the permitted form.
pub fn check_slug(slug: &str) -> Result<(), ControlError> {
    if let Some(why) = slug_fault(slug) {
        return Err(ControlError::refused("slug", why));
    }
    if slug == LOCAL_WORKSPACE {
        return Err(ControlError::refused("slug", "this name is the operator's"));
    }
    Ok(())
}

/// Looks up a workspace in any state.
pub(super) fn find_tenant(look: &impl Look, slug: &str) -> Result<Option<Tenant>, ControlError> {
    let found: Option<Tenant> = look.find(slug.as_bytes())?;
    if found.as_ref().is_some_and(|tenant| tenant.slug != slug) {
        return Err(ControlError::damaged(Tenant::TABLE, "a record lies at another's key"));
    }
    Ok(found)
}

/// Looks up a workspace that is not deleted.
pub(super) fn living(look: &impl Look, slug: &str) -> Result<Tenant, ControlError> {
    let found = find_tenant(look, slug)?;
    found
        .filter(|tenant| tenant.state != TenantState::Deleted)
        .ok_or_else(|| ControlError::refused("slug", "there is no such workspace"))
}

impl Control {
    /// Creates a workspace.
    ///
    /// # Errors
    /// `Refused` if a field is invalid, or the slug is or was used; otherwise a store error.
    pub fn create_tenant(&self, new: &NewTenant<'_>) -> Result<Tenant, ControlError> {
        check_slug(new.slug)?;
        check_line("title", new.title, LINE_BYTES_MAX)?;
        check_word("plan", new.plan)?;
        let tenant = Tenant {
            slug: new.slug.to_owned(),
            title: new.title.to_owned(),
            plan: new.plan.to_owned(),
            state: TenantState::Active,
            made_at: self.now(),
            deleted_at: None,
            emptied_at: None,
            looked_again_at: None,
            tokens_not_before: 0,
            email: None,
            email_verified_at: None,
            calls_per_month: None,
            mail: None,
        };
        self.write(|change| {
            if find_tenant(change, new.slug)?.is_some() {
                let why = "it is or was the name of a workspace; take another";
                return Err(ControlError::refused("slug", why));
            }
            if change.count(Tenant::TABLE)? >= TENANTS_MAX {
                let why =
                    format!("there are {TENANTS_MAX} workspaces, the deleted ones among them");
                return Err(ControlError::refused("slug", why));
            }
            change.put(new.slug.as_bytes(), &tenant)
        })?;
        Ok(tenant)
    }

    /// Looks up a workspace in any state.
    ///
    /// # Errors
    /// A store error.
    pub fn find_tenant(&self, slug: &str) -> Result<Option<Tenant>, ControlError> {
        self.read(|view| find_tenant(view, slug))
    }

    /// Workspaces in order of slug, after `after`; at most `limit` or [`LISTED_MAX`].
    ///
    /// # Errors
    /// A store error.
    pub fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, ControlError> {
        let after = after.map(str::as_bytes);
        let found = self.read(|view| view.list::<Tenant>(b"", after, limit.min(LISTED_MAX)))?;
        Ok(found.into_iter().map(|(_, tenant)| tenant).collect())
    }

    /// Suspends a workspace: its credentials and tokens are inactive until a resume.
    ///
    /// # Errors
    /// `Refused` if there is no such workspace; otherwise a store error.
    pub fn suspend_tenant(&self, slug: &str) -> Result<Tenant, ControlError> {
        self.change_tenant(slug, |tenant| tenant.state = TenantState::Suspended)
    }

    /// Resumes a workspace.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`].
    pub fn resume_tenant(&self, slug: &str) -> Result<Tenant, ControlError> {
        self.change_tenant(slug, |tenant| tenant.state = TenantState::Active)
    }

    /// Changes a workspace's plan.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`], and `Refused` if `plan` is not a word.
    pub fn set_plan(&self, slug: &str, plan: &str) -> Result<Tenant, ControlError> {
        check_word("plan", plan)?;
        self.change_tenant(slug, |tenant| plan.clone_into(&mut tenant.plan))
    }

    /// Sets a workspace's own quota; `None` restores that of the plan.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`].
    pub fn set_quota(&self, slug: &str, calls: Option<u64>) -> Result<Tenant, ControlError> {
        self.change_tenant(slug, |tenant| tenant.calls_per_month = calls)
    }

    /// Changes a workspace's title.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`], and `Refused` if `title` is invalid.
    pub fn set_title(&self, slug: &str, title: &str) -> Result<Tenant, ControlError> {
        check_line("title", title, LINE_BYTES_MAX)?;
        self.change_tenant(slug, |tenant| title.clone_into(&mut tenant.title))
    }

    /// Ends all access tokens issued for the workspace so far, including this second.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`].
    pub fn end_tokens(&self, slug: &str) -> Result<Tenant, ControlError> {
        let from = self.now().saturating_add(1);
        let later = |tenant: &mut Tenant| {
            tenant.tokens_not_before = tenant.tokens_not_before.max(from);
        };
        self.change_tenant(slug, later)
    }

    fn change_tenant(
        &self,
        slug: &str,
        edit: impl FnOnce(&mut Tenant),
    ) -> Result<Tenant, ControlError> {
        self.write(|change| {
            let mut tenant = living(change, slug)?;
            edit(&mut tenant);
            change.put(slug.as_bytes(), &tenant)?;
            Ok(tenant)
        })
    }
}
