//! SSRF guard: the table of IP addresses from which a client metadata document must not be fetched. The table lists the
//! IANA registries of special-purpose addresses (RFC 6890 and later additions). For IPv6, only global unicast space
//! delegated to the registries is accepted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: its address and prefix length in bits.
type Net4 = (Ipv4Addr, u32);
type Net6 = (Ipv6Addr, u32);

/// IPv4 networks that are not globally unicast: unassigned, private, special-purpose, multicast.
const NOT_PUBLIC_4: [Net4; 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared by carriers
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // this machine
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, where clouds serve credentials
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24), // automatic multicast tunnels
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(192, 175, 48, 0), 24), // AS112
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 3),     // multicast, reserved, broadcast
];

/// The IPv6 global unicast range. Loopback, unique local, link-local, site-local, multicast and every embedding of IPv4
/// outside this range are rejected.
const GLOBAL_6: Net6 = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Networks inside [`GLOBAL_6`] that are not global unicast.
const NOT_PUBLIC_6: [Net6; 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments: Teredo, benchmarks, ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: an IPv4 address inside
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Returns true if `address` is a globally routable unicast address.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_4.iter().any(|(net, bits)| {
            let shift = u32::BITS - bits;
            address.to_bits() >> shift == net.to_bits() >> shift
        }),
        IpAddr::V6(address) => {
            let is_in = |(net, bits): &Net6| {
                let shift = u128::BITS - bits;
                address.to_bits() >> shift == net.to_bits() >> shift
            };
            is_in(&GLOBAL_6) && !NOT_PUBLIC_6.iter().any(is_in)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_internet_are_public() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.255",
            "203.0.114.0",
            "223.255.255.255",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:200::1",
            "2001:db7:ffff::1",
            "2001:db9::1",
            "2003::1",
            "3ffe::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn all_others_are_not() {
        for not in [
            // Loopback, and "this network".
            "0.0.0.0",
            "0.255.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "::",
            "::1",
            // Private, carrier-grade NAT, link-local.
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.168.0.0",
            "192.168.255.255",
            "fe80::1",
            "febf:ffff::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            // Protocol assignments, documentation, benchmarks.
            "192.0.0.0",
            "192.0.0.170",
            "192.0.0.255",
            "192.0.2.0",
            "192.0.2.255",
            "192.31.196.1",
            "192.52.193.1",
            "192.88.99.1",
            "192.175.48.1",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.0",
            "198.51.100.255",
            "203.0.113.0",
            "203.0.113.255",
            "2001:db8::1",
            "2001:db8:ffff::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "3fff::1",
            "3fff:fff::1",
            "100::1",
            "2620:4f:8000::1",
            "5f00::1",
            // Multicast, reserved, broadcast.
            "224.0.0.0",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255",
            "ff02::1",
            "ff0e::1",
            // Embedded IPv4: mapped, compatible, NAT64, 6to4, Teredo, ISATAP link-local.
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:0:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::a00:1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "2001:0:7f00:1::",
            "fe80::5efe:7f00:1",
            // Unassigned.
            "4000::1",
            "1fff:ffff::1",
            "8000::1",
        ] {
            assert!(!is_public(not.parse().unwrap()), "{not}");
        }
    }
}
