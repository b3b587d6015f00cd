package egress

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// literal reads a host that is an IP address, in the forms that resolvers and proxies take beside the usual one: 127.1,
// 0x7f000001, 2130706433, 0177.0.0.1. A proxy resolves for us, so such a spelling must not slip by.
func literal(host string) (netip.Addr, bool) {
	host = strings.TrimSuffix(host, ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr, true
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var v uint64
	for i, p := range parts {
		// Base 0 would also take 0b, 0o and underscores, which inet_aton does not; accepting them only refuses more.
		n, err := strconv.ParseUint(p, 0, 64)
		if err != nil {
			return netip.Addr{}, false
		}
		if last := i == len(parts)-1; last {
			limit := uint64(1) << (8 * (4 - i))
			if n >= limit {
				return netip.Addr{}, false
			}
			v |= n
			break
		}
		if n > math.MaxUint8 {
			return netip.Addr{}, false
		}
		v |= n << (8 * (3 - i))
	}
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), true
}
