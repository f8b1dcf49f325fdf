// Package term formats the output of Pawl's programs: tables, fields and progress.
// On a terminal they fit its width and progress is a bar; in a file or a pipe the same text is not wrapped.
package term
