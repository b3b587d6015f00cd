package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

func TestMetricsAreServedWithTheCertificateThatIsGiven(t *testing.T) {
	const host = "agenttask-operator-metrics.ops.svc"
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	startReplica(t, newAPIServer(t), "--metrics-bind-address="+address, "--metrics-cert-dir="+dir)

	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(cert)
	for deadline := time.Now().Add(patience); ; {
		connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: trusted, ServerName: host})
		if err == nil {
			connection.Close()
			return
		}
		var refused *net.OpError // until the server is there
		if !errors.As(err, &refused) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
