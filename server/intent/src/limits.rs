//! Every limit of this crate, declared beside what it bounds.

limit_table::limits! {
    pub const LIMITS = [
        crate::cues, crate::likely, crate::mood, crate::routes, crate::routing, crate::said,
        crate::times,
    ];
}
