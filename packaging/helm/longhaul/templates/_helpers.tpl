{{- define "longhaul.selector" -}}
app.kubernetes.io/name: longhaul
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "longhaul.labels" -}}
{{ include "longhaul.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "longhaul.admin" -}}
port: admin
{{- if .Values.hostNetwork }}
host: 127.0.0.1
{{- end }}
{{- end }}
