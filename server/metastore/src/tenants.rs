//! Workspaces: who there is, in which state, on which plan (CTL-10 to CTL-12).

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

    /// Workspaces, the deleted ones among them: some thousands are usual, and a list of all is read in a second.
    pub const TENANTS_MAX: u64 = 100_000;
}

/// What may become of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantState {
    /// It can be used.
    Active,
    /// It is stopped, and can go on.
    Suspended,
    /// It is gone for good; its slug is not used again.
    Deleted,
}

/// A workspace. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name in credentials and paths.
    pub slug: String,
    /// Its name for people.
    pub title: String,
    /// The name of its plan.
    pub plan: String,
    /// What became of it.
    pub state: TenantState,
    /// When it was made.
    pub made_at: u64,
    /// When it was deleted.
    #[serde(default)]
    pub deleted_at: Option<u64>,
    /// When it was known first that the object store has nothing of it any more.
    #[serde(default)]
    pub emptied_at: Option<u64>,
    /// When it was looked through once more after that.
    #[serde(default)]
    pub looked_again_at: Option<u64>,
    /// Tokens that were issued before are good no more.
    #[serde(default)]
    pub tokens_not_before: u64,
    /// Whom to write to.
    #[serde(default)]
    pub email: Option<String>,
    /// When it was shown that mail to this address is read.
    #[serde(default)]
    pub email_verified_at: Option<u64>,
    /// Calls of a calendar month, instead of the plan's.
    #[serde(default)]
    pub calls_per_month: Option<u64>,
    /// The key in `mails` of the link that is out.
    #[serde(default)]
    pub(super) mail: Option<super::Hash>,
}

impl Record for Tenant {
    const ENTRY: TableEntry = schema::TENANTS;
}

/// What a new workspace is to be.
#[derive(Debug, Clone, Copy)]
pub struct NewTenant<'a> {
    /// As [`check_slug`] wants it.
    pub slug: &'a str,
    /// Its name for people.
    pub title: &'a str,
    /// The name of its plan; whether there is one is the caller's to know.
    pub plan: &'a str,
}

/// Whether `slug` can be the name of a workspace (CTL-10).
///
/// # Errors
/// `Refused`, with what is allowed.
pub fn check_slug(slug: &str) -> Result<(), ControlError> {
    if let Some(why) = slug_fault(slug) {
        return Err(ControlError::refused("slug", why));
    }
    if slug == LOCAL_WORKSPACE {
        return Err(ControlError::refused("slug", "this name is the operator's"));
    }
    Ok(())
}

/// The workspace, whatever became of it.
pub(super) fn find_tenant(look: &impl Look, slug: &str) -> Result<Option<Tenant>, ControlError> {
    let found: Option<Tenant> = look.find(slug.as_bytes())?;
    if found.as_ref().is_some_and(|tenant| tenant.slug != slug) {
        return Err(ControlError::damaged(Tenant::TABLE, "a record lies at another's key"));
    }
    Ok(found)
}

/// The workspace, if it is not deleted.
pub(super) fn living(look: &impl Look, slug: &str) -> Result<Tenant, ControlError> {
    let found = find_tenant(look, slug)?;
    found
        .filter(|tenant| tenant.state != TenantState::Deleted)
        .ok_or_else(|| ControlError::refused("slug", "there is no such workspace"))
}

impl Control {
    /// Makes a workspace.
    ///
    /// # Errors
    /// `Refused` where a field is not as it must be, or the slug is or was used; else a fault of the store.
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

    /// The workspace of this name, whatever became of it.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn find_tenant(&self, slug: &str) -> Result<Option<Tenant>, ControlError> {
        self.read(|view| find_tenant(view, slug))
    }

    /// Workspaces in order of their slugs, those after `after`: `limit` or [`LISTED_MAX`] at most.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn tenants(&self, after: Option<&str>, limit: usize) -> Result<Vec<Tenant>, ControlError> {
        let after = after.map(str::as_bytes);
        let found = self.read(|view| view.list::<Tenant>(b"", after, limit.min(LISTED_MAX)))?;
        Ok(found.into_iter().map(|(_, tenant)| tenant).collect())
    }

    /// Stops a workspace: from here on nothing of it stands, until it is resumed.
    ///
    /// # Errors
    /// `Refused` where there is none; else a fault of the store.
    pub fn suspend_tenant(&self, slug: &str) -> Result<Tenant, ControlError> {
        self.change_tenant(slug, |tenant| tenant.state = TenantState::Suspended)
    }

    /// Lets a workspace go on.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`].
    pub fn resume_tenant(&self, slug: &str) -> Result<Tenant, ControlError> {
        self.change_tenant(slug, |tenant| tenant.state = TenantState::Active)
    }

    /// Gives a workspace another plan.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`], and `Refused` where `plan` is no word.
    pub fn set_plan(&self, slug: &str, plan: &str) -> Result<Tenant, ControlError> {
        check_word("plan", plan)?;
        self.change_tenant(slug, |tenant| plan.clone_into(&mut tenant.plan))
    }

    /// Gives a workspace a quota of its own, or the plan's.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`].
    pub fn set_quota(&self, slug: &str, calls: Option<u64>) -> Result<Tenant, ControlError> {
        self.change_tenant(slug, |tenant| tenant.calls_per_month = calls)
    }

    /// Gives a workspace another title.
    ///
    /// # Errors
    /// As [`Control::suspend_tenant`], and `Refused` where `title` is none.
    pub fn set_title(&self, slug: &str, title: &str) -> Result<Tenant, ControlError> {
        check_line("title", title, LINE_BYTES_MAX)?;
        self.change_tenant(slug, |tenant| title.clone_into(&mut tenant.title))
    }

    /// Ends every access token that was issued for the workspace so far, this second included.
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
