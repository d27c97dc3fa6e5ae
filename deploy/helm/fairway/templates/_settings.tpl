{{- /* Written by deploy/generate.py from src/fairway/install. */ -}}

{{- define "fairway.controllers" -}}
{{- $named := list -}}
{{- $added := list -}}
{{- $removed := list -}}
{{- range .Values.controllers -}}
{{- if hasPrefix "+" . -}}{{- $added = append $added (trimPrefix "+" .) -}}
{{- else if hasPrefix "-" . -}}{{- $removed = append $removed (trimPrefix "-" .) -}}
{{- else -}}{{- $named = append $named . -}}{{- end -}}
{{- end -}}
{{- if not $named -}}
{{- $named = ternary (list "acceptance" "addons" "availability" "clustersets" "placement" "scores") (list "placement") (eq .Values.mode "standalone") -}}
{{- end -}}
{{- $chosen := concat $named $added | uniq | sortAlpha -}}
{{- range $removed -}}{{- $chosen = without $chosen . -}}{{- end -}}
{{- if not $chosen -}}{{- fail "controllers: none is left; name one" -}}{{- end -}}
{{- join "," $chosen -}}
{{- end }}

{{- define "fairway.arguments" -}}
{{- $arguments := list (printf "--controllers=%s" (include "fairway.controllers" .)) -}}
{{- if eq .Values.mode "shadow" -}}{{- $arguments = append $arguments "--shadow" -}}{{- end -}}
{{- if ne .Release.Namespace "fairway-system" -}}
{{- $arguments = append $arguments (printf "--lease-namespace=%s" .Release.Namespace) -}}
{{- end -}}
{{- if ne .Values.ocmNamespace "open-cluster-management-hub" -}}
{{- $arguments = append $arguments (printf "--ocm-namespace=%s" .Values.ocmNamespace) -}}
{{- end -}}
{{- concat $arguments (list "--log-format=json") .Values.extraArguments | toJson -}}
{{- end }}

{{- define "fairway.replicas" -}}
{{- if kindIs "invalid" .Values.replicas -}}
{{- ternary 1 2 (eq .Values.mode "shadow") -}}
{{- else -}}
{{- int .Values.replicas -}}
{{- end -}}
{{- end }}

{{- define "fairway.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end }}
