{{/*
What the service refuses at its start, or could not use in a pod, of rules between several settings. Of what extraEnv sets
nothing is said: it wins over config, and is not seen here. (Only source.kind has to stand in config, by which objects are made.)
The rest the service says itself; docs/kubernetes.md has how to ask it before an install.
*/}}

{{- define "monitor.checkSettings" -}}
{{- $values := .Values -}}
{{- $config := $values.config -}}
{{- $set := (fromYaml (include "monitor.fromEnvironment" .)).settings -}}

{{- /* How Kafka is logged in to; the service looks at it whatever the source is. */ -}}
{{- $kafka := default dict $config.source.kafka -}}
{{- $protocol := default "PLAINTEXT" $kafka.security_protocol -}}
{{- $mechanism := default "" $kafka.sasl_mechanism -}}
{{- $sasl := hasPrefix "SASL_" $protocol -}}
{{- if and $sasl (not $mechanism) (not (has "SOURCE__KAFKA__SASL_MECHANISM" $set)) -}}
{{- fail (printf "config.source.kafka.sasl_mechanism must be set where security_protocol is %s, such as SCRAM-SHA-512; user and password come from kafka.existingSecret" $protocol) -}}
{{- end -}}
{{- if and $mechanism (not $sasl) (not (has "SOURCE__KAFKA__SECURITY_PROTOCOL" $set)) -}}
{{- fail (printf "config.source.kafka.security_protocol must be SASL_SSL or SASL_PLAINTEXT where sasl_mechanism is %s, and is %s" $mechanism $protocol) -}}
{{- end -}}
{{- if and $mechanism (ne $mechanism "GSSAPI") (ne $config.source.kind "kafka") (not (has "SOURCE__KAFKA__SASL_PLAIN_PASSWORD" $set)) -}}
{{- fail (printf "config.source.kafka.sasl_mechanism is %s, which asks for user and password even where config.source.kind is embedded: leave it out" $mechanism) -}}
{{- end -}}

{{- /* Topics; null names none. */ -}}
{{- $topics := list -}}
{{- range $kind, $topic := default dict $config.source.topics -}}
{{- if $topic -}}
{{- if has $topic $topics -}}
{{- fail (printf "config.source.topics names %q twice: name a different topic for each type of event, or one topic as events" $topic) -}}
{{- end -}}
{{- $topics = append $topics $topic -}}
{{- end -}}
{{- end -}}

{{- /* The provider of tokens: as monitor.access.oidc.check_url has it. */ -}}
{{- $oidc := default dict $config.access.oidc -}}
{{- range $key, $rest := dict "issuer" "[^?# ]*" "jwks_url" "[^# ]*" -}}
{{- $url := get $oidc $key -}}
{{- /* Null is as if it were left out, and "" is no address. */ -}}
{{- if and (hasKey $oidc $key) (kindIs "string" $url) -}}
{{- $of := "(?i)^(https://[^/?#@ ]+|http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?)" -}}
{{- if not (regexMatch (printf "%s([/?]%s)?$" $of $rest) $url) -}}
{{- fail (printf "config.access.oidc.%s must begin with https:// (over http, anybody on the way could let in whom they like), name a host, and hold no user, fragment%s or space" $key (ternary ", query" "" (eq $key "issuer"))) -}}
{{- end -}}
{{- if and (eq $key "issuer") (not $oidc.audience) (not (has "ACCESS__OIDC__AUDIENCE" $set)) -}}
{{- fail "config.access.oidc.audience must be set where issuer is: a token for another service must not do here" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Windows. */ -}}
{{- if kindIs "slice" $config.windows -}}
{{- if not $config.windows -}}
{{- fail "config.windows must have at least one window, such as [{length: 24h}]; leave it out for the four that are usual" -}}
{{- end -}}
{{- $names := list -}}
{{- range $index, $window := $config.windows -}}
{{- if and (not $window.length) (not $window.last) -}}
{{- fail (printf "config.windows[%d] must have a length, such as {length: 24h}, or a number of predictions, such as {last: 10000}" $index) -}}
{{- end -}}
{{- if $window.name -}}
{{- if and (kindIs "bool" $window.mature) (not $window.mature) (not (contains "immature" $window.name)) -}}
{{- fail (printf "config.windows[%d].name must have the word immature in it where mature is false: alerts pass over windows that are called so" $index) -}}
{{- end -}}
{{- if has $window.name $names -}}
{{- fail (printf "config.windows names %q twice" $window.name) -}}
{{- end -}}
{{- $names = append $names $window.name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Models of classes. */ -}}
{{- $models := default dict $config.models -}}
{{- $implied := default false (default dict $models.defaults).implied_negative -}}
{{- range $name, $model := $models.declared -}}
{{- if and (not $model.classes) $model.sketch_features -}}
{{- fail (printf "config.models.declared.%s has sketch_features, which are of classes: name its classes" $name) -}}
{{- end -}}
{{- if and $model.classes (ternary $model.implied_negative $implied (kindIs "bool" $model.implied_negative)) -}}
{{- fail (printf "config.models.declared.%s has classes, none of which is the negative: set its implied_negative to false" $name) -}}
{{- end -}}
{{- end -}}

{{- /* Probes, Services and port-forwards come from outside the container. */ -}}
{{- $host := default "127.0.0.1" $config.api.host -}}
{{- if and (regexMatch "(?i)^(localhost|127\\.[0-9.]+|::1)$" $host) (not (has "API__HOST" $set)) -}}
{{- fail (printf "config.api.host is %s, where no probe and no Service reaches it: leave it out, or set it to 0.0.0.0 (or to :: for IPv6)" $host) -}}
{{- end -}}

{{- /* State and log, on something that is mounted: elsewhere nothing can be written, or is kept. */ -}}
{{- if not (or $values.store.existingSecret (has "STORE__URL" $set)) -}}
{{- $url := $config.store.url -}}
{{- if not (regexMatch "^(sqlite|postgresql|postgres)(\\+[a-z0-9_]+)?://" $url) -}}
{{- fail "config.store.url must look like sqlite:////var/lib/calibration-monitor/state.db or postgresql://host/database; with a password, name a Secret as store.existingSecret" -}}
{{- end -}}
{{- if hasPrefix "sqlite" $url -}}
{{- $file := regexReplaceAll "^[^:]*:///?|\\?.*$" $url "" -}}
{{- if or (not $file) (eq $file ":memory:") (hasPrefix "file:" $file) -}}
{{- fail "config.store.url must name a file, such as sqlite:////var/lib/calibration-monitor/state.db" -}}
{{- end -}}
{{- include "monitor.checkMounted" (dict "values" $values "key" "config.store.url" "path" $file) -}}
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
