package egress_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/agentloop-dev/agenttask-operator/internal/egress"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestAddressesAreRefusedByKind(t *testing.T) {
	cases := map[string]struct {
		guard  egress.Guard
		addr   string
		refuse bool
		reason string
	}{
		"public":                        {addr: "93.184.215.14"},
		"public v6":                     {addr: "2606:4700::1111"},
		"private is a normal server":    {addr: "10.0.0.7"},
		"unique local v6":               {addr: "fd12::7"},
		"metadata":                      {addr: "169.254.169.254", refuse: true, reason: "metadata"},
		"metadata of AWS v6":            {addr: "fd00:ec2::254", refuse: true, reason: "metadata"},
		"metadata of Alibaba":           {addr: "100.100.100.200", refuse: true, reason: "metadata"},
		"metadata of EKS v6":            {addr: "fd00:ec2::23", refuse: true, reason: "metadata"},
		"metadata of Google v6":         {addr: "fd20:ce::254", refuse: true, reason: "metadata"},
		"metadata of Scaleway v6":       {addr: "fd00:42::42", refuse: true, reason: "metadata"},
		"metadata of Azure's wire":      {addr: "168.63.129.16", refuse: true, reason: "metadata"},
		"metadata of Oracle":            {addr: "192.0.0.192", refuse: true, reason: "metadata"},
		"metadata mapped to v6":         {addr: "::ffff:169.254.169.254", refuse: true, reason: "metadata"},
		"metadata through NAT64":        {addr: "64:ff9b::a9fe:a9fe", refuse: true, reason: "metadata"},
		"metadata through 6to4":         {addr: "2002:a9fe:a9fe::1", refuse: true, reason: "metadata"},
		"metadata v4-compatible":        {addr: "::169.254.169.254", refuse: true, reason: "metadata"},
		"metadata IPv4-translated":      {addr: "::ffff:0:169.254.169.254", refuse: true, reason: "metadata"},
		"metadata through own NAT64":    {addr: "64:ff9b:1:7::a9fe:a9fe", refuse: true, reason: "metadata"},
		"metadata through own of 48":    {addr: "64:ff9b:1:a9fe:a9:fe00::", refuse: true, reason: "metadata"},
		"private IPv4-translated":       {addr: "::ffff:0:10.0.0.7"},
		"private through own NAT64":     {addr: "64:ff9b:1::a00:7"},
		"private through own of 48":     {addr: "64:ff9b:1:a00:0:700::"},
		"link-local":                    {addr: "169.254.1.1", refuse: true, reason: "link-local"},
		"link-local v6 with zone":       {addr: "fe80::1%eth0", refuse: true, reason: "link-local"},
		"unspecified":                   {addr: "0.0.0.0", refuse: true, reason: "unspecified"},
		"unspecified v6":                {addr: "::", refuse: true, reason: "unspecified"},
		"this network":                  {addr: "0.1.2.3", refuse: true, reason: "this host"},
		"multicast":                     {addr: "224.0.0.1", refuse: true, reason: "multicast"},
		"multicast v6":                  {addr: "ff02::1", refuse: true, reason: "multicast"},
		"broadcast":                     {addr: "255.255.255.255", refuse: true, reason: "broadcast"},
		"loopback outside a cluster":    {addr: "127.0.0.1"},
		"loopback v6 outside a cluster": {addr: "::1"},
		"public in a cluster":           {guard: egress.Guard{DenyLoopback: true}, addr: "93.184.215.14"},
		"private in a cluster":          {guard: egress.Guard{DenyLoopback: true}, addr: "10.0.0.7"},
		"loopback in a cluster":         {guard: egress.Guard{DenyLoopback: true}, addr: "127.8.8.8", refuse: true, reason: "loopback"},
		"loopback v6 in a cluster":      {guard: egress.Guard{DenyLoopback: true}, addr: "::1", refuse: true, reason: "loopback"},
		"mapped loopback":               {guard: egress.Guard{DenyLoopback: true}, addr: "::ffff:127.0.0.1", refuse: true, reason: "loopback"},
		"opened by the installation":    {guard: allow("169.254.169.254/32"), addr: "169.254.169.254"},
		"opened, written mapped":        {guard: allow("169.254.0.0/16"), addr: "::ffff:169.254.7.7"},
		"opened by what is meant":       {guard: allow("169.254.0.0/16"), addr: "64:ff9b::a9fe:a9fe"},
		"opened as NAT64":               {guard: allow("64:ff9b::/96"), addr: "64:ff9b::a9fe:a9fe"},
		"opened is not all":             {guard: allow("169.254.169.253/32"), addr: "169.254.169.254", refuse: true, reason: "metadata"},
		"loopback opened in a cluster":  {guard: egress.Guard{DenyLoopback: true, Allow: allow("127.0.0.1/32").Allow}, addr: "127.0.0.1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, c.guard.CheckAddr(netip.MustParseAddr(c.addr)), c.refuse, c.reason)
		})
	}
}

func TestURLsAreRefusedEarly(t *testing.T) {
	inCluster := egress.Guard{DenyLoopback: true}
	cases := map[string]struct {
		url    string
		refuse bool
		reason string
	}{
		"https":                      {url: "https://api.example.com/v1"},
		"http with port":             {url: "http://llm.models.svc:8000/v1"},
		"a name is left to the dial": {url: "http://rebind.example.com"},
		"file":                       {url: "file:///etc/passwd", refuse: true, reason: "https://"},
		"no scheme":                  {url: "api.example.com/v1", refuse: true, reason: "https://"},
		"no host":                    {url: "https:///v1", refuse: true, reason: "no host"},
		"user info":                  {url: "https://user:pw@example.com", refuse: true, reason: "credentials"},
		"not a URL":                  {url: "http://[::1", refuse: true, reason: "no valid URL"},
		"literal metadata":           {url: "http://169.254.169.254/latest/meta-data", refuse: true, reason: "metadata"},
		"literal v6":                 {url: "http://[fe80::1]:80/", refuse: true, reason: "link-local"},
		"as one number":              {url: "http://2852039166/", refuse: true, reason: "metadata"},
		"in hex":                     {url: "http://0xa9.0xfe.0xa9.0xfe/", refuse: true, reason: "metadata"},
		"in octal":                   {url: "http://0251.0376.0251.0376/", refuse: true, reason: "metadata"},
		"shortened":                  {url: "http://127.1/", refuse: true, reason: "loopback"},
		"with the root dot":          {url: "http://169.254.169.254./", refuse: true, reason: "metadata"},
		"Google's name":              {url: "http://metadata.google.internal/", refuse: true, reason: "metadata"},
		"Google's name in capitals":  {url: "http://METADATA.google.internal./", refuse: true, reason: "metadata"},
		"Google's other name":        {url: "http://metadata.goog/", refuse: true, reason: "metadata"},
		"a short name":               {url: "http://metadata/", refuse: true, reason: "metadata"},
		"Amazon's short name":        {url: "http://instance-data/", refuse: true, reason: "metadata"},
		"Amazon's name":              {url: "http://instance-data.ec2.internal/", refuse: true, reason: "metadata"},
		"with other dots":            {url: "http://169。254。169。254/", refuse: true, reason: "metadata"},
		"in other digits":            {url: "http://１６９.254.169.２５４/", refuse: true, reason: "metadata"},
		"Google's name, wide":        {url: "http://ｍetadata.google.internal/", refuse: true, reason: "metadata"},
		"an international name":      {url: "https://bücher.example.com/v1"},
		"no name in any language":    {url: "https://b\u2028cher.example.com/v1", refuse: true, reason: "no valid name"},
		"a name with an underscore":  {url: "http://my_model.models.svc:8000/v1"},
		"a name with hyphens":        {url: "http://r3---model.example.com/v1"},
		"localhost":                  {url: "http://localhost:8080/", refuse: true, reason: "loopback"},
		"below localhost":            {url: "http://x.localhost/", refuse: true, reason: "loopback"},
		"too large a number":         {url: "http://4294967296/"},
		"too large a part":           {url: "http://256.254.169.254/"},
		"the largest part":           {url: "http://0xff.255.255.255/", refuse: true, reason: "broadcast"},
		"five parts":                 {url: "http://1.2.3.4.5/"},
		"five parts, the last is 0":  {url: "http://169.254.169.254.0/"},
		"six parts":                  {url: "http://1.2.3.4.5.6/"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { check(t, inCluster.CheckURL(c.url), c.refuse, c.reason) })
	}
}

func TestNamesAreCheckedByWhatTheyResolveTo(t *testing.T) {
	guard := egress.Guard{Resolver: modeltest.Resolver(t, map[string]netip.Addr{
		"innocent.example.com": netip.MustParseAddr("169.254.169.254"),
		"six.example.com":      netip.MustParseAddr("fd00:ec2::254"),
		"server.example.com":   netip.MustParseAddr("127.0.0.1"),
	})}
	for _, host := range []string{"innocent.example.com", "six.example.com"} {
		_, err := guard.DialContext(t.Context(), "tcp", net.JoinHostPort(host, "80"))
		check(t, err, true, "metadata")
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	conn, err := guard.DialContext(t.Context(), "tcp", net.JoinHostPort("server.example.com", port))
	if err != nil {
		t.Fatalf("an allowed name must be dialled: %v", err)
	}
	conn.Close()

	guard.DenyLoopback = true
	_, err = guard.DialContext(t.Context(), "tcp", net.JoinHostPort("server.example.com", port))
	check(t, err, true, "loopback")
}

func TestARefusalNamesNeitherHostNorAddress(t *testing.T) {
	err := (&egress.Guard{}).CheckURL("http://169.254.169.254/latest?token=canary")
	for _, secret := range []string{"169.254", "latest", "canary"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q shows %q", err, secret)
		}
	}
}

func allow(prefixes ...string) egress.Guard {
	var g egress.Guard
	for _, p := range prefixes {
		g.Allow = append(g.Allow, netip.MustParsePrefix(p))
	}
	return g
}

func check(t *testing.T, err error, refuse bool, reason string) {
	t.Helper()
	if !refuse {
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	var refused *egress.RefusedError
	if !errors.As(err, &refused) || !errors.Is(err, egress.ErrRefused) {
		t.Fatalf("got %v, want a RefusedError", err)
	}
	if !strings.Contains(refused.Reason, reason) {
		t.Errorf("reason %q, want it to name %q", refused.Reason, reason)
	}
}
