// Package memlimit implements one limit in memory: the scripts of package limiter as pure transitions of a plain value. tests/model
// explores a Limit together with instances, tests/conformance compares it with the scripts, and package pawltest uses it to limit the
// activities and instances in the tests of authors.
//
// Times are by the limit's clock, which never steps back: µs where a script reads the time, ms in stored and returned values.
package memlimit
