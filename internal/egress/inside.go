package egress

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// Unreachable is what the author of an endpoint within the own networks is told of a connection that gave no HTTP answer, whatever
// became of it: by texts that differ, open and closed ports can be told apart. It completes "the endpoint ...".
const Unreachable = "could not be reached, or gave no answer in time: check its address and port, http or https, its certificate and the " +
	"timeout. The operator's log says more"

// Failure is what Guard.OnFailure is told: enough for who runs the operator, and nothing that the server wrote.
type Failure struct {
	// Host is the endpoint's host, with its port where it names one.
	Host string
	// Reason is one sentence without its full stop.
	Reason string
}

// Networks that are not reached from the internet, beside those that netip calls private: carriers and clouds number Pods and Services
// from them.
var internal = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
}

func private(addr netip.Addr) bool {
	for _, p := range internal {
		if p.Contains(addr) {
			return true
		}
	}
	return addr.IsPrivate()
}

// Inside tells whether an address is of an own network: the cluster's, the node's or the company's. Loopback is where it is refused:
// elsewhere those who write objects run the operator themselves.
func (g *Guard) Inside(addr netip.Addr) bool {
	bare := addr.WithZone("").Unmap()
	for _, a := range []netip.Addr{bare, embedded(bare)} {
		if private(a) || a.IsLinkLocalUnicast() || g.DenyLoopback && a.IsLoopback() {
			return true
		}
	}
	return false
}

// InsideHost is Inside for the host of a URL. Of names, those of Services are known to be inside.
func (g *Guard) InsideHost(host string) bool {
	name, err := ascii(host)
	if addr, ok := literal(name); ok {
		return g.Inside(addr)
	}
	return err == nil && isService(name)
}

// isService tells of a name that only the cluster's DNS knows.
func isService(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return !strings.Contains(name, ".") || strings.HasSuffix(name, ".svc") || strings.HasSuffix(name, ".svc.cluster.local")
}

// CheckProxied refuses a name that a proxy would resolve although the guard lets no more than private addresses be dialled: then it
// must be a Service's.
func (g *Guard) CheckProxied(host string) error {
	name, err := ascii(host)
	if _, ok := literal(name); err != nil || !g.PrivateOnly || ok || isService(name) {
		return err // CheckHost has seen the literal
	}
	return &RefusedError{Reason: reasonPlaintext}
}

const reasonPlaintext = "is no private address, and http:// would show its credentials on the way: write https://, or have the operator's " +
	"--allow-plaintext-credentials set"

// Host is the host of a URL as it is asked for: in ASCII and lower case, without port and final dot.
func Host(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", &RefusedError{Reason: "is no valid URL"} // the parser's error repeats the URL, which may hold a key
	}
	host, err := ascii(u.Hostname())
	return strings.ToLower(strings.TrimSuffix(host, ".")), err
}

// ascii reads a host as net/http will: that turns 169。254。169。254 into ASCII, and leaves alone what is ASCII, where idna would
// refuse underscores.
func ascii(host string) (string, error) {
	if !strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return host, nil
	}
	out, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return "", &RefusedError{Reason: "has a host that is no valid name"}
	}
	return out, nil
}

// Failed tells OnFailure, if there is one.
func (g *Guard) Failed(ctx context.Context, f Failure) {
	if g.OnFailure != nil {
		g.OnFailure(ctx, f)
	}
}
