{{/* Names, labels and parts that several objects have in common. */}}

{{- define "monitor.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
Name of all objects: at most 52 characters, since Kubernetes puts up to 11 behind that of a StatefulSet and of a CronJob; and one
that a Service may have, which a release's need not be: that may begin with a digit and hold dots. What is cut or changed
is stood for by a hash of the whole, so that no two releases meet.
*/}}
{{- define "monitor.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $base := default .Chart.Name .Values.nameOverride -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name $base) (contains $base .Release.Name) -}}
{{- end -}}
{{- $fit := replace "." "-" $name -}}
{{- if regexMatch "^[0-9]" $fit -}}
{{- $fit = printf "m-%s" $fit -}}
{{- end -}}
{{- if ne $fit $name -}}
{{- $fit = printf "%s-%s" $fit ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{- include "monitor.shortened" (dict "name" $fit "length" 52) -}}
{{- end -}}

{{/* A name of at most so many characters: a hash stands for what is cut. Of dict "name" "length". */}}
{{- define "monitor.shortened" -}}
{{- if le (len .name) (int .length) -}}
{{- .name -}}
{{- else -}}
{{- printf "%s-%s" (.name | trunc (int (sub .length 9)) | trimSuffix "-" | trimSuffix ".") (.name | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{- define "monitor.selectorLabels" -}}
app.kubernetes.io/name: {{ include "monitor.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "monitor.labels" -}}
{{- $own := fromYaml (include "monitor.selectorLabels" .) -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $_ := set $own "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_" | trunc 63) -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "app.kubernetes.io/part-of" "calibration-monitor" -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.commonLabels) $own) -}}
{{- end -}}

{{/* The lines below `metadata:`. Of dict "root" "name" "component" and, where there are any, "labels" "annotations". */}}
{{- define "monitor.metadata" -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- $labels := fromYaml (include "monitor.labels" .root) -}}
  {{- with .component }}{{ $_ := set $labels "app.kubernetes.io/component" . }}{{ end -}}
  {{- toYaml (mergeOverwrite (deepCopy (default dict .labels)) $labels) | nindent 2 }}
{{- with mergeOverwrite (deepCopy .root.Values.commonAnnotations) (default dict .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "monitor.serviceAccountName" -}}
{{- $own := ternary (include "monitor.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $own .Values.serviceAccount.name -}}
{{- end -}}

{{- define "monitor.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What every pod of the chart has: no token, no variables of other services, the restricted standard. */}}
{{- define "monitor.podBasics" -}}
serviceAccountName: {{ include "monitor.serviceAccountName" . | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "monitor.containerBasics" -}}
image: {{ include "monitor.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- end -}}

{{/* Bytes of a quantity of Kubernetes, such as 10Gi. */}}
{{- define "monitor.bytes" -}}
{{- $count := regexFind "^[0-9.]+" . | float64 -}}
{{- $unit := regexFind "[a-zA-Z]+$" . -}}
{{- $power := index (dict "" 0 "m" -1 "k" 1 "K" 1 "M" 2 "G" 3 "T" 4 "P" 5 "E" 6) (trimSuffix "i" $unit) -}}
{{- $base := ternary 1024.0 1000.0 (hasSuffix "i" $unit) -}}
{{- if lt $power 0 }}{{ $count = divf $count 1000 }}{{ end -}}
{{- range until (int (max $power 0)) }}{{ $count = mulf $count $base }}{{ end -}}
{{- $count -}}
{{- end -}}

{{- define "monitor.url" -}}
{{- printf "http://%s:%d" (include "monitor.fullname" .) (int .Values.service.port) -}}
{{- end -}}

{{/* Variables of the service and of the init container that checks its settings. */}}
{{- define "monitor.serviceEnv" -}}
# Commands that are run in the pod, such as `monitor keys`, find the settings by this.
env:
  - name: MONITOR_CONFIG
    value: /etc/calibration-monitor/monitor.yaml
  {{- if eq .Values.config.source.kind "kafka" }}
  # Static membership: a pod that is back within the session finds its partitions where they were.
  - name: MONITOR__SOURCE__KAFKA__GROUP_INSTANCE_ID
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  {{- end }}
  {{- range (fromYaml (include "monitor.secretFiles" .)).files }}
  - name: {{ .variable }}
    value: {{ printf "/etc/calibration-monitor/secrets/%s" .path | quote }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "monitor.serviceMounts" -}}
volumeMounts:
  - name: data
    mountPath: /var/lib/calibration-monitor
  - name: tmp
    mountPath: /tmp
  - name: config
    mountPath: /etc/calibration-monitor
    readOnly: true
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
