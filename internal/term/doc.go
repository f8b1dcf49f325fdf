// Package term is how Pawl's programs look: with a person at a terminal, tables have
// lines and progress is a bar; in a file or a pipe both are plain text that other
// programs can read.
package term
