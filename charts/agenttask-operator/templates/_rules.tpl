{{/* What the manager may do where tasks are. In a ClusterRole, or in one Role for each of watchNamespaces. Verbs are named
one by one, and a test compares them with config/rbac/role.yaml, which is generated from the controller's markers. Secrets and
ConfigMaps can only be read by name: the manager neither lists nor watches them. */}}
{{- define "agenttask.managerRules" -}}
- apiGroups: [agentloop.dev]
  resources: [agenttasks]
  verbs: [get, list, watch, delete]
- apiGroups: [agentloop.dev]
  resources: [agentmodels, agenttoolsets]
  verbs: [get, list, watch]
- apiGroups: [agentloop.dev]
  resources: [agenttasks/status, agentmodels/status, agenttoolsets/status]
  verbs: [get, update, patch]
- apiGroups: [agentloop.dev]
  resources: [agenttranscripts]
  verbs: [get, create, update]
- apiGroups: ["", events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if has "*" .Values.rbac.secretNamespaces }}
{{ include "agenttask.secretRules" . }}
{{- end }}
{{- end -}}

{{- define "agenttask.secretRules" -}}
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get]
{{- end -}}

{{/* A Role of the manager in "namespace", with "rules", and its binding. */}}
{{- define "agenttask.managerRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "agenttask.labels" .root | nindent 4 }}
rules:
  {{- include .rules .root | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "agenttask.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  {{- include "agenttask.managerSubject" .root | nindent 2 }}
{{- end -}}

{{- define "agenttask.managerSubject" -}}
- kind: ServiceAccount
  name: {{ include "agenttask.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The accounts that may write journals, as a list in CEL. */}}
{{- define "agenttask.journalWriters" -}}
{{- $own := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "agenttask.serviceAccountName" .) -}}
{{- prepend .Values.rbac.journalPolicy.accounts $own | toJson -}}
{{- end -}}

{{/* Puts the admission policy "name" in force, where the manager of "root" works. */}}
{{- define "agenttask.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "agenttask.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
  {{- with .root.Values.watchNamespaces }}
  matchResources:
    namespaceSelector:
      matchExpressions:
        - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
  {{- end }}
{{- end -}}
