// Package clientgo replaces the Kubernetes client with the declarations that Helm's engine needs to compile. The engine
// renders a chart without a cluster, and uses one only in the template function "lookup", which the chart does not call. The
// real client takes minutes to compile.
package clientgo
