package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	chartDir  = root + "/charts/agenttask-operator"
	crdDir    = root + "/config/crd/bases"
	namespace = "agenttask-system"
	name      = "agenttask-operator"
)

func loadChart(dir string) (*chartv2.Chart, error) { return loader.Load(dir) }

func load(t *testing.T) *chartv2.Chart {
	t.Helper()
	c, err := loadChart(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// valuesFiles are the values files in ci/, by name.
func valuesFiles(t *testing.T) map[string]map[string]any {
	t.Helper()
	paths, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	if err != nil || len(paths) < 4 {
		t.Fatalf("found %d values files: %v", len(paths), err)
	}
	out := map[string]map[string]any{}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(p), "-values.yaml")] = parseValues(t, string(text))
	}
	return out
}

// template is `helm template`: the release's objects, and those of its hooks.
func template(c *chartv2.Chart, values map[string]any) (objects, hooks []*unstructured.Unstructured, notes string, err error) {
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = name, namespace
	install.KubeVersion = &common.KubeVersion{Version: "v1.37.2", Major: "1", Minor: "37"}
	got, err := install.Run(c, values)
	if err != nil {
		return nil, nil, "", err
	}
	rel := got.(*release.Release)
	if objects, err = parse(rel.Manifest); err != nil {
		return nil, nil, "", err
	}
	for _, h := range rel.Hooks {
		parsed, err := parse(h.Manifest)
		if err != nil {
			return nil, nil, "", err
		}
		hooks = append(hooks, parsed...)
	}
	return objects, hooks, rel.Info.Notes, nil
}

func render(t *testing.T, values map[string]any) (objects, hooks []*unstructured.Unstructured) {
	t.Helper()
	objects, hooks, _, err := template(load(t), values)
	if err != nil {
		t.Fatal(err)
	}
	return objects, hooks
}

// parse reads a stream of manifests. A key that is there twice is an error: one of the two would silently win.
func parse(stream string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for docs := yamlutil.NewDocumentDecoder(io.NopCloser(strings.NewReader(stream))); ; {
		buf := make([]byte, 1<<20)
		n, err := docs.Read(buf)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		text, err := yaml.YAMLToJSONStrict(bytes.TrimSpace(buf[:n]))
		if err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, buf[:n])
		}
		if string(text) == "null" {
			continue
		}
		if err := o.UnmarshalJSON(text); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
}

// id names an object within a release.
func id(o *unstructured.Unstructured) string {
	if ns := o.GetNamespace(); ns != "" && ns != namespace {
		return o.GetKind() + "/" + ns + "/" + o.GetName()
	}
	return o.GetKind() + "/" + o.GetName()
}

func byID(objects []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[id(o)] = o
	}
	return out
}
