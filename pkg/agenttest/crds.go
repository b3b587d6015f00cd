package agenttest

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/config/crd"
)

// AddToScheme adds the operator's kinds to a scheme.
func AddToScheme(s *runtime.Scheme) error { return v1alpha1.AddToScheme(s) }

// CRDs are the definitions of the operator's kinds, for envtest.Environment.CRDs.
func CRDs() []*apiextensionsv1.CustomResourceDefinition {
	out, err := readCRDs()
	if err != nil {
		panic(err) // they are compiled in
	}
	return out
}

func readCRDs() (out []*apiextensionsv1.CustomResourceDefinition, err error) {
	files, err := crd.Files.ReadDir("bases")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := crd.Files.ReadFile("bases/" + f.Name())
		if err != nil {
			return nil, err
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, d); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		out = append(out, d)
	}
	return out, nil
}

// InstallCRDs installs the definitions in any cluster, or brings them up to date, and waits until it serves the kinds.
func InstallCRDs(cfg *rest.Config) error {
	_, err := envtest.InstallCRDs(cfg, envtest.CRDInstallOptions{CRDs: CRDs()})
	return err
}
