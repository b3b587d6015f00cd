// Command image builds the manager's image with ko, on a base image that it makes itself, and inspects the result.
package main

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	config := flag.String("config", "", "ko's configuration file")
	out := flag.String("out", "dist", "folder for the results")
	push := flag.String("push", "", "REPOSITORY:TAG to push to")
	flag.Parse()
	if err := run(context.Background(), *config, *out, *push); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, config, out, push string) error {
	base, stop, err := serveBase(ctx)
	if err != nil {
		return fmt.Errorf("making the base image: %w", err)
	}
	defer stop()
	dir := filepath.Join(out, "image")
	// ko adds to a layout that is there, and two builds in one are none.
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := ko(ctx, config, base, dir); err != nil {
		return fmt.Errorf("ko: %w", err)
	}
	if err := nameBase(dir); err != nil {
		return err
	}
	index, err := inspect(dir, os.Getenv("VERSION"), os.Getenv("COMMIT"))
	if err != nil {
		return fmt.Errorf("the image is not as it should be: %w", err)
	}
	archive := filepath.Join(out, "agenttask-operator.oci.tar")
	if err := writeTar(archive, dir); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s and %s: %s\n", dir, archive, digest)
	if push == "" {
		return nil
	}
	return pushTo(ctx, push, index)
}

func pushTo(ctx context.Context, to string, index v1.ImageIndex) error {
	ref, err := name.ParseReference(to)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", ref.Context(), digest)
	return nil
}

func ko(ctx context.Context, config, base, dir string) error {
	revision := os.Getenv("COMMIT")
	command := exec.CommandContext(ctx, "ko", "build", "./cmd/manager", "--bare", "--push=false", "--insecure-registry", "--sbom=none",
		"--oci-layout-path="+dir,
		"--image-label=org.opencontainers.image.title=agenttask-operator",
		"--image-label=org.opencontainers.image.source=https://github.com/agentloop-dev/agenttask-operator",
		"--image-label=org.opencontainers.image.version="+os.Getenv("VERSION"),
		"--image-label=org.opencontainers.image.revision="+revision,
	)
	command.Env = append(os.Environ(), "KO_CONFIG_PATH="+config, "KO_DEFAULTBASEIMAGE="+base, "KO_DOCKER_REPO=agenttask-operator")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	return command.Run()
}

// readIndex is the one image index in a layout.
func readIndex(dir string) (v1.ImageIndex, error) {
	path, err := layout.FromPath(dir)
	if err != nil {
		return nil, err
	}
	root, err := path.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 || !manifest.Manifests[0].MediaType.IsIndex() {
		return nil, errors.New("the layout does not hold one image for several platforms")
	}
	return root.ImageIndex(manifest.Manifests[0].Digest)
}

// nameBase writes the layout anew without the address that ko noted as the base image's name: that registry was in this
// process, and its port differs from build to build.
func nameBase(dir string) error {
	built, err := readIndex(dir)
	if err != nil {
		return err
	}
	manifest, err := built.IndexManifest()
	if err != nil {
		return err
	}
	named := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, m := range manifest.Manifests {
		image, err := built.Image(m.Digest)
		if err != nil {
			return err
		}
		image = mutate.Annotations(image, map[string]string{"org.opencontainers.image.base.name": "scratch"}).(v1.Image)
		named = mutate.AppendManifests(named, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: m.Platform}})
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "image-")
	if err != nil {
		return err
	}
	path, err := layout.Write(fresh, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(named); err != nil {
		return err
	}
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

// writeTar packs a layout into an OCI archive, always in the same order and with the same times.
func writeTar(archive, dir string) (err error) {
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	defer func() { err = errors.Join(err, w.Close()) }()
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return addFile(w, filepath.ToSlash(relative), data, 0o644, time.Unix(0, 0))
	})
}

func addFile(w *tar.Writer, name string, data []byte, mode int64, at time.Time) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: mode, ModTime: at}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
