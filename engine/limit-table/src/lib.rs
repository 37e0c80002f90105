//! Limits that are declared beside the code that they bound, and listed for the page of the specification.
//!
//! ```
//! # fn main() {}
//! mod reading {
//!     limit_table::limits! {
//!         pub(crate) const LIMITS = [walk];
//!     }
//!
//!     mod walk {
//!         limit_table::limits! {
//!             pub(crate) const LIMITS = [];
//!
//!             /// Edges between the start of a walk and its end.
//!             pub(super) const HOPS_MAX: usize = 6;
//!         }
//!     }
//!
//!     pub(crate) fn is_too_far(hops: usize) -> bool {
//!         hops > walk::HOPS_MAX
//!     }
//! }
//!
//! limit_table::limits! {
//!     pub const LIMITS = [reading];
//! }
//! # use reading::is_too_far as _;
//! ```
#![forbid(unsafe_code)]

use std::time::Duration;

/// Limits of one module, and of the modules below it.
#[derive(Debug)]
pub struct Limits {
    /// Name and value of each limit of the module, durations in milliseconds.
    pub own: &'static [(&'static str, u64)],
    /// Limits of other modules.
    pub with: &'static [Limits],
}

impl Limits {
    /// Returns the module's own limits and all below, in the order of their declaration.
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        let below = self.with.iter().flat_map(Limits::all);
        self.own.iter().copied().chain(below).collect()
    }
}

/// Converts a limit that is a duration to milliseconds.
///
/// # Panics
/// The duration has a fraction of a millisecond, which a table would lose.
#[must_use]
pub const fn millis(duration: Duration) -> u64 {
    assert!(duration.subsec_nanos().is_multiple_of(1_000_000), "no whole milliseconds");
    duration.as_secs() * 1000 + duration.subsec_millis() as u64
}

/// Declares the limits of a module, and the table that lists them and those of the modules below.
///
/// A limit is a constant of an integer type or a `Duration`; the limit of a `RangeInclusive` is its end. The constants
/// are expanded as they are written. The table does not use the constants, so a private limit that bounds nothing any
/// more is still dead code.
///
/// A table that no other table lists is dead code, too. `pub(crate) const LIMITS` of a module is used only by the table
/// above it, and so on up to `pub const LIMITS` of the crate. So no module is forgotten.
///
/// ```compile_fail
/// #![deny(dead_code)]
/// # fn main() {}
/// mod forgotten {
///     limit_table::limits! {
///         pub(crate) const LIMITS = [];
///
///         pub const HOPS_MAX: usize = 6;
///     }
/// }
///
/// limit_table::limits! {
///     pub const LIMITS = [];
/// }
/// # pub use forgotten::HOPS_MAX;
/// ```
#[macro_export]
macro_rules! limits {
    // Names and values of constants.
    (@own $($(#[$doc:meta])* $seen:vis const $name:ident: $kind:ident $(<$of:ident>)? = $value:expr;)*) => {
        &[$((stringify!($name), $crate::limits!(@number $kind $(<$of>)?, $value))),*]
    };
    (@number Duration, $value:expr) => { $crate::millis($value) };
    (@number RangeInclusive<$kind:ident>, $value:expr) => {
        {
            const RANGE: ::core::ops::RangeInclusive<$kind> = $value;
            *RANGE.end() as u64
        }
    };
    (@number $kind:ident, $value:expr) => {
        {
            const VALUE: $kind = $value;
            VALUE as u64
        }
    };
    // The compiler reports dead code only if the first and the last token of a constant are the caller's.
    (
        $pub:tt $(($scope:ident))? const $table:ident =
        [$($(#[$when:meta])* $($module:ident)::+),* $(,)?]$end:tt $($constants:tt)*
    ) => {
        /// Limits of this module, and of those below it.
        $pub $(($scope))? const $table: $crate::Limits = $crate::Limits {
            own: $crate::limits!(@own $($constants)*),
            with: &[$($(#[$when])* $($module)::+::$table),*],
        }$end
        $($constants)*
    };
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;
    use std::panic::catch_unwind;
    use std::time::Duration;

    mod below {
        use std::time::Duration;

        crate::limits! {
            pub(crate) const LIMITS = [];

            /// The first limit.
            pub(super) const PAUSE: Duration = Duration::from_millis(1_250);
            const DAY: Duration = Duration::from_secs(86_400);
        }

        pub(super) fn is_long(pause: Duration) -> bool {
            pause > DAY
        }
    }

    mod last {
        crate::limits! {
            pub(crate) const LIMITS = [];

            pub(super) const BYTES_MAX: u8 = 255;
        }
    }

    crate::limits! {
        pub(crate) const LIMITS = [below, #[cfg(any())] absent, self::last];

        /// A value above 32 bits.
        const ROOM: u64 = 1 << (SHIFT + 20);
        /// A range, whose start is no limit.
        pub(super) const WIDTH: RangeInclusive<usize> = 2..=4096;
        const SHIFT: u32 = 20;
        const TTL_MAX: i64 = 30 * 60;
        pub(crate) const SHORT: Duration = Duration::from_micros(2_000);
    }

    #[test]
    fn limits_are_listed_in_declaration_order() {
        let own =
            [("ROOM", 1 << 40), ("WIDTH", 4096), ("SHIFT", 20), ("TTL_MAX", 1800), ("SHORT", 2)];
        let below = [("PAUSE", 1250), ("DAY", 86_400_000)];
        assert_eq!(LIMITS.all(), [&own[..], &below, &[("BYTES_MAX", 255)]].concat());
    }

    #[test]
    fn limits_macro_leaves_constants_unchanged() {
        assert_eq!((ROOM, TTL_MAX, last::BYTES_MAX), (1u64 << 40, 1800i64, 255u8));
        assert_eq!((WIDTH, SHORT), (2..=4096, Duration::from_micros(2_000)));
        assert!(catch_unwind(|| crate::millis(Duration::from_micros(2_900))).is_err());
        assert!(below::is_long(Duration::MAX) && !below::is_long(below::PAUSE));
    }
}
