// Package clientgo has in place of the client of Kubernetes what Helm's engine needs to compile. The engine renders a chart without a
// cluster, and asks one only in the function "lookup" of templates, which the chart does not use. The client takes minutes to compile.
package clientgo
