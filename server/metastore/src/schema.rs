//! Tables of the metastore by name and number.
//!
//! Must not know the meaning of records.

/// A table's name, and its number in `expiries`. Numbers are never reused.
pub(super) type TableEntry = (&'static str, u8);

pub(super) const META: TableEntry = ("meta", 0);
pub(super) const TENANTS: TableEntry = ("tenants", 1);
pub(super) const CREDENTIALS: TableEntry = ("credentials", 2);
pub(super) const CREDENTIAL_IDS: TableEntry = ("credential_ids", 3);
pub(super) const CLIENTS: TableEntry = ("clients", 4);
pub(super) const GRANTS: TableEntry = ("grants", 5);
pub(super) const REFRESH: TableEntry = ("refresh", 6);
pub(super) const CODES: TableEntry = ("codes", 7);
pub(super) const REVOKED: TableEntry = ("revoked", 8);
pub(super) const MAILS: TableEntry = ("mails", 9);
pub(super) const ANCHORS: TableEntry = ("anchors", 10);
pub(super) const TOKEN_KEYS: TableEntry = ("token_keys", 11);
pub(super) const USAGE: TableEntry = ("usage", 12);

/// The tables of records, with their numbers in `expiries`.
pub const TABLE_NAMES: [TableEntry; 13] = [
    META,
    TENANTS,
    CREDENTIALS,
    CREDENTIAL_IDS,
    CLIENTS,
    GRANTS,
    REFRESH,
    CODES,
    REVOKED,
    MAILS,
    ANCHORS,
    TOKEN_KEYS,
    USAGE,
];

/// Table of expiry times.
pub(super) const EXPIRIES: &str = "expiries";
