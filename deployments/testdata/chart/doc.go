// Package chart renders the Helm chart with Helm's library and checks the result against the types of Kubernetes. It is a module of
// its own, so that no program links either:
//
//	cd deployments/testdata/chart && go test ./...
package chart
