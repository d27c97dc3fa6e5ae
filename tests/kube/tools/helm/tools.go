//go:build tools

// Package tools keeps the program that the tests build among this module's requirements.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
