package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestBaseHasManyValidRoots(t *testing.T) {
	files, err := baseFiles()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for rest := files["etc/ssl/certs/ca-certificates.crt"]; ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
	}
	if count < 100 {
		t.Errorf("the base has %d roots, want 100 or more", count)
	}
}

// The same commit must give the same image, whenever and wherever it is built.
func TestBaseIsReproducible(t *testing.T) {
	var digests [2][]byte
	for i := range digests {
		index, err := baseIndex()
		if err != nil {
			t.Fatal(err)
		}
		if digests[i], err = index.RawManifest(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(digests[0], digests[1]) {
		t.Error("two builds of the base differ")
	}
}

func TestPushedImageIsTheOneThatWasBuilt(t *testing.T) {
	served, stop, err := serveBase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	index, err := baseIndex()
	if err != nil {
		t.Fatal(err)
	}
	to := strings.Replace(served, "/base:1", "/pushed:v1", 1)
	if err := pushTo(t.Context(), to, index); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Head(ref)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := index.Digest(); err != nil || got.Digest != want {
		t.Errorf("the registry has %s, want %s (%v)", got.Digest, want, err)
	}
}

func TestBaseRunsAsNonRootOnBothPlatforms(t *testing.T) {
	index, err := baseIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 2 {
		t.Fatalf("the base is for %d platforms, want 2", len(manifest.Manifests))
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" {
			t.Errorf("%s: the user is %q", m.Platform, config.Config.User)
		}
	}
}
