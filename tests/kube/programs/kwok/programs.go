//go:build never

// The program that parts.py builds, named so that `go mod tidy` keeps its module.
package programs

import _ "sigs.k8s.io/kwok/cmd/kwok"
