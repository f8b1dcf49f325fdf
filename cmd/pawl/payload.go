package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pawlrun/pawl/pkg/history"
)

// input makes a payload of an argument: JSON, or @FILE, or - for standard input. Empty is nothing.
func input(arg string) (history.Payload, error) {
	b := []byte(arg)
	var err error
	switch {
	case arg == "":
		return history.Payload{}, nil
	case arg == "-":
		b, err = io.ReadAll(os.Stdin)
	case arg[0] == '@':
		b, err = os.ReadFile(arg[1:])
	}
	if err != nil {
		return history.Payload{}, misuse{fmt.Errorf("read the payload: %w", err)}
	}
	if !json.Valid(b) {
		return history.Payload{}, misuse{errors.New(`the payload is not JSON; a text has its quotation marks: '"Ada"'`)}
	}
	return history.Payload{Type: history.TypeJSON, Data: b}, nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
