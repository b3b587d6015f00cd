package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/controlplane"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// expected is how each sample must end.
var expected = map[string]v1alpha1.LoopExitReason{
	"completes":     v1alpha1.ExitCompleted,
	"needs-input":   v1alpha1.ExitCompleted,
	"iteration-cap": v1alpha1.ExitIterationCapReached,
	"token-budget":  v1alpha1.ExitTokenBudgetExceeded,
	"time-budget":   v1alpha1.ExitTimeBudgetExceeded,
	"no-progress":   v1alpha1.ExitNoProgress,
	"input-timeout": v1alpha1.ExitInputTimeout,
	"cancelled":     v1alpha1.ExitCancelled,
	"haiku":         v1alpha1.ExitCompleted,
	"with-tools":    v1alpha1.ExitCompleted,
}

const namespace = "default"

type demo struct {
	client client.WithWatch
}

// apply creates the objects of config/samples.
func (d *demo) apply(ctx context.Context) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "samples", "*.yaml"))
	if err != nil {
		return err
	}
	fmt.Println("Applying config/samples ...")
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		if err := d.applyFile(ctx, file); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func (d *demo) applyFile(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		object.SetNamespace(namespace)
		if object.GetKind() == "AgentModel" && object.GetName() == "openai" {
			if err := d.useServer(ctx, object); err != nil {
				return err
			}
		}
		if object.GetKind() == "AgentToolset" {
			if err := unstructured.SetNestedField(object.Object, warehouse(), "spec", "url"); err != nil {
				return err
			}
		}
		if err := client.WithFieldValidation(d.client, metav1.FieldValidationStrict).Create(ctx, object); err != nil {
			return err
		}
	}
}

// useServer points the sample's OpenAI model at the server that the environment names, or at one of our own.
func (d *demo) useServer(ctx context.Context, model *unstructured.Unstructured) error {
	key, endpoint, name := os.Getenv("OPENAI_API_KEY"), os.Getenv("OPENAI_BASE_URL"), os.Getenv("MODEL")
	switch {
	case key == "" && endpoint == "":
		key, name = "not-needed", "demo"
		endpoint = httptest.NewServer(fakechat.New(haiku)).URL + "/v1" // lives as long as the demo
		fmt.Println("The sample haiku talks to a local server that speaks the OpenAI format. Set OPENAI_API_KEY (and OPENAI_BASE_URL, MODEL) for a real model.")
	case key == "":
		key = "not-needed"
	}
	for field, value := range map[string]string{"endpoint": endpoint, "model": name} {
		if value != "" {
			if err := unstructured.SetNestedField(model.Object, value, "spec", field); err != nil {
				return err
			}
		}
	}
	return d.client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "openai", Namespace: namespace}, StringData: map[string]string{"api-key": key},
	})
}

func haiku(r *fakechat.Request) fakechat.Reply {
	if r.Replies() == 0 {
		return fakechat.Reply{Text: "The state drifts away\nand the loop pulls it gently\nback to what was asked", In: 240, Out: 22}
	}
	return fakechat.Reply{Text: strings.Join([]string{
		"The state drifts away,", "the loop looks once more, and pulls:", "what was asked, is so.", "",
		"TASK_COMPLETE: wrote a haiku and improved it once",
	}, "\n"), In: 290, Out: 40}
}
