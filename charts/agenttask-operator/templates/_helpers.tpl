{{- define "agenttask.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of objects. At most 40 characters, so that every suffix of this chart fits into 63. */}}
{{- define "agenttask.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "agenttask.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "agenttask.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "agenttask.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create is false, so serviceAccount.name must name one that exists" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the Pods. They never change, since a Deployment's selector cannot. */}}
{{- define "agenttask.selectorLabels" -}}
app.kubernetes.io/name: {{ include "agenttask.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agenttask.labels" -}}
{{ include "agenttask.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "agenttask.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "agenttask.testNamespace" -}}
{{- if .Values.tests.namespace -}}
{{- .Values.tests.namespace -}}
{{- else if and .Values.watchNamespaces (not (has .Release.Namespace .Values.watchNamespaces)) -}}
{{- first .Values.watchNamespaces -}}
{{- else -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{/* Combinations that a schema cannot express. Every message says what to write instead. */}}
{{- define "agenttask.validate" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "leaderElection.enabled is false, but replicas is more than 1: two managers would run the same tasks. Use one replica, or leave leader election on" -}}
{{- end -}}
{{- if and .Values.defaultModel .Values.watchNamespaces -}}
{{- if not (has (splitList "/" .Values.defaultModel | first) .Values.watchNamespaces) -}}
{{- fail (printf "defaultModel %s is in a namespace that watchNamespaces leaves out: add it there" .Values.defaultModel) -}}
{{- end -}}
{{- end -}}
{{- if and (has "*" .Values.rbac.secretNamespaces) (gt (len .Values.rbac.secretNamespaces) 1) -}}
{{- fail "rbac.secretNamespaces has * beside namespaces: keep * for all, or the namespaces" -}}
{{- end -}}
{{- if .Values.watchNamespaces -}}
{{- range without .Values.rbac.secretNamespaces "*" -}}
{{- if not (has . $.Values.watchNamespaces) -}}
{{- fail (printf "rbac.secretNamespaces has %s, which watchNamespaces leaves out: add it there, or take it out here" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.metrics -}}
{{- if and .enabled .secure .serviceMonitor.enabled (not .certificateSecretName) (not .serviceMonitor.insecureSkipVerify) -}}
{{- fail "metrics.serviceMonitor cannot verify a certificate that the manager signs itself: set metrics.certificateSecretName, or metrics.serviceMonitor.insecureSkipVerify to scrape whoever answers" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.enabled (eq (int .Values.metrics.port) 8081) -}}
{{- fail "metrics.port is 8081, where the probes are: use another port" -}}
{{- end -}}
{{- if and .Values.extraCA.configMapName .Values.extraCA.secretName -}}
{{- fail "extraCA.configMapName and extraCA.secretName are both set: keep one" -}}
{{- end -}}
{{- end -}}
