// Package rest contains the configuration of a client.
package rest

// Config is an empty configuration.
type Config struct{}
