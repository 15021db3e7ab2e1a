{{- /* The pod that looks at one node. Call with a dict of `top` and `agents`. */ -}}
{{- define "gpufairy.agentPod" -}}
{{- $top := .top -}}
{{- $agents := .agents -}}
{{- $once := eq $agents.collection.mode "cronjob" -}}
{{- $dra := $agents.dra.enabled -}}
{{- $reports := and (not $once) (or $agents.server (include "gpufairy.hasServer" $top)) -}}
{{- $walks := and $reports $agents.disk -}}
{{- if and $walks (not $agents.hostFileSystems) }}{{ fail "agents.disk takes agents.hostFileSystems: without it they see no folder of their node." }}{{ end -}}
{{- if and $dra (or $once (not (or $agents.server (include "gpufairy.hasServer" $top)))) }}{{ fail "agents.dra.enabled takes agents that stay and report to a server: collection.mode daemonset, and server.enabled or agents.server." }}{{ end -}}
{{- if and $once (not $agents.collection.textfile) }}{{ fail "agents.collection.textfile is empty, and mode cronjob writes nothing else. Name node-exporter's folder, or take mode daemonset." }}{{ end -}}
serviceAccountName: {{ include "gpufairy.agentAccount" $top }}
{{- include "gpufairy.pullSecrets" $top }}
# The driver tells the host's numbers of processes, and whose they are is read of the host's /proc.
hostPID: true
enableServiceLinks: false
{{- if $once }}
restartPolicy: Never
{{- end }}
terminationGracePeriodSeconds: 15
{{- with $agents.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $agents.nvidia.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $agents.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $agents.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $once }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels: {{- include "gpufairy.selector" (list $top "agent") | nindent 12 }}
{{- end }}
securityContext:
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: agent
    image: {{ include "gpufairy.image" $top | quote }}
    imagePullPolicy: {{ $top.Values.image.pullPolicy }}
    args:
      {{- if $once }}
      - exporter
      - --once
      {{- else if or $agents.server (include "gpufairy.hasServer" $top) }}
      - agent
      - --server={{ $agents.server | default (include "gpufairy.inCluster" $top) }}
      {{- else }}
      - exporter
      {{- end }}
      {{- if not $once }}
      - --listen=0.0.0.0:{{ $agents.port }}
      - --every={{ $agents.collection.every }}
      {{- end }}
      - --name=$(NODE_NAME)
      - --data={{ $agents.dataPath }}
      - --kubelet={{ $agents.kubeletPath }}
      {{- with $agents.collection.textfile }}
      - --textfile={{ . }}
      {{- end }}
      {{- if include "gpufairy.hasServer" $top }}
      {{- range include "gpufairy.sessionNamespaces" $top | fromJsonArray }}
      - --session-namespace={{ . }}
      {{- end }}
      {{- end }}
      {{- range $agents.names }}
      - --names={{ . }}
      {{- end }}
      {{- if $reports }}
      {{- range $agents.disk | default (list "none") }}
      - --disk={{ . }}
      {{- end }}
      {{- end }}
      {{- if $dra }}
      - --dra
      - --cdi={{ $agents.dra.cdiPath }}
      - --dra-sharing={{ $agents.dra.sharing }}
      {{- end }}
      {{- with $agents.options }}{{ toYaml . | nindent 6 }}{{ end }}
    env:
      - {name: HOME, value: {{ $agents.dataPath }}}
      - name: NODE_NAME
        valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
      # NVIDIA's runtime gives all GPUs, and of the driver what asks it, to whoever says so.
      - {name: NVIDIA_VISIBLE_DEVICES, value: all}
      - {name: NVIDIA_DRIVER_CAPABILITIES, value: {{ $dra | ternary "compute,utility" "utility" | quote }}}
      {{- if $agents.hostFileSystems }}
      - {name: FAIRY_HOST_ROOT, value: /host}
      {{- end }}
      {{- with $agents.nvidia.driverPath }}
      - {name: LD_LIBRARY_PATH, value: {{ . | quote }}}
      {{- end }}
      {{- with $agents.env }}{{ toYaml . | nindent 6 }}{{ end }}
    {{- if not $once }}
    ports:
      - {name: metrics, containerPort: {{ $agents.port }}}
    readinessProbe:
      httpGet: {path: /metrics, port: metrics}
      periodSeconds: 5
    {{- end }}
    resources: {{- toYaml $agents.collection.resources | nindent 6 }}
    securityContext:
      runAsUser: 0
      runAsGroup: 0
      readOnlyRootFilesystem: true
      {{- if $agents.nvidia.driverPath }}
      privileged: true
      {{- else if and $dra (eq $agents.dra.sharing "mps") }}
      # NVIDIA's driver lets nobody else set a GPU's compute mode, by which only MPS's programs get in.
      capabilities: {drop: [ALL], add: [SYS_ADMIN{{ if $walks }}, DAC_READ_SEARCH{{ end }}]}
      {{- else if $walks }}
      allowPrivilegeEscalation: false
      # To list folders that their owners closed to all others. No file is opened.
      capabilities: {drop: [ALL], add: [DAC_READ_SEARCH]}
      {{- else }}
      allowPrivilegeEscalation: false
      capabilities: {drop: [ALL]}
      {{- end }}
    volumeMounts:
      # At the same place as on the node: what the agent gives to others by its path is found there.
      - {name: data, mountPath: {{ $agents.dataPath }}}
      - {name: tmp, mountPath: /tmp}
      - {name: pod-resources, mountPath: {{ $agents.kubeletPath }}/pod-resources, readOnly: true}
      {{- if $dra }}
      - {name: plugins, mountPath: {{ $agents.kubeletPath }}/plugins}
      - {name: plugins-registry, mountPath: {{ $agents.kubeletPath }}/plugins_registry}
      - {name: cdi, mountPath: {{ $agents.dra.cdiPath }}}
      - {name: etc-cdi, mountPath: /etc/cdi, readOnly: true}
      {{- end }}
      {{- with $agents.collection.textfile }}
      - {name: textfile, mountPath: {{ . }}}
      {{- end }}
      {{- if $agents.hostFileSystems }}
      - {name: host, mountPath: /host, readOnly: true}
      {{- end }}
      {{- with $agents.nvidia.driverPath }}
      - {name: driver, mountPath: {{ . }}, readOnly: true}
      {{- end }}
      {{- with $agents.volumeMounts }}{{ toYaml . | nindent 6 }}{{ end }}
volumes:
  - {name: data, hostPath: {path: {{ $agents.dataPath }}, type: DirectoryOrCreate}}
  - {name: tmp, emptyDir: {}}
  - {name: pod-resources, hostPath: {path: {{ $agents.kubeletPath }}/pod-resources, type: DirectoryOrCreate}}
  {{- if $dra }}
  - {name: plugins, hostPath: {path: {{ $agents.kubeletPath }}/plugins, type: DirectoryOrCreate}}
  - {name: plugins-registry, hostPath: {path: {{ $agents.kubeletPath }}/plugins_registry, type: DirectoryOrCreate}}
  - {name: cdi, hostPath: {path: {{ $agents.dra.cdiPath }}, type: DirectoryOrCreate}}
  - {name: etc-cdi, hostPath: {path: /etc/cdi, type: DirectoryOrCreate}}
  {{- end }}
  {{- with $agents.collection.textfile }}
  - {name: textfile, hostPath: {path: {{ . }}, type: DirectoryOrCreate}}
  {{- end }}
  {{- if $agents.hostFileSystems }}
  - {name: host, hostPath: {path: /, type: Directory}}
  {{- end }}
  {{- with $agents.nvidia.driverPath }}
  - {name: driver, hostPath: {path: {{ . }}, type: Directory}}
  {{- end }}
  {{- with $agents.volumes }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}
