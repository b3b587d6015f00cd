package main

import (
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The base alone has the right user and roots, but no manager: the inspection must be able to fail.
func TestInspectionRefusesAnImageWithoutTheManager(t *testing.T) {
	index, err := baseIndex()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendIndex(index); err != nil {
		t.Fatal(err)
	}
	_, err = inspect(dir, "v1", "abc")
	for _, want := range []string{"the entrypoint is", "the list of files is"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the inspection says %v, and not %q", err, want)
		}
	}
}

func TestInspectionRefusesRootAndAMissingPlatform(t *testing.T) {
	image, err := mutate.Config(empty.Image, v1.Config{User: "root"})
	if err != nil {
		t.Fatal(err)
	}
	if err := inspectImage(image, v1.Platform{OS: "linux", Architecture: "amd64"}, "v1", "abc"); err == nil || !strings.Contains(err.Error(), "the user is root") {
		t.Errorf("an image that runs as root is taken: %v", err)
	}
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	one := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
	})
	if err := path.AppendIndex(one); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect(dir, "v1", "abc"); err == nil || !strings.Contains(err.Error(), "the platforms are") {
		t.Errorf("an image for one platform is taken: %v", err)
	}
}
