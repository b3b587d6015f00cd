// Package egress decides which addresses the operator may dial on behalf of a user's AgentModel or AgentToolset.
//
// Whoever may create those objects names an endpoint, and the operator's network position is not theirs: without a
// guard they could read the cloud's metadata service or the operator's own node through it.
package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// ErrRefused is below every refusal, for errors.Is.
var ErrRefused = errors.New("the address is refused by the egress guard")

// RefusedError says which kind of address was refused. It names neither the address nor the host: what a name inside
// the network resolves to is itself worth knowing to an attacker.
type RefusedError struct {
	// Reason completes "the endpoint ...".
	Reason string
}

func (e *RefusedError) Error() string { return "the endpoint " + e.Reason }

// Unwrap makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Unwrap() error { return ErrRefused }

// Guard is the policy. The zero value refuses link-local, cloud metadata, unspecified and multicast addresses, and allows
// everything else, loopback included. It is read only once in use.
type Guard struct {
	// DenyLoopback refuses 127.0.0.0/8 and ::1: inside a cluster they are the operator's own pod.
	DenyLoopback bool
	// DenyPrivate refuses private addresses: those of the cluster, the node's network and the company.
	DenyPrivate bool
	// PrivateOnly refuses all but private and loopback addresses: credentials go there in the clear.
	PrivateOnly bool
	// Allow opens addresses that would be refused. The installation sets it, never a user of the API.
	Allow []netip.Prefix
	// Resolver replaces the system's resolver, for tests. Nil is the system's.
	Resolver *net.Resolver
	// OnDial is told of each address that is about to be connected to; nil for nobody.
	OnDial func(netip.Addr)
	// OnFailure is told why an endpoint inside could not be reached, which its author is not; nil for nobody.
	OnFailure func(context.Context, Failure)
}

// metadata are the addresses of cloud metadata services. The first is link-local too; it is listed for its message.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), // AWS, Azure, Google, OpenStack and others
	netip.MustParseAddr("169.254.170.2"),   // AWS ECS task credentials
	netip.MustParseAddr("169.254.170.23"),  // AWS EKS pod identity
	netip.MustParseAddr("fd00:ec2::254"),   // AWS over IPv6
	netip.MustParseAddr("fd00:ec2::23"),    // AWS EKS pod identity over IPv6
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("fd20:ce::254"),    // Google over IPv6
	netip.MustParseAddr("fd00:42::42"),     // Scaleway over IPv6
	netip.MustParseAddr("168.63.129.16"),   // Azure wire server
	netip.MustParseAddr("192.0.0.192"),     // Oracle, classic
}

// knownNames always mean one address. They are checked by name too, because a proxy would resolve them for us.
var knownNames = map[string]netip.Addr{
	"localhost":                  netip.MustParseAddr("127.0.0.1"),
	"metadata":                   metadata[0],
	"metadata.google.internal":   metadata[0],
	"metadata.goog":              metadata[0],
	"instance-data":              metadata[0],
	"instance-data.ec2.internal": metadata[0],
}

// Prefixes whose addresses stand for an IPv4 address: NAT64, IPv4-compatible and IPv4-translated carry it in the last 32
// bits, 6to4 after the first 16. A network's own NAT64 carries it in the last 32 bits too, or right after its 48.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	ownNAT64   = netip.MustParsePrefix("64:ff9b:1::/48")
	compatible = netip.MustParsePrefix("::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// CheckAddr refuses an address that the policy does not allow. The error is a *RefusedError.
func (g *Guard) CheckAddr(addr netip.Addr) error {
	bare := addr.WithZone("").Unmap()
	meant := embedded(bare)
	for _, p := range g.Allow {
		if p.Contains(bare) || p.Contains(meant) {
			return nil
		}
	}
	for _, a := range []netip.Addr{bare, meant} {
		if reason := g.reason(a); reason != "" {
			return &RefusedError{Reason: reason}
		}
	}
	if g.PrivateOnly && !private(bare) && !bare.IsLoopback() { // a translator may stand outside, so what is meant does not count
		return &RefusedError{Reason: reasonPlaintext}
	}
	return nil
}

// embedded is the IPv4 address that an IPv6 address stands for, or the address itself.
func embedded(addr netip.Addr) netip.Addr {
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return addr
	}
	b := addr.As16()
	switch {
	case ownNAT64.Contains(addr) && [4]byte(b[12:]) == [4]byte{}:
		return netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}) // byte 8 is always 0, says RFC 6052
	case nat64.Contains(addr), ownNAT64.Contains(addr), compatible.Contains(addr), translated.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return addr
}

func (g *Guard) reason(addr netip.Addr) string {
	for _, m := range metadata {
		if addr == m {
			return "is a cloud metadata address, which is refused"
		}
	}
	switch {
	case !addr.IsValid():
		return "is no valid address"
	case addr.IsUnspecified():
		return "is the unspecified address, which is refused"
	case addr.IsLinkLocalUnicast():
		return "is a link-local address, which is refused"
	case addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is a multicast or broadcast address, which is refused"
	case g.DenyLoopback && addr.IsLoopback():
		return "is a loopback address, which is refused inside a cluster"
	case g.DenyPrivate && private(addr):
		return "is a private address, which this installation refuses"
	case addr.Is4() && addr.As4()[0] == 0:
		// Linux dials 0.0.0.0/8 as this host.
		return "is an address of this host, which is refused"
	}
	return ""
}

// CheckURL refuses a bad scheme, a missing host, credentials in the URL, and a refused address written as a literal. Names
// are not resolved here: the answer could change until the dial, so the dialer checks.
func (g *Guard) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error repeats the URL, which may hold a key.
		return &RefusedError{Reason: "is no valid URL"}
	}
	return g.checkParsed(u)
}

func (g *Guard) checkParsed(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return &RefusedError{Reason: "must begin with https:// or http://"}
	case u.Hostname() == "":
		return &RefusedError{Reason: "names no host"}
	case u.User != nil:
		return &RefusedError{Reason: "must not carry credentials in its URL: use auth or headers"}
	}
	return g.CheckHost(u.Hostname())
}

// CheckHost refuses a host that is a refused address literal, or a name that always means such an address.
func (g *Guard) CheckHost(host string) error {
	host, err := ascii(host)
	if err != nil {
		return err
	}
	if addr, ok := literal(host); ok {
		return g.CheckAddr(addr)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.HasSuffix(name, ".localhost") {
		name = "localhost"
	}
	if addr, ok := knownNames[name]; ok {
		return g.CheckAddr(addr)
	}
	return nil
}

// DialContext dials through the guard. Every address that a name resolves to is checked right before it is connected to, so
// neither a DNS answer that changes nor a redirect gets around it.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		Timeout:   30 * time.Second,
		KeepAlive: 30 * time.Second,
		Resolver:  g.Resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			// Called with the address that was resolved, once for each that is tried.
			return g.checkDial(address)
		},
	}
	return d.DialContext(ctx, network, address)
}

// checkDial checks the "ip:port" that is about to be connected to.
func (g *Guard) checkDial(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Reason: "has an address that is no IP and port"}
	}
	if g.OnDial != nil {
		g.OnDial(ap.Addr())
	}
	return g.CheckAddr(ap.Addr())
}
