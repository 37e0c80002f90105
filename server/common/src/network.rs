//! IP networks: an address, or a prefix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address or a CIDR prefix (RFC 4632, section 3.1; RFC 4291, section 2.3). An IPv4-mapped IPv6 address
/// (`::ffff:192.0.2.1`) equals its IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    /// Returns true if an address belongs to the network.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                is_same(first.to_bits().into(), address.to_bits().into(), 32 - self.bits)
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                is_same(first.to_bits(), address.to_bits(), 128 - self.bits)
            }
            _ => false,
        }
    }
}

/// Returns true if two addresses differ at most in their `last` low bits.
fn is_same(one: u128, other: u128, last: u32) -> bool {
    (one ^ other).checked_shr(last).unwrap_or_default() == 0
}

/// Error for a text that is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoNetwork;

impl FromStr for Network {
    type Err = NoNetwork;

    /// Parses `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32`. Bits after the prefix must be zero.
    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(bits)),
        };
        let first: IpAddr = address.parse().map_err(|_| NoNetwork)?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits: u32 = match bits {
            None => most,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().ok().filter(|bits| *bits <= most).ok_or(NoNetwork)?
            }
            Some(_) => return Err(NoNetwork),
        };
        let (first, bits) = match first.to_canonical() {
            IpAddr::V4(inner) if most == 128 => {
                (IpAddr::V4(inner), bits.checked_sub(96).ok_or(NoNetwork)?)
            }
            other => (other, bits),
        };
        let network = Self { first, bits };
        if network.is_normal() { Ok(network) } else { Err(NoNetwork) }
    }
}

impl Network {
    fn is_normal(self) -> bool {
        let (address, width) = match self.first {
            IpAddr::V4(first) => (u128::from(first.to_bits()), 32),
            IpAddr::V6(first) => (first.to_bits(), 128),
        };
        address.trailing_zeros() >= width - self.bits
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.first.is_ipv4() { 32 } else { 128 };
        if self.bits == all { self.first.fmt(f) } else { write!(f, "{}/{}", self.first, self.bits) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_those_that_begin_alike() {
        for (network, inside, outside) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.0"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
        ] {
            let read: Network = network.parse().unwrap();
            assert!(read.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!read.contains(outside.parse().unwrap()), "{network} {outside}");
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        for bad in [
            "",
            "x",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "2001:db8::1/32",
            "::/129",
            "10/8",
            "::ffff:0:0/90",
        ] {
            assert_eq!(bad.parse::<Network>(), Err(NoNetwork), "{bad}");
        }
    }
}
