//! Grouping of addresses by site.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that identify a site (RFC 4291, section 2.5.4).
const PREFIX_BITS: u32 = 64;

/// Returns the key that counts as one peer: an IPv4 address, or the prefix of an IPv6 address, whose lower half its
/// user can choose freely.
pub fn site(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = address.to_bits() >> PREFIX_BITS << PREFIX_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
        v4 => v4,
    }
}
