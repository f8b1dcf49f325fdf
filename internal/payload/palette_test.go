package payload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Types with each kind of marshaler, and types that lose data under encoding/json alone.

// Cents encodes itself as JSON, by value.
type Cents struct{ n int64 }

func (c Cents) MarshalJSON() ([]byte, error) { return []byte(fmt.Sprintf(`{"cents":"%d"}`, c.n)), nil }

func (c *Cents) UnmarshalJSON(b []byte) error {
	var v struct {
		Cents string `json:"cents"`
	}
	err := json.Unmarshal(b, &v)
	if err == nil {
		c.n, err = strconv.ParseInt(v.Cents, 10, 64)
	}
	return err
}

// Ref encodes itself as JSON, by pointer.
type Ref struct{ key string }

func (r *Ref) MarshalJSON() ([]byte, error) { return json.Marshal("ref:" + r.key) }

func (r *Ref) UnmarshalJSON(b []byte) error {
	var s string
	err := json.Unmarshal(b, &s)
	r.key = strings.TrimPrefix(s, "ref:")
	return err
}

// Box is generic and encodes itself as JSON.
type Box[T any] struct{ in T }

func (b Box[T]) MarshalJSON() ([]byte, error) { return json.Marshal([]T{b.in}) }
func (b *Box[T]) UnmarshalJSON(d []byte) error {
	var l []T
	err := json.Unmarshal(d, &l)
	b.in = l[0]
	return err
}

// Color encodes itself as text, by value.
type Color struct{ r, g, b uint8 }

func (c Color) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "#%02x%02x%02x", c.r, c.g, c.b), nil
}

func (c *Color) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "#%02x%02x%02x", &c.r, &c.g, &c.b)
	return err
}

// Level is a number that encodes itself as text.
type Level int

func (l Level) MarshalText() ([]byte, error) { return []byte("level " + strconv.Itoa(int(l))), nil }

func (l *Level) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(strings.TrimPrefix(string(b), "level "))
	*l = Level(n)
	return err
}

// Both has both encodings; JSON takes precedence.
type Both struct{ n int }

func (b Both) MarshalJSON() ([]byte, error) { return json.Marshal([]int{b.n}) }
func (b *Both) UnmarshalJSON(d []byte) error {
	var l []int
	err := json.Unmarshal(d, &l)
	b.n = l[0]
	return err
}
func (b Both) MarshalText() ([]byte, error) { return []byte(strconv.Itoa(b.n)), nil }
func (b *Both) UnmarshalText(d []byte) (err error) {
	b.n, err = strconv.Atoi(string(d))
	return err
}

// Stamp is encoded like the type that it embeds.
type Stamp struct{ time.Time }

// Types with only one half of a marshaler, and other types that are rejected.
type (
	JSONOut struct{ N int }
	JSONIn  struct{ N int }
	TextOut string
	TextIn  string
	Packed  struct{ N int }
	Name    string          // with text methods
	Hidden  struct{ n int } //nolint:unused // the subject of a test
	Dated   struct {
		time.Time
		Note string
	}
	DatedOwn struct {
		time.Time
		Note string
	}
	DatedThrough struct {
		Cents
		Note string
	}
	MaybeDated struct{ *time.Time }
	Twofold    struct {
		Cents
		Color2
	}
	Color2 struct{ Cents }
	Shadow struct {
		Base
		ID int `json:"id"`
	}
	Base struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	Loose struct {
		N int `json:",omitempty"`
	}
	WithBase   struct{ *Base }
	WithLoose  struct{ *Loose }
	inner      struct{ A int }
	WithInner  struct{ inner }
	WithInnerP struct{ *inner }
	Tree       struct {
		Kids []Tree          `json:"kids"`
		By   map[string]Tree `json:"by"`
		Next *Tree           `json:"next"`
	}
	Loop      *Loop
	Ambiguous struct {
		Left
		Right
	}
	Left                struct{ Cents }
	Right               struct{ Cents }
	GenericDated[T any] struct {
		Cents
		V T
	}
	GenericOwn[T any] struct {
		Cents
		V T
	}
)

func (JSONOut) MarshalJSON() ([]byte, error)  { return []byte("1"), nil }
func (*JSONIn) UnmarshalJSON([]byte) error    { return nil }
func (TextOut) MarshalText() ([]byte, error)  { return []byte("x"), nil }
func (*TextIn) UnmarshalText([]byte) error    { return nil }
func (Packed) MarshalBinary() ([]byte, error) { return nil, nil }
func (*Packed) UnmarshalBinary([]byte) error  { return nil }
func (n Name) MarshalText() ([]byte, error)   { return []byte(strings.ToUpper(string(n))), nil }
func (n *Name) UnmarshalText(b []byte) error  { *n = Name(b); return nil }

func (d DatedOwn) MarshalJSON() ([]byte, error) {
	return json.Marshal([]string{d.Time.Format(time.RFC3339Nano), d.Note})
}

func (d *DatedOwn) UnmarshalJSON(b []byte) (err error) {
	var l [2]string
	if err = json.Unmarshal(b, &l); err == nil {
		d.Note = l[1]
		d.Time, err = time.Parse(time.RFC3339Nano, l[0])
	}
	return err
}

func (d DatedThrough) MarshalJSON() ([]byte, error) { return d.Cents.MarshalJSON() }

func (d *DatedThrough) UnmarshalJSON(b []byte) error {
	if len(b) == 0 {
		return errors.New("empty")
	}
	return d.Cents.UnmarshalJSON(b)
}

func (g GenericOwn[T]) MarshalJSON() ([]byte, error) { return json.Marshal([]any{g.n, g.V}) }

func (g *GenericOwn[T]) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&g.n, &g.V})
}
