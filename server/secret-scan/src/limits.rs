//! Every limit of this crate, declared beside what it bounds.

limit_table::limits! {
    pub const LIMITS = [
        crate::assigned, crate::blocks, crate::carried, crate::tokens, crate::values,
    ];
}
