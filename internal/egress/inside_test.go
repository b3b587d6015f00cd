package egress_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

// What the three policies on private addresses make of each kind of address.
func TestPrivateAddressesAreToldFromPublicOnes(t *testing.T) {
	for name, c := range map[string]struct {
		addr string
		// inside: authors are told less. denied: by DenyPrivate. plain: it may be sent credentials over http.
		inside, denied, plain bool
	}{
		"a company's network":          {"10.0.0.7", true, true, true},
		"a home network":               {"192.168.1.1", true, true, true},
		"the last of 172":              {"172.31.255.255", true, true, true},
		"after the last of 172":        {"172.32.0.0", false, false, false},
		"unique local":                 {"fd12::7", true, true, true},
		"mapped to v6":                 {"::ffff:10.0.0.7", true, true, true},
		"Pods of clouds":               {"100.64.0.1", true, true, true},
		"just before those":            {"100.63.255.255", false, false, false},
		"a network for benchmarks":     {"198.19.0.1", true, true, true},
		"a reserved network":           {"240.0.0.1", true, true, true},
		"public":                       {"93.184.215.14", false, false, false},
		"public v6":                    {"2606:4700::1111", false, false, false},
		"loopback, refused by default": {"127.0.0.1", true, false, true},
		"through NAT64":                {"64:ff9b::10.0.0.7", true, true, false},
		"through 6to4":                 {"2002:a00:7::1", true, true, false},
		"v4-compatible":                {"::10.0.0.7", true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			addr := netip.MustParseAddr(c.addr)
			if got := (&egress.Guard{DenyLoopback: true}).Inside(addr); got != c.inside {
				t.Errorf("inside: %v", got)
			}
			check(t, (&egress.Guard{DenyPrivate: true}).CheckAddr(addr), c.denied, "private")
			check(t, (&egress.Guard{PrivateOnly: true}).CheckAddr(addr), !c.plain, "write https://")
			open := egress.Guard{DenyPrivate: true, PrivateOnly: true, Allow: []netip.Prefix{netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())}}
			check(t, open.CheckAddr(addr), false, "")
		})
	}
	if (&egress.Guard{}).Inside(netip.MustParseAddr("127.0.0.1")) {
		t.Error("where loopback is allowed, it is the author's own machine")
	}
}

func TestHostsThatAreInside(t *testing.T) {
	guard := egress.Guard{PrivateOnly: true, DenyLoopback: true}
	for host, c := range map[string]struct{ inside, proxied bool }{
		"llm":                          {true, true},
		"llm.models.svc":               {true, true},
		"LLM.models.SVC.":              {true, true},
		"llm.models.svc.cluster.local": {true, true},
		"10.0.0.7":                     {true, true}, // CheckHost knows literals
		"167772167":                    {true, true},
		"8.8.8.8":                      {false, true},
		"134744072":                    {false, true},
		"2606:4700::1111":              {false, true},
		"api.example.com":              {false, false},
		"svc.example.com":              {false, false},
		"llm.svc.example.com":          {false, false},
		"notsvc.":                      {true, true},
		"api.notsvc":                   {false, false},
		"api。example。com":              {false, false}, // as net/http asks for it
		"llm。models。svc":               {true, true},
		"b\u2028cher":                  {false, false},
	} {
		if got := guard.InsideHost(host); got != c.inside {
			t.Errorf("%s: inside %v", host, got)
		}
		if err := guard.CheckProxied(host); (err == nil) != c.proxied {
			t.Errorf("%s behind a proxy: %v", host, err)
		}
		if err := (&egress.Guard{}).CheckProxied("api.example.com"); err != nil {
			t.Errorf("without credentials it is %v", err)
		}
	}
}

// A name says nothing: also a Service may stand for any address outside.
func TestCredentialsInTheClearGoByAddressAndNotByName(t *testing.T) {
	var dialled []string
	guard := egress.Guard{
		PrivateOnly: true, OnDial: func(a netip.Addr) { dialled = append(dialled, a.String()) },
		Resolver: modeltest.Resolver(t, map[string]netip.Addr{
			"external.team-a.svc": netip.MustParseAddr("93.184.215.14"), "six.example.com": netip.MustParseAddr("2606:4700::1111"),
			"llm.corp.example.com": netip.MustParseAddr("127.0.0.1"),
		})}
	for _, host := range []string{"external.team-a.svc", "six.example.com"} {
		_, err := guard.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "80"))
		check(t, err, true, "write https://")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	conn, err := guard.DialContext(t.Context(), "tcp", net.JoinHostPort("llm.corp.example.com", port))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if got := strings.Join(dialled, " "); got != "93.184.215.14 2606:4700::1111 127.0.0.1" {
		t.Errorf("it was told of %s", got)
	}
}

func TestAHostIsWhatIsAskedFor(t *testing.T) {
	for raw, want := range map[string]string{
		"https://API.Example.com.:8443/v1": "api.example.com", "https://api。example。com": "api.example.com", "http://[FD00::1]:80/": "fd00::1",
		"https://bücher.example.com": "xn--bcher-kva.example.com", "http://[::1": "", "https://b\u2028cher.example.com": "",
	} {
		if got, err := egress.Host(raw); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
	}
}

func TestWithoutAListenerFailuresAreNotTold(t *testing.T) {
	(&egress.Guard{}).Failed(t.Context(), egress.Failure{})
	var told egress.Failure
	(&egress.Guard{OnFailure: func(_ context.Context, f egress.Failure) { told = f }}).Failed(t.Context(), egress.Failure{Host: "h", Reason: "r"})
	if told != (egress.Failure{Host: "h", Reason: "r"}) {
		t.Errorf("%+v", told)
	}
}
