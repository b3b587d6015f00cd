{{/* Every flag is given, defaults too: what runs is then seen in the Deployment. */}}
{{- define "agenttask.args" -}}
{{- if .Values.metrics.enabled -}}
- --metrics-bind-address=:{{ .Values.metrics.port }}
- --metrics-secure={{ .Values.metrics.secure }}
{{ with include "agenttask.metricsCertificate" . -}}
- --metrics-cert-dir=/etc/agenttask/metrics
{{ end -}}
{{ else -}}
- --metrics-bind-address=0
{{ end -}}
- --health-probe-bind-address=:8081
- --leader-elect={{ .Values.leaderElection.enabled }}
{{- if .Values.leaderElection.enabled }}
- --leader-election-namespace=$(POD_NAMESPACE)
{{- end }}
{{- with .Values.watchNamespaces }}
- --watch-namespaces={{ join "," . }}
{{- end }}
{{- with .Values.watchLabelSelector }}
- {{ printf "--watch-label-selector=%s" . | quote }}
{{- end }}
- {{ printf "--secret-namespaces=%s" (join "," .Values.rbac.secretNamespaces) | quote }}
- --max-concurrent-turns={{ int .Values.manager.maxConcurrentTurns }}
- --status-interval={{ .Values.manager.statusInterval }}
- --max-turn-attempts={{ int .Values.manager.maxTurnAttempts }}
{{- with .Values.manager.maxJournalBytes }}
- --max-journal-bytes={{ ternary . (int64 .) (kindIs "string" .) }}
{{- end }}
- --shutdown-grace={{ int .Values.manager.shutdownGraceSeconds }}s
- --max-call-timeout={{ .Values.manager.maxCallTimeout }}
{{- with .Values.defaultModel }}
- --default-model={{ . }}
{{- end }}
{{- with .Values.egress.allow }}
- --allow-egress={{ join "," . }}
{{- end }}
{{- if not (kindIs "invalid" .Values.egress.denyLoopback) }}
- --deny-loopback={{ .Values.egress.denyLoopback }}
{{- end }}
- --deny-private-networks={{ .Values.egress.denyPrivateNetworks }}
- --secret-policy={{ .Values.secrets.policy }}
- --allow-plaintext-credentials={{ .Values.secrets.allowPlaintext }}
- {{ printf "--zap-log-level=%v" .Values.log.level | quote }}
- --zap-encoder={{ .Values.log.encoder }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The Secret whose certificate metrics are served with, empty for none. */}}
{{- define "agenttask.metricsCertificate" -}}
{{- if and .Values.metrics.enabled .Values.metrics.secure }}{{ .Values.metrics.certificateSecretName }}{{ end -}}
{{- end -}}

{{- define "agenttask.volumeMounts" -}}
{{- if include "agenttask.metricsCertificate" . -}}
- name: metrics-certificate
  mountPath: /etc/agenttask/metrics
  readOnly: true
{{ end -}}
{{- if or .Values.extraCA.configMapName .Values.extraCA.secretName -}}
- name: extra-ca
  mountPath: /etc/agenttask/ca
  readOnly: true
{{ end -}}
{{- with .Values.extraVolumeMounts -}}
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{- define "agenttask.volumes" -}}
{{- with include "agenttask.metricsCertificate" . -}}
- name: metrics-certificate
  secret:
    secretName: {{ . }}
{{ end -}}
{{- if .Values.extraCA.configMapName -}}
- name: extra-ca
  configMap:
    name: {{ .Values.extraCA.configMapName }}
{{ else if .Values.extraCA.secretName -}}
- name: extra-ca
  secret:
    secretName: {{ .Values.extraCA.secretName }}
{{ end -}}
{{- with .Values.extraVolumes -}}
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{- define "agenttask.topologySpread" -}}
{{- $selector := dict "matchLabels" (include "agenttask.selectorLabels" . | fromYaml) -}}
{{- $default := list (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway") -}}
{{- $constraints := list -}}
{{- range (default $default .Values.topologySpreadConstraints) -}}
{{- if hasKey . "labelSelector" -}}
{{- $constraints = append $constraints . -}}
{{- else -}}
{{- $constraints = append $constraints (merge (dict "labelSelector" $selector) .) -}}
{{- end -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}

{{/* Without leader election a new manager beside the old one would run the same tasks, so the old one goes first. Recreate
has no parameters, and the default ones would be merged in. */}}
{{- define "agenttask.strategy" -}}
{{- if or (not .Values.leaderElection.enabled) (eq .Values.updateStrategy.type "Recreate") -}}
type: Recreate
{{- else -}}
{{- toYaml .Values.updateStrategy -}}
{{- end -}}
{{- end -}}
