package limit

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/pkg/history"
)

// KeyAt returns the value at a path such as "customer.id" in a payload, as the text that names its limit. It does not run code of the
// author. The parts of a path are field names, and list indexes from 0.
//
// Text is returned unchanged, numbers and booleans in their shortest form (42 and 42.0 are one value), lists and objects as a hash. The
// key is empty if there is nothing at the path: no such field, null, no payload, a payload that is not JSON, or one that cannot be
// decoded.
func KeyAt(path string, p history.Payload) string {
	if path == "" || len(p.Data) == 0 || p.Type != history.TypeJSON {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(p.Data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return ""
	}
	return keyText(walk(v, strings.Split(path, ".")))
}

// keyText returns the text of a value: nil, bool, json.Number, string, []any or map[string]any.
func keyText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return number(v)
	case bool:
		return strconv.FormatBool(v)
	case nil:
		return ""
	default:
		sum := sha256.Sum256(appendValue(nil, v))
		return base64.RawURLEncoding.EncodeToString(sum[:16])
	}
}

// appendValue appends an encoding of a value. Equal values have equal encodings, whatever their JSON, and different values have different
// ones.
func appendValue(b []byte, v any) []byte {
	text := func(kind byte, s string) []byte {
		return append(binary.AppendUvarint(append(b, kind), uint64(len(s))), s...)
	}
	switch v := v.(type) {
	case string:
		return text('s', v)
	case []any:
		b = binary.AppendUvarint(append(b, '['), uint64(len(v)))
		for _, e := range v {
			b = appendValue(b, e)
		}
		return b
	case map[string]any:
		b = binary.AppendUvarint(append(b, '{'), uint64(len(v)))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = appendValue(appendValue(b, k), v[k])
		}
		return b
	case nil:
		return append(b, '0')
	case bool:
		return text('t', strconv.FormatBool(v))
	default:
		return text('n', keyText(v))
	}
}

// walk returns the value at the path, or nil.
func walk(v any, parts []string) any {
	for _, part := range parts {
		switch in := v.(type) {
		case map[string]any:
			v = in[part]
		case []any:
			i, err := strconv.ParseUint(part, 10, 31)
			if err != nil || int(i) >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// number returns the shortest form of a number.
func number(n json.Number) string {
	text := n.String()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(i, 10)
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".eE") {
		return float(f)
	}
	return text // an integer of more than 64 bits, or a number outside the range of float64
}

func float(f float64) string {
	switch {
	case f == 0:
		return "0" // not -0
	case math.Abs(f) < 1e21:
		return strconv.FormatFloat(f, 'f', -1, 64)
	default:
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
}
