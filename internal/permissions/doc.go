// Package permissions has the least permissions that each role of a namespace needs, on NATS and on Redis: as files for the
// servers, which are generated from the subjects and keys of the code, and as a comparison with what a user has.
package permissions
