// Package scheme contains the versions that templates find in .Capabilities.APIVersions: none. The chart does not use any.
package scheme

import "k8s.io/apimachinery/pkg/runtime"

// Scheme is empty.
var Scheme = runtime.NewScheme()
