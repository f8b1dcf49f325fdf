package gate

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/pawlrun/pawl/pkg/history"
)

// KeyAt gives the value at a path such as "customer.id" in a payload, as the text that names its gate; no code of the author's
// is needed for it. The parts of a path are the names of fields, and places in lists, from 0.
//
// Text is given as it is, of numbers and booleans the shortest form (42 and 42.0 are one value, in msgpack and in JSON),
// of lists, objects and bytes a hash. It is empty if there is nothing at the path: no such field, null, no payload, one that is
// neither msgpack nor JSON, or one that can not be read.
func KeyAt(path string, p history.Payload) string {
	if path == "" || len(p.Data) == 0 {
		return ""
	}
	parts := strings.Split(path, ".")
	switch p.Type {
	case history.TypeMsgpack:
		w := newWalker(p.Data)
		if w.walk(parts) != nil {
			return ""
		}
		v, err := w.value(0)
		if err != nil {
			return ""
		}
		return keyText(v)
	case history.TypeJSON:
		d := json.NewDecoder(bytes.NewReader(p.Data))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return ""
		}
		return keyText(walkJSON(v, parts))
	default:
		return ""
	}
}

// number is a number in its shortest form, so that it differs from a text in what is hashed.
type number string

// keyText is the text of a value: nil, bool, number, json.Number, string, []byte, []any or map[string]any.
func keyText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case number:
		return string(v)
	case json.Number:
		return string(jsonNumber(v))
	case bool:
		return strconv.FormatBool(v)
	case nil:
		return ""
	default:
		sum := sha256.Sum256(appendValue(nil, v))
		return base64.RawURLEncoding.EncodeToString(sum[:16])
	}
}

// appendValue writes a value so that no two are alike, and equal ones are, whatever they were encoded in.
func appendValue(b []byte, v any) []byte {
	text := func(kind byte, s string) []byte {
		return append(binary.AppendUvarint(append(b, kind), uint64(len(s))), s...)
	}
	switch v := v.(type) {
	case string:
		return text('s', v)
	case []byte:
		return text('b', string(v))
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

func walkJSON(v any, parts []string) any {
	for _, part := range parts {
		switch in := v.(type) {
		case map[string]any:
			v = in[part]
		case []any:
			i, err := index(part, len(in))
			if err != nil {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

var errNothing = errors.New("nothing is there")

// index reads the place of an element of a list.
func index(part string, n int) (int, error) {
	i, err := strconv.ParseUint(part, 10, 31)
	if err != nil || int(i) >= n {
		return 0, errNothing
	}
	return int(i), nil
}

func jsonNumber(n json.Number) number {
	text := n.String()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return number(strconv.FormatInt(i, 10))
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".eE") {
		return float(f, 64)
	}
	return number(text) // an integer that is longer than 64 bits, or a number beyond all floats
}

func float(f float64, bits int) number {
	switch {
	case f == 0:
		return "0" // and not -0
	case math.Abs(f) < 1e21:
		return number(strconv.FormatFloat(f, 'f', -1, bits))
	default:
		return number(strconv.FormatFloat(f, 'g', -1, bits))
	}
}

// maxDepth is how deep a value may be nested that is hashed by what it says; of a deeper one the bytes are.
const maxDepth = 100

// walker reads msgpack. It goes down by loops: nested garbage does not nest the stack.
type walker struct {
	data []byte
	r    *bytes.Reader
	d    *msgpack.Decoder
}

func newWalker(data []byte) *walker {
	r := bytes.NewReader(data)
	return &walker{data: data, r: r, d: msgpack.NewDecoder(r)} // the decoder takes from r byte by byte, and holds nothing back
}

func (w *walker) at() int { return len(w.data) - w.r.Len() }

// container tells whether a list or an object comes next, and reads how many values follow.
func (w *walker) container() (list, object bool, n int, err error) {
	c, err := w.d.PeekCode()
	switch {
	case err != nil:
	case msgpcode.IsFixedArray(c) || c == msgpcode.Array16 || c == msgpcode.Array32:
		list = true
		n, err = w.d.DecodeArrayLen()
	case msgpcode.IsFixedMap(c) || c == msgpcode.Map16 || c == msgpcode.Map32:
		object = true
		n, err = w.d.DecodeMapLen()
	}
	return list, object, n, err
}

// walk goes to the value at the path.
func (w *walker) walk(parts []string) error {
	for _, part := range parts {
		list, object, n, err := w.container()
		switch {
		case err != nil:
		case list:
			var i int
			if i, err = index(part, n); err == nil {
				err = w.skip(i)
			}
		case object:
			err = w.field(part, n)
		default:
			err = errNothing
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// field goes to the last field of that name, as a decoder would, of n.
func (w *walker) field(name string, n int) error {
	found := -1
	for range n {
		key, err := w.value(maxDepth)
		if err != nil {
			return err
		}
		if keyText(key) == name {
			found = w.at()
		}
		if err := w.skip(1); err != nil {
			return err
		}
	}
	if found < 0 {
		return errNothing
	}
	_, err := w.r.Seek(int64(found), io.SeekStart)
	return err
}

// skip passes over n values.
func (w *walker) skip(n int) error {
	for left := n; left > 0; left-- {
		list, object, n, err := w.container()
		switch {
		case err != nil:
		case list:
			left += n
		case object:
			left += 2 * n
		default:
			if err = w.whole(); err == nil {
				err = w.d.Skip()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// value reads the next value.
func (w *walker) value(depth int) (any, error) {
	start := w.at()
	list, object, n, err := w.container()
	if err != nil {
		return nil, err
	}
	if !list && !object {
		return w.scalar()
	}
	if depth >= maxDepth {
		if object {
			n *= 2
		}
		if err := w.skip(n); err != nil {
			return nil, err
		}
		return bytes.Clone(w.data[start:w.at()]), nil
	}
	if list {
		var out []any
		for range n {
			v, err := w.value(depth + 1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	}
	out := make(map[string]any)
	for range n {
		k, err := w.value(maxDepth)
		if err != nil {
			return nil, err
		}
		if out[keyText(k)], err = w.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// whole tells whether the text or bytes that come next are there in full, before the decoder makes room for as many as they
// say: four bytes of garbage can ask for four gigabytes.
func (w *walker) whole() error {
	b := w.data[w.at():]
	if len(b) == 0 {
		return io.ErrUnexpectedEOF
	}
	var size int
	switch b[0] {
	case msgpcode.Str8, msgpcode.Bin8, msgpcode.Ext8:
		size = 1
	case msgpcode.Str16, msgpcode.Bin16, msgpcode.Ext16:
		size = 2
	case msgpcode.Str32, msgpcode.Bin32, msgpcode.Ext32:
		size = 4
	default:
		return nil // at most 31 bytes
	}
	n := 0
	for _, digit := range b[1:min(len(b), 1+size)] {
		n = n<<8 | int(digit)
	}
	if n > len(b)-1-size {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (w *walker) scalar() (any, error) {
	if err := w.whole(); err != nil {
		return nil, err
	}
	start := w.at()
	c, err := w.d.PeekCode()
	if err != nil {
		return nil, err
	}
	switch {
	case c == msgpcode.Nil:
		return nil, w.d.DecodeNil()
	case c == msgpcode.False, c == msgpcode.True:
		return w.d.DecodeBool()
	case msgpcode.IsString(c):
		return w.d.DecodeString()
	case msgpcode.IsBin(c):
		return w.d.DecodeBytes()
	case c == msgpcode.Float:
		f, err := w.d.DecodeFloat32()
		return float(float64(f), 32), err
	case c == msgpcode.Double:
		f, err := w.d.DecodeFloat64()
		return float(f, 64), err
	case c == msgpcode.Uint64:
		n, err := w.d.DecodeUint64()
		return number(strconv.FormatUint(n, 10)), err
	case msgpcode.IsFixedNum(c), c >= msgpcode.Uint8 && c <= msgpcode.Int64:
		n, err := w.d.DecodeInt64()
		return number(strconv.FormatInt(n, 10)), err
	}
	if err := w.d.Skip(); err != nil {
		return nil, err
	}
	raw := w.data[start:w.at()]
	var t time.Time
	if msgpack.Unmarshal(raw, &t) == nil {
		return t.UTC().Format(time.RFC3339Nano), nil // as JSON has it
	}
	return bytes.Clone(raw), nil
}
