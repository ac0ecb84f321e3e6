{{/* What the schema cannot say: rules between several values. Each names the values and what to do. */}}

{{- define "monitor.checks" -}}
{{- $values := .Values -}}
{{- $config := $values.config -}}
{{- $kafka := eq $config.source.kind "kafka" -}}
{{- $settings := default dict $config.source.kafka -}}
{{- $set := (fromYaml (include "monitor.fromEnvironment" .)).settings -}}

{{- /* Nothing secret in the ConfigMap. */ -}}
{{- range $key := list "sasl_plain_password" "ssl_password" -}}
{{- if get $settings $key -}}
{{- fail (printf "config.source.kafka.%s is a secret, and config goes into a ConfigMap: put it into a Secret, and name that as %s" $key (ternary "kafka.existingSecret" "kafka.tls.existingSecret with keyPasswordKey" (eq $key "sasl_plain_password"))) -}}
{{- end -}}
{{- end -}}
{{- include "monitor.checkSecrets" (dict "path" "config" "value" $config) -}}
{{- $taken := list "MONITOR_CONFIG" "MONITOR__SOURCE__KAFKA__GROUP_INSTANCE_ID" -}}
{{- range (fromYaml (include "monitor.secretFiles" .)).files }}{{ $taken = append $taken .variable }}{{ end -}}
{{- range $index, $variable := $values.extraEnv -}}
{{- if has $variable.name $taken -}}
{{- fail (printf "extraEnv[%d] sets %s, which the chart or an earlier entry sets already" $index $variable.name) -}}
{{- end -}}
{{- $taken = append $taken $variable.name -}}
{{- if $variable.value -}}
{{- if regexMatch "(?i)(PASSWORD|SECRET|TOKEN|API_KEY|STORE__URL)$" $variable.name -}}
{{- if not (and (regexMatch "(?i)STORE__URL$" $variable.name) (not (include "monitor.holdsPassword" $variable.value))) -}}
{{- fail (printf "extraEnv[%d] gives the value of %s in plain text: give it by valueFrom.secretKeyRef" $index $variable.name) -}}
{{- end -}}
{{- end -}}
{{- if include "monitor.holdsPassword" $variable.value -}}
{{- fail (printf "extraEnv[%d] gives %s an address with a password in plain text: give it by valueFrom.secretKeyRef" $index $variable.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The store, and who shares it. */ -}}
{{- $sqlite := include "monitor.sqlite" . -}}
{{- $several := or (gt (int $values.replicaCount) 1) $values.keda.enabled -}}
{{- if and $several (not $kafka) -}}
{{- fail "replicaCount: the embedded log belongs to one pod, so that there can be one replica; several share Kafka's partitions (config.source.kind: kafka)" -}}
{{- end -}}
{{- if and $several $sqlite -}}
{{- fail "replicaCount: several replicas share one store; name the Secret with the URL of a PostgreSQL database as store.existingSecret" -}}
{{- end -}}

{{- /* Never more replicas that read than partitions: the others would read nothing. */ -}}
{{- $partitions := int (default 0 $values.kafka.partitions) -}}
{{- $reads := contains "consume" (toString (default "consume" $values.config.roles)) -}}
{{- if and $partitions $kafka $reads (not $values.keda.enabled) (gt (int $values.replicaCount) $partitions) -}}
{{- fail (printf "replicaCount is %d, but kafka.partitions is %d: the replicas beyond would hold no partition" (int $values.replicaCount) $partitions) -}}
{{- end -}}
{{- if $values.keda.enabled -}}
{{- if not $partitions -}}
{{- fail "kafka.partitions must be set where keda.enabled is true: no more replicas than partitions have anything to do" -}}
{{- end -}}
{{- $most := int (default $partitions $values.keda.maxReplicas) -}}
{{- if gt $most $partitions -}}
{{- fail (printf "keda.maxReplicas is %d, but kafka.partitions is %d: the replicas beyond would hold no partition" $most $partitions) -}}
{{- end -}}
{{- if gt (int $values.keda.minReplicas) $most -}}
{{- fail (printf "keda.minReplicas is %d, more than the %d replicas that there may be" (int $values.keda.minReplicas) $most) -}}
{{- end -}}
{{- if and (eq (default "" $settings.sasl_mechanism) "GSSAPI") (not $values.keda.authenticationRef) -}}
{{- fail "keda.authenticationRef must name a TriggerAuthentication of yours where sasl_mechanism is GSSAPI" -}}
{{- end -}}
{{- end -}}

{{- include "monitor.checkSettings" . -}}
{{- if $settings.group_instance_id -}}
{{- fail "config.source.kafka.group_instance_id is made of the pod's name: leave it out" -}}
{{- end -}}
{{- if $kafka -}}
{{- /* KEDA asks the brokers by itself, and sees no variable of the pods. */ -}}
{{- if not (or $settings.bootstrap_servers (and (has "SOURCE__KAFKA__BOOTSTRAP_SERVERS" $set) (not $values.keda.enabled))) -}}
{{- fail "config.source.kafka.bootstrap_servers must name the brokers where config.source.kind is kafka, such as [kafka.kafka.svc:9092]" -}}
{{- end -}}
{{- $mechanism := default "" $settings.sasl_mechanism -}}
{{- $user := or $settings.sasl_plain_username (has "SOURCE__KAFKA__SASL_PLAIN_USERNAME" $set) -}}
{{- $told := and $user (has "SOURCE__KAFKA__SASL_PLAIN_PASSWORD" $set) (or (not $values.keda.enabled) $values.keda.authenticationRef) -}}
{{- if and $mechanism (ne $mechanism "GSSAPI") (not $values.kafka.existingSecret) (not $told) (not (has "SOURCE__KAFKA__SASL_MECHANISM" $set)) -}}
{{- fail (printf "kafka.existingSecret must name the Secret with user and password where config.source.kafka.sasl_mechanism is %s" $mechanism) -}}
{{- end -}}
{{- if and $values.kafka.existingSecret (not $mechanism) (not (has "SOURCE__KAFKA__SASL_MECHANISM" $set)) -}}
{{- fail "kafka.existingSecret is set, but config.source.kafka.sasl_mechanism is not: say how to log in, such as SCRAM-SHA-512" -}}
{{- end -}}
{{- if and $values.kafka.tls.existingSecret (not (has (default "" $settings.security_protocol) (list "SSL" "SASL_SSL"))) (not (has "SOURCE__KAFKA__SECURITY_PROTOCOL" $set)) -}}
{{- fail "kafka.tls.existingSecret is set, but config.source.kafka.security_protocol is neither SSL nor SASL_SSL" -}}
{{- end -}}
{{- if ne (empty $values.kafka.tls.certKey) (empty $values.kafka.tls.keyKey) -}}
{{- fail "kafka.tls.certKey and kafka.tls.keyKey go together: a certificate is of no use without its key" -}}
{{- end -}}
{{- else if or $values.kafka.existingSecret $values.kafka.tls.existingSecret -}}
{{- fail "kafka.existingSecret and kafka.tls.existingSecret are for Kafka, but config.source.kind is embedded" -}}
{{- end -}}
{{- $least := add (int $values.preStopSeconds) 15 -}}
{{- if lt (int $values.terminationGracePeriodSeconds) (int $least) -}}
{{- fail (printf "terminationGracePeriodSeconds is %d, but must be at least preStopSeconds + 15 = %d, or what a pod has read would be read again" (int $values.terminationGracePeriodSeconds) (int $least)) -}}
{{- end -}}

{{- /* Probes, scrapes and jobs of this chart speak http. */ -}}
{{- if or $values.config.api.tls_certfile $values.config.api.tls_keyfile -}}
{{- fail "config.api.tls_certfile and tls_keyfile are not for this chart, whose probes, scrapes and jobs speak http: let the Ingress, or a mesh, end TLS (ingress.tls)" -}}
{{- end -}}

{{- /* Objects that need a key. */ -}}
{{- if and $values.serviceMonitor.enabled (not $values.serviceMonitor.existingSecret) -}}
{{- fail "serviceMonitor.existingSecret must name a Secret with an API key of the role read: /metrics asks for one" -}}
{{- end -}}
{{- if and $values.recalibration.models (not $values.recalibration.existingSecret) -}}
{{- fail "recalibration.existingSecret must name a Secret with an API key of the role write where recalibration.models names models" -}}
{{- end -}}
{{- $declared := default dict (default dict $config.models).declared -}}
{{- $names := list -}}
{{- range $values.recalibration.models -}}
{{- if and (default dict $config.models).only_declared (not (hasKey $declared .name)) -}}
{{- fail (printf "recalibration.models names %q, which config.models.declared does not, and config.models.only_declared is true" .name) -}}
{{- end -}}
{{- $timeout := default $values.recalibration.timeout .timeout -}}
{{- $seconds := float64 (include "monitor.seconds" $timeout) -}}
{{- if le (float64 $values.recalibration.activeDeadlineSeconds) $seconds -}}
{{- $attempts := add1 (int $values.recalibration.backoffLimit) -}}
{{- fail (printf "recalibration.activeDeadlineSeconds is %d, but the job of %q waits %s for its refit: it must be longer than these %.0f s, and for %d attempts (backoffLimit) longer than %.0f s, or lower the timeout" (int $values.recalibration.activeDeadlineSeconds) .name $timeout $seconds $attempts (mulf $seconds $attempts)) -}}
{{- end -}}
{{- $key := toJson (list .name (default "" .version)) -}}
{{- if has $key $names -}}
{{- fail (printf "recalibration.models names %q twice" .name) -}}
{{- end -}}
{{- $names = append $names $key -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.ingress.hosts) -}}
{{- fail "ingress.hosts must name a host where ingress.enabled is true" -}}
{{- end -}}
{{- end -}}

{{/* Seconds of a duration as monitor.durations reads it: 90s, 1h30m. */}}
{{- define "monitor.seconds" -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 "w" 604800.0 -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+ *[a-z]+" . -1 -}}
{{- $seconds = addf $seconds (mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}

{{/* "true" if a text is an address with a password; as monitor.section.hide_password has it. */}}
{{- define "monitor.holdsPassword" -}}
{{- $text := toString . -}}
{{- if or (regexMatch "://[^/@]*:[^@]+@" $text) (regexMatch "[?&](ssl)?password=." $text) -}}true{{- end -}}
{{- end -}}

{{/* Fails where a setting is an address with a password. Of dict "path" "value". */}}
{{- define "monitor.checkSecrets" -}}
{{- $path := .path -}}
{{- if kindIs "map" .value -}}
{{- range $key, $inner := .value -}}
{{- include "monitor.checkSecrets" (dict "path" (printf "%s.%s" $path $key) "value" $inner) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $inner := .value -}}
{{- include "monitor.checkSecrets" (dict "path" (printf "%s[%d]" $path $index) "value" $inner) -}}
{{- end -}}
{{- else if include "monitor.holdsPassword" .value -}}
{{- fail (printf "%s holds a password, and config goes into a ConfigMap: put the whole address into a Secret%s" $path (ternary ", and name that as store.existingSecret" " and give it by extraEnv" (eq $path "config.store.url"))) -}}
{{- end -}}
{{- end -}}

{{/*
Settings that the service accepts and that cannot work in a pod. What the service itself refuses, the init container reports. A
setting that extraEnv gives is not checked: it wins over config, and cannot be read here.
*/}}
{{- define "monitor.checkSettings" -}}
{{- $values := .Values -}}
{{- $config := $values.config -}}
{{- $set := (fromYaml (include "monitor.fromEnvironment" .)).settings -}}

{{- /* Probes, Services and port-forwards come from outside the container. */ -}}
{{- $host := default "127.0.0.1" $config.api.host -}}
{{- if and (regexMatch "(?i)^(localhost|127\\.[0-9.]+|::1)$" $host) (not (has "API__HOST" $set)) -}}
{{- fail (printf "config.api.host is %s, where no probe and no Service reaches it: leave it out, or set it to 0.0.0.0 (or to :: for IPv6)" $host) -}}
{{- end -}}

{{- /* State and log, on something that is mounted: elsewhere nothing can be written, or is kept. */ -}}
{{- if not (or $values.store.existingSecret (has "STORE__URL" $set)) -}}
{{- $url := $config.store.url -}}
{{- if hasPrefix "sqlite" $url -}}
{{- $file := regexReplaceAll "^[^:]*:///?|\\?.*$" $url "" -}}
{{- if $file -}}
{{- include "monitor.checkMounted" (dict "values" $values "key" "config.store.url" "path" $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $directory := default "" (default dict $config.source.embedded).directory -}}
{{- if and (eq $config.source.kind "embedded") (not (has "SOURCE__EMBEDDED__DIRECTORY" $set)) -}}
{{- include "monitor.checkMounted" (dict "values" $values "key" "config.source.embedded.directory" "path" $directory) -}}
{{- end -}}
{{- end -}}

{{/*
Fails where a path lies on nothing that is mounted to be written. A relative one begins in the folder of the settings, which only
reads. Of dict "values" "key" "path".
*/}}
{{- define "monitor.checkMounted" -}}
{{- if and .path (not (hasPrefix "~" .path)) -}}
{{- $path := clean (ternary .path (printf "/etc/calibration-monitor/%s" .path) (hasPrefix "/" .path)) -}}
{{- $mounted := list "/var/lib/calibration-monitor" "/tmp" -}}
{{- range .values.extraVolumeMounts }}{{ if not .readOnly }}{{ $mounted = append $mounted (clean .mountPath) }}{{ end }}{{ end -}}
{{- $found := false -}}
{{- range $mounted }}{{ if or (eq . $path) (hasPrefix (printf "%s/" (trimSuffix "/" .)) $path) }}{{ $found = true }}{{ end }}{{ end -}}
{{- if not $found -}}
{{- fail (printf "%s is at %s, where nothing is mounted that can be written (%s): leave it at its default, below /var/lib/calibration-monitor, or mount a volume there (extraVolumes, extraVolumeMounts)" .key $path (join ", " $mounted)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
