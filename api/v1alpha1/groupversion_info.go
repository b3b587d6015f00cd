// Package v1alpha1 holds the API of the agenttask-operator: AgentTask, AgentModel, AgentToolset and AgentTranscript.
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="applyconfiguration"
// +groupName=agentloop.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of all kinds here.
	GroupVersion = schema.GroupVersion{Group: "agentloop.dev", Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion by the name that generated code uses.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder collects what AddToScheme adds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&AgentTask{}, &AgentTaskList{},
		&AgentModel{}, &AgentModelList{},
		&AgentToolset{}, &AgentToolsetList{},
		&AgentTranscript{}, &AgentTranscriptList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
