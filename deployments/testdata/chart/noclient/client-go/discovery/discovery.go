// Package discovery is a stub that finds no cluster.
package discovery

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ErrNoCluster is returned by every function.
var ErrNoCluster = errors.New("a chart is rendered without a cluster")

// Client is never created.
type Client struct{}

// NewDiscoveryClientForConfig returns an error.
func NewDiscoveryClientForConfig(*rest.Config) (*Client, error) { return nil, ErrNoCluster }

// ServerResourcesForGroupVersion returns an error.
func (*Client) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	return nil, ErrNoCluster
}
