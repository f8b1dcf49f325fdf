// Package chart renders the Helm chart with Helm's library and checks the result against the types of Kubernetes. It is a module of
// its own, so that no program links either. The modules in noclient replace the client of Kubernetes, which Helm's engine imports for a
// function of templates that the chart does not use, and which takes most of the time to compile. With them "go mod tidy" needs -e: tests of
// the engine use more of the client.
//
//	cd deployments/testdata/chart && go test ./...
package chart
