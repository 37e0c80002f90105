//! Every limit of this crate, declared beside what it bounds.

limit_table::limits! {
    pub const LIMITS = [crate::company, crate::embed, crate::inflow, crate::model];
}
