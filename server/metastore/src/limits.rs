//! Every limit of this crate, declared beside what it bounds.

limit_table::limits! {
    pub const LIMITS = [
        crate::anchors, crate::clients, crate::codes, crate::credentials, crate::file,
        crate::grants, crate::record, crate::standing, crate::sweep, crate::table, crate::tenants,
        crate::token_keys, crate::usage,
    ];
}
