// Package dynamic is a stub that reads from no cluster.
package dynamic

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// ResourceInterface reads the objects of a resource.
type ResourceInterface interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*unstructured.Unstructured, error)
	List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error)
}

// NamespaceableResourceInterface reads the objects of a resource, with or without a namespace.
type NamespaceableResourceInterface interface {
	ResourceInterface
	Namespace(name string) ResourceInterface
}

// Client is never created.
type Client struct{}

// Resource returns nothing.
func (*Client) Resource(schema.GroupVersionResource) NamespaceableResourceInterface { return nil }

// NewForConfig returns an error.
func NewForConfig(*rest.Config) (*Client, error) { return nil, discovery.ErrNoCluster }
