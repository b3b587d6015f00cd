// Package crd holds the CustomResourceDefinitions of the operator's kinds.
package crd

import "embed"

// Files are the definitions, one YAML document each, in the folder bases.
//
//go:embed bases/*.yaml
var Files embed.FS
