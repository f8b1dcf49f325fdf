// Package permissions defines the minimum permissions that each role of a namespace requires on NATS and on Redis. It generates configuration
// files for the servers from the subjects and keys of the code, and compares the permissions of a user with those of its role.
package permissions
