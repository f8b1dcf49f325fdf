package hostile

import (
	"bytes"
	"encoding/hex"
	"strings"
)

// Bodies of 14 to 21 bytes that announce 2^32 elements or bytes. They once crashed every process that decoded them.
const (
	longArray  = "\x82\xa6tenant\xa1x\xa5cents\xdd\xff\xff\xff\xff"
	longString = "\x96\x01\x01\xdb\xff\xff\xff\xff00000000"
)

// bodies are messages that crashed processes, or could, keyed by their defect.
var bodies = func() map[string][]byte { //nolint:gochecknoglobals // constant
	all := map[string][]byte{
		"array of 2^32":    []byte(longArray),
		"string of 2^32":   []byte(longString),
		"empty":            nil,
		"msgpack, deep":    append(bytes.Repeat([]byte{0x91}, 1_000_000), 0xc0),
		"JSON, deep":       bytes.Repeat([]byte("["), 500_000),
		"JSON object,deep": bytes.Repeat([]byte(`{"a":`), 100_000),
		"number too large": []byte(`{"tenant":"x","cents":[1e999]}`),
		"half a surrogate": []byte(`"\ud800"`),
		"long text":        []byte(`{"by":"x","text":"` + strings.Repeat("t", 5000) + `","force":true}`),
		"null":             []byte("null"),
		"large number":     []byte("4000000000"),
		"infinite number":  []byte("1e400"),
		"400 KiB of zeros": make([]byte, 400<<10),
	}
	for name, text := range map[string]string{
		"map of 2^32": "9601dfffffffff", "bytes of 2^32": "c6ffffffff00", "extension of 2^32": "c9ffffffff0000", "short array": "92019193",
		"unused code": "c1", "empty array": "90", "version alone": "9101", "version 255": "92ff90", "version 2": "9102",
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			panic(err)
		}
		all[name] = b
	}
	return all
}()
