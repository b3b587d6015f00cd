package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The user that the manager runs as, by number: then Kubernetes can tell that it is not root.
const user = "65532:65532"

var platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// baseFiles are all that is in the image beside the manager. The roots are Mozilla's, of the version in go.mod, and not
// this machine's.
func baseFiles() (map[string][]byte, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		// A root with a constraint is trusted for some certificates only, which a PEM file cannot say.
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if roots.Len() == 0 {
		return nil, errors.New("the bundle has no certificate roots")
	}
	return map[string][]byte{
		"etc/ssl/certs/ca-certificates.crt": roots.Bytes(),
		"etc/passwd":                        []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"),
		"etc/group":                         []byte("root:x:0:\nnonroot:x:65532:\n"),
		"etc/nsswitch.conf":                 []byte("hosts: files dns\n"),
	}, nil
}

func baseLayer() (v1.Layer, error) {
	files, err := baseFiles()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	epoch := time.Unix(0, 0)
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "home/", "tmp/"} {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode, ModTime: epoch}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "home/nonroot/", Mode: 0o700, Uid: 65532, Gid: 65532, ModTime: epoch}); err != nil {
		return nil, err
	}
	for _, path := range []string{"etc/group", "etc/nsswitch.conf", "etc/passwd", "etc/ssl/certs/ca-certificates.crt"} {
		if err := addFile(w, path, files[path], 0o644, epoch); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

func baseIndex() (v1.ImageIndex, error) {
	layer, err := baseLayer()
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		image, err := mutate.ConfigFile(image, &v1.ConfigFile{
			OS: platform.OS, Architecture: platform.Architecture, RootFS: v1.RootFS{Type: "layers"},
			Config: v1.Config{User: user, WorkingDir: "/", Env: []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}},
		})
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index, nil
}

// serveBase offers the base image from a registry in this process, since ko takes a base from a registry only.
func serveBase(ctx context.Context) (ref string, stop func(), err error) {
	index, err := baseIndex()
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	stop = func() { _ = server.Close() }
	tag, err := name.ParseReference(l.Addr().String()+"/base:1", name.Insecure)
	if err == nil {
		err = remote.WriteIndex(tag, index, remote.WithContext(ctx))
	}
	if err != nil {
		stop()
		return "", nil, err
	}
	return tag.String(), stop, nil
}
