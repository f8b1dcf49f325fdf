{{- define "pawl.labels" -}}
app.kubernetes.io/name: pawl
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{- define "pawl.name" -}}
{{- printf "%s-%s" (.root.Release.Name | trunc 40 | trimSuffix "-") .role -}}
{{- end }}

{{- /* The environment of a role: .root, .role. */ -}}
{{- define "pawl.env" -}}
{{- $v := .root.Values -}}
{{- $user := printf "pawl-%s-%s" $v.namespace .role -}}
- {name: PAWL_NAMESPACE, value: {{ $v.namespace | quote }}}
- {name: PAWL_NATS, value: {{ $v.nats.url | quote }}}
- {name: PAWL_REDIS, value: {{ $v.redis.url | quote }}}
{{- if $v.nats.existingSecret }}
- {name: PAWL_NATS_USER, value: {{ $user | quote }}}
- {name: PAWL_NATS_PASSWORD_FILE, value: /etc/pawl/nats/password}
- {name: PAWL_NATS_INBOX_PREFIX, value: {{ printf "_INBOX_%s_%s" $v.namespace .role | quote }}}
{{- end }}
{{- if $v.nats.caSecret }}
- {name: PAWL_NATS_CA, value: /etc/pawl/nats-ca/ca.crt}
{{- end }}
{{- if $v.redis.existingSecret }}
- {name: PAWL_REDIS_USER, value: {{ $user | quote }}}
- {name: PAWL_REDIS_PASSWORD_FILE, value: /etc/pawl/redis/password}
{{- end }}
{{- if $v.redis.caSecret }}
- {name: PAWL_REDIS_CA, value: /etc/pawl/redis-ca/ca.crt}
{{- end }}
{{- if $v.api.existingSecret }}
- {name: PAWL_HTTP_TOKENS, value: /etc/pawl/api/tokens}
{{- end }}
- {name: PAWL_HTTP, value: "0.0.0.0:7295"}
- {name: PAWL_DRAIN, value: {{ printf "%ds" (int $v.drainSeconds) | quote }}}
- {name: PAWL_LOG_LEVEL, value: {{ $v.logLevel | quote }}}
- {name: PAWL_LOG_FORMAT, value: json}
- {name: PAWL_EXAMPLES, value: {{ $v.examples | quote }}}
{{- end }}

{{- define "pawl.mounts" -}}
{{- range $name, $secret := (include "pawl.secrets" . | fromYaml) }}
- {name: {{ $name }}, mountPath: /etc/pawl/{{ $name }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "pawl.volumes" -}}
{{- $role := .role -}}
{{- range $name, $secret := (include "pawl.secrets" . | fromYaml) }}
- name: {{ $name }}
  secret:
    secretName: {{ $secret.name }}
    defaultMode: 0440
    items: [{key: {{ $secret.key }}, path: {{ $secret.path }}}]
{{- end }}
{{- end }}

{{- define "pawl.secrets" -}}
{{- $v := .root.Values -}}
{{- if $v.nats.existingSecret }}
nats: {name: {{ $v.nats.existingSecret }}, key: {{ .role }}, path: password}
{{- end }}
{{- if $v.nats.caSecret }}
nats-ca: {name: {{ $v.nats.caSecret }}, key: ca.crt, path: ca.crt}
{{- end }}
{{- if $v.redis.existingSecret }}
redis: {name: {{ $v.redis.existingSecret }}, key: {{ .role }}, path: password}
{{- end }}
{{- if $v.redis.caSecret }}
redis-ca: {name: {{ $v.redis.caSecret }}, key: ca.crt, path: ca.crt}
{{- end }}
{{- if $v.api.existingSecret }}
api: {name: {{ $v.api.existingSecret }}, key: tokens, path: tokens}
{{- end }}
{{- end }}

{{- /* A deployment of a role: .root, .role, .values, .env. */ -}}
{{- define "pawl.deployment" -}}
{{- $v := .root.Values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "pawl.name" . }}
  labels: {{- include "pawl.labels" . | nindent 4 }}
spec:
  {{- if not (and (eq .role "worker") $v.worker.autoscaling.enabled) }}
  replicas: {{ .values.replicas }}
  {{- end }}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector:
    matchLabels: {{- include "pawl.labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "pawl.labels" . | nindent 8 }}
      {{- with .values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      # Longer than the drain and the grace period together, plus the time to hand over.
      terminationGracePeriodSeconds: {{ add (int $v.drainSeconds) (int $v.graceSeconds) 15 }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with $v.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
      {{- if $v.topologySpread.enabled }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: {{ $v.topologySpread.key }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "pawl.labels" . | nindent 14 }}
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .role }}
          image: {{ printf "%s:%s" (index $v.image .role) (default .root.Chart.AppVersion $v.image.tag) | quote }}
          imagePullPolicy: {{ $v.image.pullPolicy }}
          env:
            {{- include "pawl.env" . | nindent 12 }}
            {{- .env | nindent 12 }}
            {{- with .values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports: [{name: http, containerPort: 7295}]
          livenessProbe:
            httpGet: {path: /healthz, port: http}
            periodSeconds: 10
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: http}
            periodSeconds: 5
            timeoutSeconds: 2
          resources: {{- toYaml .values.resources | nindent 12 }}
          securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
          {{- with (include "pawl.mounts" . | trim) }}
          volumeMounts: {{- . | nindent 12 }}
          {{- end }}
      {{- with (include "pawl.volumes" . | trim) }}
      volumes: {{- . | nindent 8 }}
      {{- end }}
{{- end }}

{{- define "pawl.policies" -}}
{{- $v := .root.Values -}}
{{- if $v.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "pawl.name" . }}
  labels: {{- include "pawl.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ $v.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels: {{- include "pawl.labels" . | nindent 6 }}
{{- end }}
{{- if $v.networkPolicy.enabled }}
{{- if and (not $v.networkPolicy.from) (or $v.serviceMonitor.enabled (and $v.worker.enabled $v.worker.autoscaling.enabled)) }}
{{- fail "networkPolicy.from must name the clients of the HTTP port: Prometheus and KEDA, most often in other namespaces, and your own clients" }}
{{- end }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "pawl.name" . }}
  labels: {{- include "pawl.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "pawl.labels" . | nindent 6 }}
  policyTypes: {{ if eq .role "worker" }}[Ingress]{{ else }}[Ingress, Egress]{{ end }}
  ingress:
    - ports: [{port: http}]
      from: {{- default (list (dict "podSelector" dict)) $v.networkPolicy.from | toYaml | nindent 8 }}
  {{- if ne .role "worker" }}
  # Activities connect to arbitrary destinations, so workers have no egress policy.
  egress:
    - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
    - ports: [{port: {{ $v.networkPolicy.natsPort }}}, {port: {{ $v.networkPolicy.redisPort }}}]
    {{- with $v.networkPolicy.egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}
