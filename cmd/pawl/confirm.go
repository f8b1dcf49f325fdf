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

// confirmation is the flag of a command that asks for confirmation.
type confirmation struct {
	Yes bool `short:"y" help:"Do not ask for confirmation. Without a terminal, it is never asked for."`
}

// needed reports whether the user must confirm, and can.
func (c confirmation) needed(s streams) bool {
	return !c.Yes && term.Interactive(os.Stdin) && term.Interactive(s.err)
}

// ask asks a question if it is needed, and returns errDeclined if the answer is not yes.
func (c confirmation) ask(ctx context.Context, s streams, question string) error {
	if !c.needed(s) {
		return nil
	}
	return confirm(ctx, os.Stdin, s.err, question)
}

// confirm asks a question, and returns errDeclined if the answer is not yes.
func confirm(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() { // may outlive this call, because a read cannot be interrupted
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
