package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pawlrun/pawl/internal/term"
)

var errDeclined = errors.New("nothing was done")

// interactive reports whether a user can answer questions.
func interactive(s streams) bool { return term.Interactive(os.Stdin) && term.Interactive(s.err) }

// confirm asks a question, and returns errDeclined if the answer is not yes.
func confirm(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() { // ends with the process: a read cannot be interrupted
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if a := strings.ToLower(strings.TrimSpace(line)); a == "y" || a == "yes" {
			return nil
		}
		return errDeclined
	case <-ctx.Done():
		_, _ = fmt.Fprintln(out) // below the question
		return errDeclined
	}
}
