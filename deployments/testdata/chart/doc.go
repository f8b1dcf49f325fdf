// Package chart renders the Helm chart with Helm's library and checks the result against the types of Kubernetes. It is a
// separate module, so that no program links either. The modules in noclient replace the Kubernetes client, which takes most
// of the time to compile; Helm's engine imports it for a template function that the chart does not use. With the
// replacements, "go mod tidy" needs -e, because tests of the engine use more of the client.
//
//	cd deployments/testdata/chart && go test ./...
package chart
