package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/action"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

func TestLintIsClean(t *testing.T) {
	for file, values := range valuesFiles(t) {
		lint := action.NewLint()
		lint.Strict, lint.Namespace = true, namespace
		for _, m := range lint.Run([]string{chartDir}, values).Messages {
			// An icon is for catalogues; a URL that nobody serves is worse than none.
			if !strings.Contains(m.Error(), "icon is recommended") {
				t.Errorf("%s: %s", file, m)
			}
		}
	}
}

// The bases are the source. The chart's copies are plain, so that the two can be compared byte by byte.
func TestChartCRDsAreTheGeneratedOnes(t *testing.T) {
	bases, err := filepath.Glob(crdDir + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	copies, err := filepath.Glob(chartDir + "/files/crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(bases) == 0 || len(bases) != len(copies) {
		t.Errorf("config/crd/bases has %d files, the chart %d: run charts/sync-crds.sh", len(bases), len(copies))
	}
	objects, _ := render(t, nil)
	rendered := byID(objects)
	for _, base := range bases {
		want, err := os.ReadFile(base)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(chartDir + "/files/crds/" + filepath.Base(base))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs in the chart: run charts/sync-crds.sh (%v)", filepath.Base(base), err)
			continue
		}
		// Helm's YAML functions read numbers as floats, so look at what comes out too.
		parsed, err := parse(string(want))
		if err != nil {
			t.Fatal(err)
		}
		crd := rendered[id(parsed[0])]
		if crd == nil {
			t.Fatalf("%s is not rendered", id(parsed[0]))
		}
		if diff := cmp.Diff(parsed[0].Object["spec"], crd.Object["spec"]); diff != "" {
			t.Errorf("%s is rendered differently (-base +chart):\n%s", base, diff)
		}
		if crd.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s would go with the release, and every task with it", crd.GetName())
		}
	}
}

func TestPodsMeetTheRestrictedPodSecurityStandard(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for file, values := range valuesFiles(t) {
		objects, hooks := render(t, values)
		for _, o := range append(objects, hooks...) {
			pod := podOf(t, o)
			if pod == nil {
				continue
			}
			result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec))
			if !result.Allowed {
				t.Errorf("%s: %s: %s", file, id(o), result.ForbiddenDetail())
			}
		}
	}
}

// A kill before --shutdown-grace, and the 30 s after it in which results are written and sessions closed, leaves tool calls in doubt.
func TestPodsOutliveTheShutdownGrace(t *testing.T) {
	for _, grace := range []int64{1, 30, 3600} {
		objects, _ := render(t, map[string]any{"manager": map[string]any{"shutdownGraceSeconds": grace}})
		pod := podOf(t, byID(objects)["Deployment/"+name])
		if got := *pod.Spec.TerminationGracePeriodSeconds; got <= grace+30 {
			t.Errorf("Pods get %d s to end, but the manager takes up to %d", got, grace+30)
		}
	}
}

// The answer policy must name every field of the API: one that it forgets could be changed by an answerer.
func TestAnswerPolicyCoversTheWholeSpec(t *testing.T) {
	objects, _ := render(t, nil)
	rendered := byID(objects)
	rule, found, err := unstructured.NestedSlice(rendered["ValidatingAdmissionPolicy/"+name+"-answers-only"].Object, "spec", "validations")
	if err != nil || !found {
		t.Fatal("no validations", err)
	}
	expression := rule[0].(map[string]any)["expression"].(string)
	versions, _, _ := unstructured.NestedSlice(rendered["CustomResourceDefinition/agenttasks.agentloop.dev"].Object, "spec", "versions")
	fields, found, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties")
	if err != nil || !found {
		t.Fatal("no fields", err)
	}
	answer := map[string]bool{"resumeInput": true, "resumeInputID": true}
	for field := range fields {
		named := strings.Contains(expression+" ", "object.spec.?"+field+" == oldObject.spec.?"+field+" ")
		if named == answer[field] {
			t.Errorf("spec.%s: held by the answer policy: %v, want %v", field, named, !answer[field])
		}
	}
}

// The API server of the tests has no Prometheus operator, so the ServiceMonitor is held to its Go type.
func TestServiceMonitorHasNoUnknownField(t *testing.T) {
	objects, _ := render(t, valuesFiles(t)["everything"])
	text, err := byID(objects)["ServiceMonitor/agent-runner"].MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &monitoringv1.ServiceMonitor{}); err != nil {
		t.Error(err)
	}
}

func TestNotesFitTheRelease(t *testing.T) {
	for file, want := range map[string]string{
		"defaults": "all namespaces", "namespaced": "the namespaces team-a, team-b", "minimal": "crds.install is false",
		"everything": "those that team=a selects",
	} {
		_, _, notes, err := template(load(t), valuesFiles(t)[file])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(notes, want) || strings.Count(notes, "kubectl ") < 3 {
			t.Errorf("%s: the notes lack %q or the next three commands:\n%s", file, want, notes)
		}
	}
}

// podOf is the Pod that an object makes or is, nil for none.
func podOf(t *testing.T, o *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	out := &corev1.Pod{}
	switch o.GetKind() {
	case "Deployment":
		d := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
			t.Fatal(err)
		}
		out.ObjectMeta, out.Spec = d.Spec.Template.ObjectMeta, d.Spec.Template.Spec
	case "Pod":
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, out); err != nil {
			t.Fatal(err)
		}
	default:
		return nil
	}
	return out
}
