//! Which addresses belong to one site.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that tell sites apart (RFC 4291, section 2.5.4).
const PREFIX_BITS: u32 = 64;

/// What counts as one peer: an address, or the prefix of one of IPv6, whose other half is its user's to
/// choose.
pub fn site(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = address.to_bits() >> PREFIX_BITS << PREFIX_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
        v4 => v4,
    }
}
