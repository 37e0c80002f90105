//! Every limit of this crate, declared beside what it bounds.

limit_table::limits! {
    pub const LIMITS = [crate::roots];
}
