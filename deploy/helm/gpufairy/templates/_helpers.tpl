{{- define "gpufairy.name" -}}
{{- .Values.nameOverride | default .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* Labels of every object; call with (list . "part"). */ -}}
{{- define "gpufairy.labels" -}}
{{- $top := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
{{ include "gpufairy.selector" . }}
{{- end -}}

{{- define "gpufairy.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: gpufairy
app.kubernetes.io/instance: {{ $top.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "gpufairy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "gpufairy.toolsImage" -}}
{{ .Values.sessions.toolsImage.repository }}:{{ .Values.sessions.toolsImage.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* The namespaces of sessions, as a list in JSON. */ -}}
{{- define "gpufairy.sessionNamespaces" -}}
{{- $all := list .Values.sessions.namespace -}}
{{- range .Values.sessions.teams }}{{ $all = append $all (printf "%s-%s" $.Values.sessions.namespace .) }}{{ end -}}
{{- toJson $all -}}
{{- end -}}

{{- define "gpufairy.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* "true" or nothing: a server was asked for, or nobody asked for agents alone. */ -}}
{{- define "gpufairy.hasServer" -}}
{{- if kindIs "bool" .Values.server.enabled -}}
{{- if .Values.server.enabled }}true{{ end -}}
{{- else if not (index .Values "gpu-session-monitoring").enabled -}}
true
{{- end -}}
{{- end -}}

{{- define "gpufairy.hasAgents" -}}
{{- if or .Values.agents.enabled (index .Values "gpu-session-monitoring").enabled }}true{{ end -}}
{{- end -}}

{{- /* The agents' values, with the monitoring guide's names laid over them. As YAML. */ -}}
{{- define "gpufairy.agents" -}}
{{- $agents := deepCopy .Values.agents -}}
{{- range $said := list (pick .Values "collection" "nodeSelector" "tolerations") (index .Values "gpu-session-monitoring") -}}
{{- $_ := set $agents "collection" (merge (deepCopy ($said.collection | default dict)) $agents.collection) -}}
{{- range $name := list "nodeSelector" "tolerations" -}}
{{- if not (kindIs "invalid" (index $said $name)) -}}
{{- $_ := set $agents $name (index $said $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $agents -}}
{{- end -}}

{{- define "gpufairy.serverAccount" -}}
{{- .Values.server.serviceAccount.name | default (include "gpufairy.name" .) -}}
{{- end -}}

{{- define "gpufairy.agentAccount" -}}
{{- .Values.agents.serviceAccount.name | default (printf "%s-agent" (include "gpufairy.name" .)) -}}
{{- end -}}

{{- define "gpufairy.inCluster" -}}
http://{{ include "gpufairy.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}

{{- define "gpufairy.url" -}}
{{- if .Values.server.url -}}
{{ .Values.server.url }}
{{- else if .Values.ingress.enabled -}}
{{ .Values.ingress.tlsSecret | empty | ternary "http" "https" }}://{{ .Values.ingress.host }}
{{- else -}}
{{ include "gpufairy.inCluster" . }}
{{- end -}}
{{- end -}}

{{- define "gpufairy.tomlKey" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end -}}

{{- /* A value as TOML, on one line. JSON's texts, numbers and truths are TOML's too. */ -}}
{{- define "gpufairy.tomlValue" -}}
{{- if kindIs "map" . -}}
{ {{- range $at, $key := keys . | sortAlpha }}{{ if $at }}, {{ end }}{{ include "gpufairy.tomlKey" $key }} = {{ include "gpufairy.tomlValue" (index $ $key) }}{{ end -}} }
{{- else if kindIs "slice" . -}}
[{{ range $at, $one := . }}{{ if $at }}, {{ end }}{{ include "gpufairy.tomlValue" $one }}{{ end }}]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end -}}

{{- /* [kubernetes] of fairy.toml, as YAML. */ -}}
{{- define "gpufairy.kubernetes" -}}
{{- $sessions := .Values.sessions -}}
namespace: {{ $sessions.namespace }}
team_namespaces: {{ not (empty $sessions.teams) }}
server_url: {{ include "gpufairy.inCluster" . | quote }}
tools_image: {{ include "gpufairy.toolsImage" . | quote }}
tools: {{ $sessions.toolsImage.by }}
pull_policy: {{ $sessions.pullPolicy }}
pull_secret: {{ $sessions.pullSecret | quote }}
registry: {{ $sessions.registry.prefix | quote }}
registry_logins: {{ $sessions.registry.loginsSecret | empty | ternary "" "/etc/gpufairy-registry/.dockerconfigjson" | quote }}
registry_http: {{ $sessions.registry.plainHttp }}
runtime_class: {{ $sessions.runtimeClassName | quote }}
homes: {storage_class: {{ $sessions.homes.storageClass | quote }}, size: {{ $sessions.homes.size | quote }}, access: {{ $sessions.homes.access }}}
shared_claim: {{ $sessions.sharedClaim | quote }}
folders: {{ toJson $sessions.folders }}
gpus: {{ toJson $sessions.gpus }}
labels: {{ toJson $sessions.labels }}
tolerate: {{ toJson $sessions.tolerations }}
nodes: {{ $sessions.nodes | quote }}
pool_label: {{ $sessions.poolLabel | quote }}
{{- end -}}

{{- /* fairy.toml: what the chart knows, with what the admin says laid over it. */ -}}
{{- define "gpufairy.toml" -}}
{{- /* Its pod's name would be another one after each restart, and its past with it. */ -}}
{{- $ours := dict "server" (dict "url" (include "gpufairy.url" .)) "node" (dict "name" (include "gpufairy.name" .)) "watch" (dict "session_namespaces" (include "gpufairy.sessionNamespaces" . | fromJsonArray)) -}}
{{- if .Values.database.url }}{{ $_ := set $ours.server "store" .Values.database.url }}{{ end -}}
{{- if .Values.apps.domain }}{{ $_ := set $ours "apps" (dict "domain" .Values.apps.domain "port" 8423) }}{{ end -}}
{{- if eq .Values.server.engine "kubernetes" -}}
{{- $_ := set $ours "kubernetes" (include "gpufairy.kubernetes" . | fromYaml) -}}
{{- end -}}
{{- $all := mergeOverwrite $ours (deepCopy .Values.server.settings) -}}
{{- range $section := keys $all | sortAlpha }}
[{{ include "gpufairy.tomlKey" $section }}]
{{- $table := index $all $section }}
{{- range $key := keys $table | sortAlpha }}
{{ include "gpufairy.tomlKey" $key }} = {{ include "gpufairy.tomlValue" (index $table $key) }}
{{- end }}
{{ end -}}
{{- end -}}
