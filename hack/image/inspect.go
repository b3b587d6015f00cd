package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const binary = "ko-app/manager"

// inspect looks into a layout: the platforms, and for each the user, the entrypoint, the files and the binary.
func inspect(dir, version, commit string) (v1.ImageIndex, error) {
	index, err := readIndex(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, m := range manifest.Manifests {
		found = append(found, m.Platform.String())
	}
	slices.Sort(found)
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(found, want) {
		return nil, fmt.Errorf("the platforms are %q, want %q", found, want)
	}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			return nil, err
		}
		if err := inspectImage(image, *m.Platform, version, commit); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Platform, err)
		}
	}
	return index, nil
}

func inspectImage(image v1.Image, platform v1.Platform, version, commit string) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	files, err := fileSystem(image)
	if err != nil {
		return err
	}
	var errs []error
	expect := func(what string, got, want any) {
		if fmt.Sprint(got) != fmt.Sprint(want) {
			errs = append(errs, fmt.Errorf("%s is %v, want %v", what, got, want))
		}
	}
	expect("the user", config.Config.User, user)
	expect("the entrypoint", config.Config.Entrypoint, []string{"/" + binary})
	expect("the platform", config.OS+"/"+config.Architecture, platform.String())
	expect("the version label", config.Config.Labels["org.opencontainers.image.version"], version)
	expect("the commit label", config.Config.Labels["org.opencontainers.image.revision"], commit)

	want, err := baseFiles()
	if err != nil {
		return err
	}
	// Nothing but these: no shell, no package manager, nothing to look for holes in.
	expect("the list of files", slices.Sorted(maps.Keys(files)), slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(want)), binary))))
	pool := x509.NewCertPool()
	expect("whether the roots can be read", pool.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"]), true)
	errs = append(errs, inspectBinary(files[binary], platform, version, commit))
	return errors.Join(errs...)
}

func inspectBinary(data []byte, platform v1.Platform, version, commit string) error {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return err
	}
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[platform.Architecture]
	if f.Machine != machine {
		return fmt.Errorf("the binary is for %s", f.Machine)
	}
	if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) > 0 || f.Section(".interp") != nil {
		return fmt.Errorf("the binary is not static: it needs %q", libraries)
	}
	for _, text := range []string{version, commit} {
		if !bytes.Contains(data, []byte(text)) {
			return fmt.Errorf("the binary does not know %q", text)
		}
	}
	return nil
}

// fileSystem is what a container of the image would see, without folders and links.
func fileSystem(image v1.Image) (map[string][]byte, error) {
	reader := mutate.Extract(image)
	defer reader.Close()
	out := map[string][]byte{}
	for entries := tar.NewReader(reader); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(entries)
		if err != nil {
			return nil, err
		}
		out[strings.TrimPrefix(path.Clean(header.Name), "/")] = data
	}
}
