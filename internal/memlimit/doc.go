// Package memlimit has one limit in memory: the scripts of package limiter as pure transitions of a plain value. A Gate is searched with
// instances around it (tests/model), is the model that the scripts are compared with (tests/conformance), and admits the activities and
// instances in the tests of authors (pawltest).
//
// Its times are those of the limit's clock, which never steps back: µs where a script takes the time, ms in what it stores and returns.
package memlimit
