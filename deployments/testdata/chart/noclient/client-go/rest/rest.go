// Package rest has the configuration of a client.
package rest

// Config is that of no cluster.
type Config struct{}
