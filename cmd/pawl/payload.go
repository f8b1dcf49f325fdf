package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

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

// readable gives a payload as JSON; what it can not read, as the bytes in base64.
func readable(p history.Payload) json.RawMessage {
	if len(p.Data) == 0 {
		return nil
	}
	if (p.Type == history.TypeJSON || strings.HasSuffix(p.Type, "+json")) && json.Valid(p.Data) {
		return p.Data
	}
	if p.Type == history.TypeMsgpack {
		d := msgpack.NewDecoder(bytes.NewReader(p.Data))
		d.UseLooseInterfaceDecoding(true)
		d.SetMapDecoder(func(d *msgpack.Decoder) (any, error) { return d.DecodeUntypedMap() })
		if v, err := d.DecodeInterfaceLoose(); err == nil {
			if b, err := json.Marshal(stringKeys(v)); err == nil {
				return b
			}
		}
	}
	b, _ := json.Marshal(p.Data) //nolint:errchkjson // bytes always encode
	return b
}

// stringKeys makes maps that JSON can have of those that msgpack may have.
func stringKeys(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			m[fmt.Sprint(k)] = stringKeys(x)
		}
		return m
	case []any:
		for i := range v {
			v[i] = stringKeys(v[i])
		}
	}
	return v
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
