// Package term formats the output of Pawl's programs: tables, fields and progress.
// On a terminal the output fits its width, and progress is a bar. In a file or a pipe the same text is not wrapped.
package term
