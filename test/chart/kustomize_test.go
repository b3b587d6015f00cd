package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func kustomize(t *testing.T) []*unstructured.Unstructured { return build(t, root+"/config/default") }

func build(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// The two ways to install must not drift apart. Helm's own marks, and the Namespace that Helm leaves to its user, are all
// that may differ.
func TestKustomizeInstallsWhatTheChartDoes(t *testing.T) {
	objects, _ := render(t, nil)
	fromHelm := byID(objects)
	for _, o := range fromHelm {
		labels, annotations := o.GetLabels(), o.GetAnnotations()
		delete(labels, "helm.sh/chart")
		delete(labels, "app.kubernetes.io/managed-by")
		delete(annotations, "helm.sh/resource-policy")
		o.SetLabels(labels)
		if len(annotations) == 0 {
			annotations = nil
		}
		o.SetAnnotations(annotations)
	}
	fromKustomize := byID(kustomize(t))
	if fromKustomize["Namespace/"+namespace] == nil {
		t.Error("config/default makes no Namespace")
	}
	delete(fromKustomize, "Namespace/"+namespace)

	for key := range fromHelm {
		if fromKustomize[key] == nil {
			t.Errorf("%s is only in the chart", key)
		}
	}
	for key, o := range fromKustomize {
		if fromHelm[key] == nil {
			t.Errorf("%s is only in config/default", key)
			continue
		}
		if rules, found := grants(t, o); found {
			want, _ := grants(t, fromHelm[key])
			if diff := cmp.Diff(want, rules); diff != "" {
				t.Errorf("%s grants differ (-chart +config/default):\n%s", key, diff)
			}
			delete(o.Object, "rules")
			delete(fromHelm[key].Object, "rules")
		}
		if diff := cmp.Diff(fromHelm[key].Object, o.Object); diff != "" {
			t.Errorf("%s differs (-chart +config/default):\n%s", key, diff)
		}
	}
}

// overlay builds the overlay that docs/install.md shows under this comment, moved to another folder.
func overlay(t *testing.T, comment string) map[string]*unstructured.Unstructured {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "# "+comment+"\n")
	text, _, found := strings.Cut(after, "```")
	base, err := filepath.Abs(root + "/config/default")
	if err != nil || !found {
		t.Fatal("docs/install.md has no overlay", err)
	}
	dir := t.TempDir()
	if base, err = filepath.Rel(dir, base); err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer("../config/default", base, "REPOSITORY", "example.com/x", "TAG", "v9").Replace(text)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, o := range build(t, dir) {
		out[o.GetKind()+"/"+o.GetName()] = o
	}
	return out
}

func TestDocumentedOverlayChangesTheImage(t *testing.T) {
	got := podOf(t, overlay(t, "kustomization.yaml")["Deployment/"+name]).Spec.Containers[0].Image
	if got != "example.com/x:v9" {
		t.Errorf("the image is %s", got)
	}
}

func TestDocumentedOverlayChangesTheNamespace(t *testing.T) {
	objects := overlay(t, "another namespace")
	if got := objects["ServiceAccount/"+name].GetNamespace(); got != "agents" {
		t.Errorf("the account is in %s", got)
	}
	conditions, _, _ := unstructured.NestedSlice(objects["ValidatingAdmissionPolicy/"+name+"-journal-writers"].Object, "spec", "matchConditions")
	if got, want := fmt.Sprint(conditions), `["system:serviceaccount:agents:agenttask-operator"]`; !strings.Contains(got, want) {
		t.Errorf("the policy is %s, want one for %s", got, want)
	}
}

// grants are a role's rules one verb on one resource at a time: controller-gen groups and orders them in its own way.
func grants(t *testing.T, o *unstructured.Unstructured) (map[string]bool, bool) {
	t.Helper()
	if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
		return nil, false
	}
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			for _, url := range rule.NonResourceURLs {
				out[verb+" "+url] = true
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					out[fmt.Sprintf("%s %s/%s %q", verb, group, resource, rule.ResourceNames)] = true
				}
			}
		}
	}
	return out, true
}
