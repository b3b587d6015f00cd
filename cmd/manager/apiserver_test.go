package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// apiServer is as much of an API server as a replica needs that does not lead: it has no objects, and another replica leads.
type apiServer struct {
	*httptest.Server

	mu sync.Mutex
	// missing are kinds whose CRD is not installed, silent those whose lists do not answer.
	missing, silent map[string]bool
	// denied are permissions, as "verb resource namespace", and failing makes every question for one an error.
	denied  map[string]bool
	failing bool
	// asked counts the questions for a permission, and selectors are what lists asked for, by "resource namespace".
	asked     map[string]int
	selectors map[string]string
	answered  chan struct{}
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{missing: map[string]bool{}, silent: map[string]bool{}, denied: map[string]bool{},
		asked: map[string]int{}, selectors: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) { reply(w, &metav1.APIVersions{}) })
	mux.HandleFunc("GET /apis", s.groups)
	mux.HandleFunc("GET /apis/{group}/{version}", s.resources)
	mux.HandleFunc("GET /apis/agentloop.dev/v1alpha1/namespaces/{namespace}/{resource}", s.list)
	mux.HandleFunc("GET /apis/agentloop.dev/v1alpha1/{resource}", s.list)
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", s.review)
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/ops/leases/"+leaseName, func(w http.ResponseWriter, _ *http.Request) {
		now := metav1.NowMicro()
		reply(w, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: leaseName}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now,
		}})
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *apiServer) config() *rest.Config {
	return &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// change changes what the server does.
func (s *apiServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func reply(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

func (s *apiServer) groups(w http.ResponseWriter, _ *http.Request) {
	out := &metav1.APIGroupList{}
	for group, version := range map[string]string{"agentloop.dev": "v1alpha1", "authorization.k8s.io": "v1"} {
		v := metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version}
		out.Groups = append(out.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
	}
	reply(w, out)
}

func (s *apiServer) resources(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &metav1.APIResourceList{GroupVersion: r.PathValue("group") + "/" + r.PathValue("version")}
	for _, kind := range map[string][]string{
		"agentloop.dev": {"AgentTask", "AgentModel", "AgentToolset"}, "authorization.k8s.io": {"SelfSubjectAccessReview"},
	}[r.PathValue("group")] {
		name := strings.ToLower(kind) + "s"
		if !s.missing[name] {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: name, Kind: kind, Namespaced: r.PathValue("group") == "agentloop.dev"})
		}
	}
	reply(w, out)
}

func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	query, resource := r.URL.Query(), r.PathValue("resource")
	switch {
	case query.Get("sendInitialEvents") == "true":
		w.WriteHeader(http.StatusUnprocessableEntity) // as an API server without streaming lists: a plain one follows
		return
	case query.Get("watch") == "true":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	silent := s.silent[resource]
	s.selectors[resource+" "+r.PathValue("namespace")] = query.Get("labelSelector")
	s.mu.Unlock()
	if silent {
		select {
		case <-s.answered:
		case <-r.Context().Done():
		}
	}
	kind := map[string]string{"agenttasks": "AgentTaskList", "agentmodels": "AgentModelList", "agenttoolsets": "AgentToolsetList"}[resource]
	reply(w, map[string]any{"kind": kind, "apiVersion": "agentloop.dev/v1alpha1", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
}

func (s *apiServer) review(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	review := &authorizationv1.SelfSubjectAccessReview{}
	if err := json.NewDecoder(r.Body).Decode(review); err != nil || s.failing {
		http.Error(w, "failing", http.StatusInternalServerError)
		return
	}
	a := review.Spec.ResourceAttributes
	what := strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/") + " " + a.Namespace
	s.asked[what]++
	review.Status.Allowed = !s.denied[what]
	reply(w, review)
}

// patience bounds what should take moments, on a machine that may be busy.
const patience = 60 * time.Second
