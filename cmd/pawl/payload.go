package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/internal/settings"
	"github.com/pawlrun/pawl/internal/term"
	"github.com/pawlrun/pawl/pkg/history"
)

// input reads a payload from an argument: JSON, @FILE, or - for standard input. An empty argument is no payload.
func input(arg string) (history.Payload, error) {
	b := []byte(arg)
	var err error
	switch {
	case arg == "":
		return history.Payload{}, nil
	case arg == "-":
		b, err = bounded(os.Stdin)
	case arg[0] == '@':
		b, err = readFile(arg[1:])
	}
	if err != nil {
		return history.Payload{}, settings.Usage(fmt.Errorf("read the payload: %w", err))
	}
	if !json.Valid(b) {
		return history.Payload{}, settings.Usage(errors.New(`the payload is not JSON; a string needs quotation marks: '"Ada"'`))
	}
	return history.Payload{Type: history.TypeJSON, Data: b}, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return bounded(f)
}

// bounded reads a payload. More than the maximum is an error, and is not read to its end.
func bounded(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, sealing.MaxStored+1))
	if err == nil && len(b) > sealing.MaxStored {
		err = fmt.Errorf("more than %d bytes, the maximum", sealing.MaxStored)
	}
	return b, err
}

// answer writes a value as JSON, or a line of text.
func (s streams) answer(asJSON bool, v any, format string, args ...any) error {
	if asJSON {
		return writeJSON(s.out, v)
	}
	return term.Line(s.out, fmt.Sprintf(format, args...))
}

// writeLines writes one JSON object per row.
func writeLines[Row, JSON any](w io.Writer, rows []Row, of func(Row) JSON) error {
	for _, row := range rows {
		if err := writeJSON(w, of(row)); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
