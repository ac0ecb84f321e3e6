{{/* monitor.yaml, and the secrets that belong to it. */}}

{{/* The settings as the service reads them: what config says, and what follows from the release. */}}
{{- define "monitor.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $source := $config.source -}}
{{- $kafka := default dict $source.kafka -}}
{{- if and (eq $source.kind "kafka") (not $kafka.group_id) -}}
{{- $_ := set $kafka "group_id" (include "monitor.groupId" .) -}}
{{- end -}}
{{- if $kafka -}}
{{- $_ := set $source "kafka" $kafka -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "monitor.groupId" -}}
{{- $kafka := default dict .Values.config.source.kafka -}}
{{- default (printf "%s.%s" .Release.Namespace (include "monitor.fullname" .)) $kafka.group_id -}}
{{- end -}}

{{/*
Settings that extraEnv sets, such as STORE__URL, as a list below `settings`: by themselves, or, of those that checks ask for, with
the section that they are in.
*/}}
{{- define "monitor.fromEnvironment" -}}
{{- $settings := list -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "MONITOR__" .name -}}
{{- $settings = append $settings (.name | upper | trimPrefix "MONITOR__" | trimSuffix "_FILE") -}}
{{- end -}}
{{- end -}}
{{- $asked := list "API__HOST" "STORE__URL" "SOURCE__EMBEDDED__DIRECTORY" -}}
{{- range $key := list "BOOTSTRAP_SERVERS" "SECURITY_PROTOCOL" "SASL_MECHANISM" "SASL_PLAIN_USERNAME" "SASL_PLAIN_PASSWORD" -}}
{{- $asked = append $asked (printf "SOURCE__KAFKA__%s" $key) -}}
{{- end -}}
{{- range $section := $settings -}}
{{- range $asked -}}
{{- if hasPrefix (printf "%s__" $section) . }}{{ $settings = append $settings . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "settings" $settings) -}}
{{- end -}}

{{/* "true" if the state is in SQLite, in the pod's own volume. An address that extraEnv has from a Secret is taken for another. */}}
{{- define "monitor.sqlite" -}}
{{- $url := .Values.config.store.url -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^MONITOR__(?i:STORE(__URL)?(_FILE)?)$" .name }}{{ $url = default "" .value }}{{ end -}}
{{- end -}}
{{- if and (not .Values.store.existingSecret) (hasPrefix "sqlite" $url) -}}true{{- end -}}
{{- end -}}

{{/* Topics that are read, as a list below `topics`: as TopicSettings.read has them. */}}
{{- define "monitor.topics" -}}
{{- $named := default dict .Values.config.source.topics -}}
{{- $topics := list -}}
{{- range $kind := list "predictions" "outcomes" "labelled" "events" -}}
{{- with get $named $kind }}{{ $topics = append $topics (ternary . (get (ternary (dict) . (kindIs "string" .)) "name") (kindIs "string" .)) }}{{ end -}}
{{- end -}}
{{- toYaml (dict "topics" (default (list "calibration-events") $topics)) -}}
{{- end -}}

{{/*
Bytes that the embedded log takes at the most, 0 where no size bounds it: of each partition of each topic what is kept, and
one segment of a quarter of that, or of 64 MiB, as EmbeddedLog has it.
*/}}
{{- define "monitor.logBytes" -}}
{{- $embedded := default dict .Values.config.source.embedded -}}
{{- $kept := default 0 $embedded.retention_bytes | float64 -}}
{{- $topics := (fromYaml (include "monitor.topics" .)).topics -}}
{{- with (default dict .Values.config.dead_letters).topic }}{{ $topics = append $topics . }}{{ end -}}
{{- $segment := minf (divf $kept 4) 67108864 -}}
{{- mulf (addf $kept $segment) (len $topics) (default 4 $embedded.partitions) -}}
{{- end -}}

{{/* Brokers in one line, with commas between them. */}}
{{- define "monitor.brokers" -}}
{{- $servers := (default dict .Values.config.source.kafka).bootstrap_servers -}}
{{- if kindIs "slice" $servers }}{{ join "," $servers }}{{ else }}{{ default "" $servers }}{{ end -}}
{{- end -}}

{{/*
Files that Secrets give: `files`, each with secret, key, path and the variable of the setting that is read from it. They are
mounted rather than put into variables: nothing that a process starts inherits them, and Kubernetes renews them.
*/}}
{{- define "monitor.secretFiles" -}}
{{- $files := list -}}
{{- with .Values.store -}}
{{- if .existingSecret -}}
{{- $files = append $files (dict "secret" .existingSecret "key" .secretKey "path" "store/url" "variable" "MONITOR__STORE__URL_FILE") -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.config.source.kind "kafka" -}}
{{- with .Values.kafka -}}
{{- if .existingSecret -}}
{{- $files = append $files (dict "secret" .existingSecret "key" .usernameKey "path" "kafka/username" "variable" "MONITOR__SOURCE__KAFKA__SASL_PLAIN_USERNAME_FILE") -}}
{{- $files = append $files (dict "secret" .existingSecret "key" .passwordKey "path" "kafka/password" "variable" "MONITOR__SOURCE__KAFKA__SASL_PLAIN_PASSWORD_FILE") -}}
{{- end -}}
{{- with .tls -}}
{{- if .existingSecret -}}
{{- if .caKey -}}
{{- $files = append $files (dict "secret" .existingSecret "key" .caKey "path" "kafka/ca.crt" "variable" "MONITOR__SOURCE__KAFKA__SSL_CAFILE") -}}
{{- end -}}
{{- if .certKey -}}
{{- $files = append $files (dict "secret" .existingSecret "key" .certKey "path" "kafka/tls.crt" "variable" "MONITOR__SOURCE__KAFKA__SSL_CERTFILE") -}}
{{- end -}}
{{- if .keyKey -}}
{{- $files = append $files (dict "secret" .existingSecret "key" .keyKey "path" "kafka/tls.key" "variable" "MONITOR__SOURCE__KAFKA__SSL_KEYFILE") -}}
{{- end -}}
{{- if .keyPasswordKey -}}
{{- $files = append $files (dict "secret" .existingSecret "key" .keyPasswordKey "path" "kafka/tls.key.password" "variable" "MONITOR__SOURCE__KAFKA__SSL_PASSWORD_FILE") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.access -}}
{{- if .existingSecret -}}
{{- $files = append $files (dict "secret" .existingSecret "key" .secretKey "path" "access/keys.yaml" "variable" "MONITOR__ACCESS__KEYS_FILE") -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "files" $files) -}}
{{- end -}}
