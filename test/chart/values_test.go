package chart

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
)

// change is what one value does. Set is YAML of values; Object the object that it changes, and At a JSONPath into it, which
// then gives Want. Without At, the object is there (Want "yes") or not ("no").
type change struct{ set, object, at, want string }

const (
	deployment = "Deployment/" + name
	pod        = "{.spec.template.spec"
	container  = pod + ".containers[0]"
)

var changes = []change{
	{"replicas: 5", deployment, "{.spec.replicas}", "5"},
	{"image: {repository: example.com/x}", deployment, container + ".image}", "example.com/x:0.1.0"},
	{"image: {tag: v9}", deployment, container + ".image}", "ghcr.io/agentloop-dev/agenttask-operator:v9"},
	{"image: {tag: v9, digest: 'sha256:" + strings.Repeat("a", 64) + "'}", deployment, container + ".image}", "ghcr.io/agentloop-dev/agenttask-operator@sha256:" + strings.Repeat("a", 64)},
	{"image: {pullPolicy: Always}", deployment, container + ".imagePullPolicy}", "Always"},
	{"imagePullSecrets: [{name: pull}]", deployment, pod + ".imagePullSecrets[0].name}", "pull"},
	{"nameOverride: agents", "Deployment/agenttask-operator-agents", "{.metadata.labels.app\\.kubernetes\\.io/name}", "agents"},
	{"fullnameOverride: agents", "Deployment/agents", "", "yes"},
	{"commonLabels: {team: a}", "CustomResourceDefinition/agenttasks.agentloop.dev", "{.metadata.labels.team}", "a"},
	{"crds: {install: false}", "CustomResourceDefinition/agenttasks.agentloop.dev", "", "no"},
	{"crds: {keep: false}", "CustomResourceDefinition/agenttasks.agentloop.dev", "{.metadata.annotations.helm\\.sh/resource-policy}", ""},
	{"crds: {annotations: {a: b}}", "CustomResourceDefinition/agentmodels.agentloop.dev", "{.metadata.annotations.a}", "b"},
	{"watchNamespaces: [a, b]", "Role/b/" + name, "", "yes"},
	{"watchNamespaces: [a, b]", "RoleBinding/a/" + name, "{.subjects[0].namespace}", namespace},
	{"watchNamespaces: [a, b]", "ClusterRole/" + name, "", "no"},
	{"watchNamespaces: [a, b]", "ClusterRoleBinding/" + name, "", "no"},
	{"watchNamespaces: [a, b]", deployment, "args", "--watch-namespaces=a,b"},
	{"watchLabelSelector: '!team,tier=x'", deployment, "args", "--watch-label-selector=!team,tier=x"},
	{"defaultModel: a/b", deployment, "args", "--default-model=a/b"},
	{"manager: {maxConcurrentTurns: 99999}", deployment, "args", "--max-concurrent-turns=99999"},
	{"manager: {statusInterval: 5s}", deployment, "args", "--status-interval=5s"},
	{"manager: {maxTurnAttempts: 7}", deployment, "args", "--max-turn-attempts=7"},
	{"manager: {maxJournalBytes: 100Mi}", deployment, "args", "--max-journal-bytes=100Mi"},
	{"manager: {maxJournalBytes: 100000000}", deployment, "args", "--max-journal-bytes=100000000"},
	{"manager: {shutdownGraceSeconds: 90}", deployment, "args", "--shutdown-grace=90s"},
	{"manager: {maxCallTimeout: 5m}", deployment, "args", "--max-call-timeout=5m"},
	{"manager: {shutdownGraceSeconds: 90}", deployment, pod + ".terminationGracePeriodSeconds}", "125"},
	{"egress: {allow: [10.0.0.0/8, 127.0.0.1/32]}", deployment, "args", "--allow-egress=10.0.0.0/8,127.0.0.1/32"},
	{"egress: {denyLoopback: false}", deployment, "args", "--deny-loopback=false"},
	{"egress: {denyLoopback: true}", deployment, "args", "--deny-loopback=true"},
	{"egress: {denyPrivateNetworks: true}", deployment, "args", "--deny-private-networks=true"},
	{"secrets: {policy: Labelled}", deployment, "args", "--secret-policy=Labelled"},
	{"secrets: {allowPlaintext: true}", deployment, "args", "--allow-plaintext-credentials=true"},
	{"{leaderElection: {enabled: false}, replicas: 1}", deployment, "args", "--leader-elect=false"},
	{"{leaderElection: {enabled: false}, replicas: 1}", "Role/" + name + "-leader-election", "", "no"},
	{"{leaderElection: {enabled: false}, replicas: 1}", deployment, "{.spec.strategy}", `{"type":"Recreate"}`},
	{"log: {level: debug}", deployment, "args", "--zap-log-level=debug"},
	{"log: {level: 2}", deployment, "args", "--zap-log-level=2"},
	{"log: {level: '2'}", deployment, "args", "--zap-log-level=2"},
	{"log: {encoder: console}", deployment, "args", "--zap-encoder=console"},
	{"metrics: {enabled: false}", deployment, "args", "--metrics-bind-address=0"},
	{"metrics: {enabled: false}", "Service/" + name + "-metrics", "", "no"},
	{"metrics: {enabled: false}", "ClusterRole/" + name + "-metrics-auth", "", "no"},
	{"metrics: {enabled: false}", "NetworkPolicy/" + name, "{.spec.ingress}", "[]"},
	{"metrics: {secure: false}", deployment, "args", "--metrics-secure=false"},
	{"metrics: {secure: false}", "ClusterRoleBinding/" + name + "-metrics-auth", "", "no"},
	{"metrics: {secure: false}", "Service/" + name + "-metrics", "{.spec.ports[0].appProtocol}", "http"},
	{"metrics: {port: 9000}", deployment, "args", "--metrics-bind-address=:9000"},
	{"metrics: {port: 9000}", "Service/" + name + "-metrics", "{.spec.ports[0].port}", "9000"},
	{"metrics: {service: {annotations: {a: b}}}", "Service/" + name + "-metrics", "{.metadata.annotations.a}", "b"},
	{"metrics: {certificateSecretName: cert}", deployment, "args", "--metrics-cert-dir=/etc/agenttask/metrics"},
	{"metrics: {certificateSecretName: cert}", deployment, pod + ".volumes[0].secret.secretName}", "cert"},
	{"metrics: {certificateSecretName: cert}", deployment, container + ".volumeMounts[0].mountPath}", "/etc/agenttask/metrics"},
	{"metrics: {certificateSecretName: cert, serviceMonitor: {enabled: true}}", "ServiceMonitor/" + name, "{.spec.endpoints[0].scheme}", "https"},
	{"metrics: {certificateSecretName: cert, serviceMonitor: {enabled: true}}", "ServiceMonitor/" + name, "{.spec.endpoints[0].tlsConfig}",
		`{"ca":{"secret":{"key":"ca.crt","name":"cert"}},"serverName":"agenttask-operator-metrics.agenttask-system.svc"}`},
	{"metrics: {certificateSecretName: cert, serviceMonitor: {enabled: true, ca: {configMap: {name: a, key: b}}}}", "ServiceMonitor/" + name, "{.spec.endpoints[0].tlsConfig.ca}", `{"configMap":{"key":"b","name":"a"}}`},
	{"metrics: {serviceMonitor: {enabled: true, insecureSkipVerify: true}}", "ServiceMonitor/" + name, "{.spec.endpoints[0].tlsConfig}", `{"insecureSkipVerify":true}`},
	{"metrics: {serviceMonitor: {enabled: true}, secure: false}", "ServiceMonitor/" + name, "{.spec.endpoints[0].scheme}", ""},
	{"metrics: {serviceMonitor: {enabled: true, interval: 5s}, secure: false}", "ServiceMonitor/" + name, "{.spec.endpoints[0].interval}", "5s"},
	{"metrics: {serviceMonitor: {enabled: true, labels: {a: b}}, secure: false}", "ServiceMonitor/" + name, "{.metadata.labels.a}", "b"},
	{"networkPolicy: {enabled: false}", "NetworkPolicy/" + name, "", "no"},
	{"networkPolicy: {metricsFrom: [{podSelector: {}}]}", "NetworkPolicy/" + name, "{.spec.ingress[0].from}", `[{"podSelector":{}}]`},
	{"networkPolicy: {egress: [{}]}", "NetworkPolicy/" + name, "{.spec.policyTypes}", `["Ingress","Egress"]`},
	{"podDisruptionBudget: {enabled: false}", "PodDisruptionBudget/" + name, "", "no"},
	{"podDisruptionBudget: {maxUnavailable: 30%}", "PodDisruptionBudget/" + name, "{.spec.maxUnavailable}", "30%"},
	{"serviceAccount: {create: false, name: mine}", "ServiceAccount/" + name, "", "no"},
	{"serviceAccount: {create: false, name: mine}", "ClusterRoleBinding/" + name, "{.subjects[0].name}", "mine"},
	{"serviceAccount: {name: mine}", deployment, pod + ".serviceAccountName}", "mine"},
	{"serviceAccount: {annotations: {a: b}}", "ServiceAccount/" + name, "{.metadata.annotations.a}", "b"},
	{"rbac: {create: false}", "ClusterRole/" + name, "", "no"},
	{"rbac: {create: false}", "Role/" + name + "-leader-election", "", "no"},
	{"rbac: {userRoles: {create: false}}", "ClusterRole/" + name + "-answerer", "", "no"},
	{"rbac: {userRoles: {aggregate: false}}", "ClusterRole/" + name + "-editor", "{.metadata.labels.rbac\\.authorization\\.k8s\\.io/aggregate-to-edit}", ""},
	{"rbac: {answerPolicy: {create: false}}", "ValidatingAdmissionPolicyBinding/" + name + "-answers-only", "", "no"},
	{"rbac: {journalPolicy: {create: false}}", "ValidatingAdmissionPolicyBinding/" + name + "-journal-writers", "", "no"},
	{"rbac: {journalPolicy: {accounts: [restorer]}}", "ValidatingAdmissionPolicy/" + name + "-journal-writers", "{.spec.matchConditions[0].expression}",
		`!(request.userInfo.username in ["system:serviceaccount:agenttask-system:agenttask-operator","restorer"])`},
	{"serviceAccount: {name: mine}", "ValidatingAdmissionPolicy/" + name + "-journal-writers", "{.spec.matchConditions[0].expression}",
		`!(request.userInfo.username in ["system:serviceaccount:agenttask-system:mine"])`},
	{"watchNamespaces: [a, b]", "ValidatingAdmissionPolicyBinding/" + name + "-journal-writers", "{.spec.matchResources.namespaceSelector.matchExpressions}",
		`[{"key":"kubernetes.io/metadata.name","operator":"In","values":["a","b"]}]`},
	{"rbac: {secretPolicy: {create: false}}", "ValidatingAdmissionPolicyBinding/" + name + "-secret-references", "", "no"},
	{"rbac: {secretNamespaces: [a, b]}", "RoleBinding/b/" + name + "-secrets", "{.subjects[0].namespace}", namespace},
	{"rbac: {secretNamespaces: [a, b]}", "Role/a/" + name + "-secrets", "{.rules[*].resources}", `["configmaps","secrets"]`},
	{"rbac: {secretNamespaces: [a, b]}", "ClusterRole/" + name, "{.rules[?(@.apiGroups[0]=='')].resources}", `["events"]`},
	{"rbac: {secretNamespaces: [a, b]}", deployment, "args", "--secret-namespaces=a,b"},
	{"rbac: {secretNamespaces: []}", deployment, "args", "--secret-namespaces="},
	{"rbac: {create: false, secretNamespaces: []}", deployment, "args", "--secret-namespaces="},
	{"resources: {requests: {cpu: 2}}", deployment, container + ".resources.requests.cpu}", "2"},
	{"resources: {requests: {memory: 1Gi}}", deployment, container + ".resources.requests.memory}", "1Gi"},
	{"resources: {limits: {memory: 1Gi}}", deployment, container + ".resources.limits.memory}", "1Gi"},
	{"resources: {limits: {memory: null}}", deployment, container + ".env[?(@.name=='MEMORY_LIMIT')].name}", ""},
	{"extraCA: {configMapName: ca}", deployment, pod + ".volumes[0].configMap.name}", "ca"},
	{"extraCA: {secretName: ca}", deployment, pod + ".volumes[0].secret.secretName}", "ca"},
	{"extraCA: {secretName: ca}", deployment, container + ".env[?(@.name=='SSL_CERT_DIR')].value}", "/etc/ssl/certs:/etc/agenttask/ca"},
	{"extraArgs: [--x]", deployment, "args", "--x"},
	{"extraEnv: [{name: A, value: b}]", deployment, container + ".env[?(@.name=='A')].value}", "b"},
	{"extraEnvFrom: [{secretRef: {name: a}}]", deployment, container + ".envFrom[0].secretRef.name}", "a"},
	{"{extraVolumes: [{name: v, emptyDir: {}}], extraCA: {secretName: ca}}", deployment, pod + ".volumes[1].name}", "v"},
	{"{extraVolumeMounts: [{name: v, mountPath: /v}], extraCA: {secretName: ca}}", deployment, container + ".volumeMounts[1].mountPath}", "/v"},
	{"podAnnotations: {a: b}", deployment, "{.spec.template.metadata.annotations.a}", "b"},
	{"podLabels: {a: b}", deployment, "{.spec.template.metadata.labels.a}", "b"},
	{"podSecurityContext: {runAsNonRoot: null}", deployment, pod + ".securityContext.runAsNonRoot}", ""},
	{"podSecurityContext: {runAsUser: 7}", deployment, pod + ".securityContext.runAsUser}", "7"},
	{"podSecurityContext: {runAsGroup: 7}", deployment, pod + ".securityContext.runAsGroup}", "7"},
	{"podSecurityContext: {seccompProfile: {type: Localhost}}", deployment, pod + ".securityContext.seccompProfile.type}", "Localhost"},
	{"securityContext: {allowPrivilegeEscalation: null}", deployment, container + ".securityContext.allowPrivilegeEscalation}", ""},
	{"securityContext: {readOnlyRootFilesystem: false}", deployment, container + ".securityContext.readOnlyRootFilesystem}", "false"},
	{"securityContext: {capabilities: {drop: [NET_RAW]}}", deployment, container + ".securityContext.capabilities.drop}", `["NET_RAW"]`},
	{"nodeSelector: {kubernetes.io/os: null}", deployment, pod + ".nodeSelector}", ""},
	{"nodeSelector: {a: b}", deployment, pod + ".nodeSelector.a}", "b"},
	{"tolerations: [{operator: Exists}]", deployment, pod + ".tolerations[0].operator}", "Exists"},
	{"affinity: {podAntiAffinity: {}}", deployment, pod + ".affinity}", `{"podAntiAffinity":{}}`},
	{"topologySpreadConstraints: [{maxSkew: 2, topologyKey: zone}]", deployment, pod + ".topologySpreadConstraints[0].topologyKey}", "zone"},
	{"topologySpreadConstraints: [{maxSkew: 2, topologyKey: zone}]", deployment, pod + ".topologySpreadConstraints[?(@.topologyKey=='zone')].labelSelector.matchLabels.app\\.kubernetes\\.io/instance}", name},
	{"topologySpreadConstraints: [{maxSkew: 2, topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]", deployment, pod + ".topologySpreadConstraints[0].labelSelector}", `{"matchLabels":{"a":"b"}}`},
	{"priorityClassName: high", deployment, pod + ".priorityClassName}", "high"},
	{"updateStrategy: {type: Recreate}", deployment, "{.spec.strategy}", `{"type":"Recreate"}`},
	{"updateStrategy: {rollingUpdate: {maxSurge: 2}}", deployment, "{.spec.strategy.rollingUpdate.maxSurge}", "2"},
	{"updateStrategy: {rollingUpdate: {maxUnavailable: 1}}", deployment, "{.spec.strategy.rollingUpdate.maxUnavailable}", "1"},
	{"tests: {image: 'x:1'}", "Pod/" + name + "-test", "{.spec.containers[0].image}", "x:1"},
	{"tests: {namespace: smoke}", "AgentTask/smoke/" + name + "-test", "", "yes"},
	{"tests: {labels: {team: a}}", "AgentTask/" + name + "-test", "{.metadata.labels.team}", "a"},
	{"watchNamespaces: [a]", "AgentTask/a/" + name + "-test", "", "yes"},
}

// outcome is what a change looks at: before and after differ, or the value does nothing.
func (c change) outcome(t *testing.T, rendered map[string]*unstructured.Unstructured) string {
	t.Helper()
	o := rendered[c.object]
	switch {
	case c.at == "" && o == nil:
		return "no"
	case c.at == "":
		return "yes"
	case o == nil:
		return "no object " + c.object
	}
	path := c.at
	if path == "args" {
		path = container + ".args[*]}"
	}
	query := jsonpath.New("").AllowMissingKeys(true)
	if err := query.Parse(path); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := query.Execute(&out, o.Object); err != nil {
		t.Fatal(err)
	}
	got := strings.TrimSpace(out.String())
	if c.at == "args" {
		if slices.Contains(strings.Fields(got), c.want) {
			return c.want
		}
		return "no argument " + c.want + " in " + got
	}
	return got
}

func TestEachValueChangesWhatItSays(t *testing.T) {
	all := func(values map[string]any) map[string]*unstructured.Unstructured {
		objects, hooks := render(t, values)
		return byID(append(objects, hooks...))
	}
	defaults := all(nil)
	for _, c := range changes {
		t.Run(c.set+" "+c.object, func(t *testing.T) {
			if got := c.outcome(t, all(parseValues(t, c.set))); flat(got) != flat(c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if before := c.outcome(t, defaults); flat(before) == flat(c.want) {
				t.Errorf("it is %s without the value too", before)
			}
		})
	}
}

func flat(s string) string { return strings.Join(strings.Fields(s), "") }

// A value that no test sets may as well not be there.
func TestEveryValueHasATest(t *testing.T) {
	text, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for _, c := range changes {
		maps.Copy(tested, leaves("", parseValues(t, c.set)))
	}
	for leaf := range leaves("", parseValues(t, string(text))) {
		if !tested[leaf] && !tested[leaf+"."] {
			t.Errorf("no test sets %s", leaf)
		}
	}
}

// leaves are the paths of all values that are no maps; an empty map is a leaf, and a map's keys make its own path known too.
func leaves(prefix string, values map[string]any) map[string]bool {
	out := map[string]bool{}
	for key, value := range values {
		path := strings.TrimPrefix(prefix+"."+key, ".")
		if m, ok := value.(map[string]any); ok && len(m) > 0 {
			maps.Copy(out, leaves(path, m))
			out[path+"."] = true
			continue
		}
		out[path] = true
	}
	return out
}

func TestWrongValuesAreRefusedWithAnExplanation(t *testing.T) {
	for set, want := range map[string]string{
		"replica: 2":                                            "replica",
		"replicas: two":                                         "replicas",
		"manager: {maxConcurrentTurns: 0}":                      "maxConcurrentTurns",
		"manager: {maxJournalBytes: 0}":                         "maxJournalBytes",
		"manager: {maxJournalBytes: 32MB}":                      "maxJournalBytes",
		"manager: {statusInterval: 5}":                          "statusInterval",
		"manager: {maxCallTimeout: 5}":                          "maxCallTimeout",
		"defaultModel: gpt":                                     "defaultModel",
		"egress: {allow: [10.0.0.1]}":                           "allow",
		"watchNamespaces: [a, a]":                               "watchNamespaces",
		"leaderElection: {enabled: false}":                      "Use one replica, or leave leader election on",
		"{defaultModel: a/b, watchNamespaces: [c]}":             "add it there",
		"extraCA: {configMapName: a, secretName: b}":            "keep one",
		"serviceAccount: {create: false}":                       "serviceAccount.name must name one that exists",
		"image: {digest: sha256:1}":                             "digest",
		"rbac: {secretNamespaces: ['*', a]}":                    "keep * for all, or the namespaces",
		"rbac: {secretNamespaces: [A]}":                         "secretNamespaces",
		"rbac: {journalPolicy: {accounts: ['a b']}}":            "accounts",
		"{rbac: {secretNamespaces: [a]}, watchNamespaces: [c]}": "rbac.secretNamespaces has a, which watchNamespaces leaves out: add it there, or take it out here",
		"metrics: {serviceMonitor: {enabled: true}}":            "set metrics.certificateSecretName, or metrics.serviceMonitor.insecureSkipVerify",
		"metrics: {serviceMonitor: {ca: {secret: {name: a, key: b}, configMap: {name: a, key: b}}}}": "ca",
		"metrics: {port: 8081}":   "metrics.port is 8081, where the probes are: use another port",
		"log: {level: 0}":         "level",
		"log: {level: 200}":       "level",
		"secrets: {policy: Some}": "policy",
	} {
		if _, _, _, err := template(load(t), parseValues(t, set)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one that says %q", set, err, want)
		}
	}
}

// Names get suffixes of up to 23 characters, and 63 is the limit of a label.
func TestLongReleaseNamesFit(t *testing.T) {
	objects, hooks := render(t, map[string]any{"fullnameOverride": strings.Repeat("a", 40)})
	for _, o := range append(objects, hooks...) {
		if len(o.GetName()) > 63 {
			t.Errorf("%s has %d characters", id(o), len(o.GetName()))
		}
	}
}

// One team's operator needs nothing of the cluster but the CRDs.
func TestNamespacedInstallHasNoClusterScopedObject(t *testing.T) {
	objects, hooks := render(t, valuesFiles(t)["namespaced"])
	for _, o := range append(objects, hooks...) {
		if o.GetNamespace() == "" {
			t.Errorf("%s is cluster-scoped", id(o))
		}
	}
}
