package payload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/pawlrun/pawl/internal/payload"
)

func rejectedType[T any](part string) func(*testing.T) { return refused(reflect.TypeFor[T](), part) }

func refused(typ reflect.Type, part string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		_, err := payload.TypeOf(typ)
		var e *payload.Error
		if !errors.As(err, &e) || e.Type != typ || !strings.HasPrefix(err.Error(), typ.String()) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", typ, err, part)
		}
	}
}

func TestTypesThatDoNotRoundTripAreRejectedByName(t *testing.T) {
	twice := reflect.StructOf([]reflect.StructField{ // as source code, go vet would report it
		{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`}, {Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
	})
	for name, check := range map[string]func(*testing.T){
		"chan":                    rejectedType[chan int]("JSON has no chan"),
		"func in a struct":        rejectedType[struct{ F func() }](".F: JSON has no func"),
		"complex in a slice":      rejectedType[[]complex128]("[]: JSON has no complex128"),
		"unsafe":                  rejectedType[struct{ X map[string]*uintptrs }](".X[].P: JSON has no unsafe.Pointer"),
		"interface":               rejectedType[struct{ E error }](".E: an interface with methods"),
		"marshal only":            rejectedType[[]JSONOut]("[]: payload_test.JSONOut has MarshalJSON and no UnmarshalJSON"),
		"unmarshal only":          rejectedType[map[string]*JSONIn]("has UnmarshalJSON and no MarshalJSON"),
		"marshal text only":       rejectedType[struct{ T TextOut }]("has MarshalText and no UnmarshalText"),
		"unmarshal text only":     rejectedType[*TextIn]("has UnmarshalText and no MarshalText"),
		"binary only":             rejectedType[Packed]("has MarshalBinary"),
		"unexported only":         rejectedType[Hidden]("no field that is encoded"),
		"unexported only, inside": rejectedType[struct{ A []map[string]Hidden }](".A[][]: payload_test.Hidden has no field"),
		"mutex":                   rejectedType[struct{ M sync.Mutex }](".M"),
		"url":                     rejectedType[struct{ U *url.URL }](".U: url.URL has MarshalBinary"),
		"all left out":            rejectedType[leftOut]("no field that is encoded"),
		"generic":                 rejectedType[Box2[Hidden]](".In: payload_test.Hidden"),
		"promoted":                rejectedType[Dated]("its other fields would be lost"),
		"promoted, unnamed":       rejectedType[struct{ A struct{ time.Time } }]("give the type a name"),
		"promoted, generic":       rejectedType[GenericDated[int]]("its other fields would be lost"),
		"promoted, pointer":       rejectedType[MaybeDated]("may be nil"),
		"promoted, inlined":       rejectedType[struct{ P promotedByPointer }]("its other fields would be lost"),
		"promoted, key":           rejectedType[map[addrAndPort]int]("its other fields would be lost"),
		"ambiguous":               rejectedType[struct{ A Ambiguous }](".A.Left: payload_test.Left is embedded, so that its own encoding is not used"),
		"hidden field":            rejectedType[Shadow]("Base.ID and ID of the same JSON name"),
		"same names":              refused(twice, "A and B of the same JSON name"),
		"embedded, all omitted":   rejectedType[WithLoose]("comes back nil"),
		"embedded, not exported":  rejectedType[WithInnerP]("not exported"),
		"embedded, tagged":        rejectedType[taggedInner]("not exported"),
		"embedded in itself":      rejectedType[ownParent]("embedded in itself"),
		"pointer to itself":       rejectedType[Loop]("a pointer to itself"),
		"to such a pointer":       rejectedType[[]**Loop]("a pointer to itself"),
		"key any":                 rejectedType[map[any]int]("keys of a map"),
		"key bool":                rejectedType[map[bool]int]("keys of a map"),
		"key float":               rejectedType[struct{ M map[float64]int }](".M: keys of a map"),
		"key struct":              rejectedType[map[struct{ A int }]int]("keys of a map"),
		"key pointer":             rejectedType[map[*string]int]("keys of a map"),
		"key time":                rejectedType[map[time.Time]int]("keys of a map"),
		"key with text":           rejectedType[map[Name]int]("keys of a map"),
		"key by pointer":          rejectedType[map[Ref]int]("keys of a map"),
		"key, both":               rejectedType[map[Both]int]("decoded by UnmarshalJSON"),
		"key, half":               rejectedType[map[halfKey]int]("keys of a map"),
		"map of pointer methods":  rejectedType[map[string]Ref]("pointer receiver"),
		"same, in a struct":       rejectedType[map[string]struct{ R [2]Ref }]("[].R[]: MarshalJSON of payload_test.Ref"),
		"tag string":              rejectedType[quotedLevel]("tag option"),
	} {
		t.Run(name, check)
	}
}

type (
	uintptrs    struct{ P unsafePointer }
	Box2[T any] struct{ In T }
	leftOut     struct {
		A int `json:"-"`
	}
	promotedByPointer struct {
		*Cents
		N int
	}
	addrAndPort struct {
		netip.Addr
		Port uint16
	}
	taggedInner struct {
		inner `json:"inner"`
	}
	ownParent struct {
		*ownParent //nolint:unused // the subject of a test
		N          int
	}
	halfKey     int
	quotedLevel struct {
		L Level `json:",string"`
	}
)

func (halfKey) MarshalText() ([]byte, error) { return nil, nil }

// roundTrip encodes and decodes a value, and requires the result to be equal.
func roundTrip[T any](want T) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		typ, err := payload.TypeOf(reflect.TypeFor[T]())
		if err != nil {
			t.Fatal(err)
		}
		data, err := typ.Encode(&want)
		if err != nil {
			t.Fatal(err)
		}
		var got T
		if err := typ.Decode(data, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", data, got, err, want)
		}
		if again, err := typ.Encode(&got); err != nil || string(again) != string(data) {
			t.Errorf("encodes to %s, and then to %s, %v", data, again, err)
		}
	}
}

func TestTypesWithTheirOwnEncodingRoundTripAtEveryDepth(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 891234567, time.UTC)
	seven, text := 7, "x"
	for name, check := range map[string]func(*testing.T){
		"json":             roundTrip(Cents{3}),
		"json in a struct": roundTrip(struct{ C Cents }{Cents{3}}),
		"json in a slice":  roundTrip([]Cents{{1}, {2}}),
		"json in a map":    roundTrip(map[string]Cents{"a": {1}}),
		"json by pointer":  roundTrip(map[string]*Cents{"a": {1}, "b": nil}),
		"pointer json":     roundTrip(Ref{"a"}),
		"pointer json inside": roundTrip(struct {
			R []Ref
			A [2]Ref
			M map[string]*Ref
		}{[]Ref{{"a"}}, [2]Ref{{"b"}, {""}}, map[string]*Ref{"c": {"d"}}}),
		"generic":        roundTrip(Box[Box[int]]{Box[int]{5}}),
		"generic, own":   roundTrip(GenericOwn[string]{Cents{1}, "v"}),
		"text":           roundTrip([]Color{{1, 2, 3}}),
		"text as a key":  roundTrip(map[Color]Level{{1, 2, 3}: 4}),
		"number as text": roundTrip(map[Level]int{1: 2}),
		"both":           roundTrip(map[string]Both{"1": {2}}),
		"addresses":      roundTrip(map[netip.Addr]netip.Prefix{netip.MustParseAddr("::1"): netip.MustParsePrefix("10.0.0.0/8")}),
		"big": roundTrip(struct {
			N *big.Int
			F *big.Rat
		}{new(big.Int).Lsh(big.NewInt(1), 200), big.NewRat(1, 3)}),
		"raw":         roundTrip(struct{ R json.RawMessage }{json.RawMessage(`{"a":[1,"<>"]}`)}),
		"json.Number": roundTrip([]json.Number{"12345678901234567890123"}),
		"time": roundTrip(struct {
			T time.Time
			P *time.Time
			Z time.Time
		}{at, &at, time.Time{}}),
		"an embedded time":    roundTrip(Stamp{at}),
		"own methods":         roundTrip(DatedOwn{at, "n"}),
		"an embedded pointer": roundTrip([]WithBase{{&Base{}}, {nil}, {&Base{"a", "b"}}}),
		"an embedded struct":  roundTrip(WithInner{inner{3}}),
		"a tree":              roundTrip(Tree{Kids: []Tree{{}, {Kids: []Tree{}}}, By: map[string]Tree{"x": {}}, Next: &Tree{}}),
		"nil and empty":       roundTrip([]any{nil, []any{}, map[string]any{}, ""}),
		"nil and empty, typed": roundTrip(struct {
			A, B []int
			C, D map[string]int
			E, F []byte
		}{nil, []int{}, nil, map[string]int{}, nil, []byte{}}),
		"any":            roundTrip(any(map[string]any{"a": []any{1.5, true, nil, "x", -0.25, 1e300, 9007199254740992.0}})),
		"any, nil":       roundTrip[any](nil),
		"large integers": roundTrip([]any{}),
		"64 bits": roundTrip(struct {
			I int64
			U uint64
			M map[int64]uint64
		}{-1 << 63, 1<<64 - 1, map[int64]uint64{1<<63 - 1: 1<<64 - 1}}),
		"pointers": roundTrip(struct {
			A, B *int
			C    **string
		}{&seven, nil, new(&text)}),
		"html and separators": roundTrip("<a href=\"x\">&\u2028\u2029\ufffd\x00</a>"),
		"string option": roundTrip(struct {
			N int64  `json:",string"`
			S string `json:",string"`
			P *bool  `json:",string"`
		}{1 << 60, `"`, nil}),
		"names that differ in case": roundTrip(struct {
			A int `json:"id"`
			B int `json:"ID,omitempty"`
			C int `json:"Id,omitempty"`
		}{1, 0, 3}),
		"left out": roundTrip(struct {
			N json.Number `json:",omitempty"`
			P **int       `json:",omitzero"`
		}{}),
		"empty struct":  roundTrip(map[string]struct{}{"a": {}}),
		"arrays":        roundTrip([2][3]byte{{1}, {2, 3, 4}}),
		"local type":    roundTrip(Box2[Box2[[]string]]{}),
		"negative zero": roundTrip([]float64{0, -0.5}),
	} {
		t.Run(name, check)
	}
}

func TestValuesThatDoNotRoundTripAreRejectedWithTheirPath(t *testing.T) {
	loop := &Tree{}
	loop.Next = loop
	list := []any{nil}
	list[0] = list
	var none *int
	var noMap map[string]int
	deep := any("x")
	for range payload.MaxDepth + 1 {
		deep = []any{deep}
	}
	tree := Tree{}
	for range payload.MaxDepth + 1 {
		tree = Tree{Kids: []Tree{tree}}
	}
	for part, v := range map[string]any{
		`.A[1]: JSON has no NaN`:                         struct{ A []float64 }{[]float64{0, nan()}},
		`["k"]: JSON has no +Inf`:                        map[string]float32{"k": float32(inf())},
		`.X[0]: JSON has no NaN`:                         struct{ X any }{[]any{nan()}},
		`.S["a"]: the text "\xff"`:                       struct{ S map[string]string }{map[string]string{"a": "\xff"}},
		`["\xff"]: the text`:                             map[string]int{"\xff": 1},
		`.X["a"]: the text "\xff"`:                       struct{ X any }{map[string]any{"a": "\xff"}},
		`the text "\xfe" of payload_test.bytesText`:      struct{ B bytesText }{bytesText{0xfe}},
		`the payload is not UTF-8`:                       brokenJSON{},
		`.X: a map[int]string in an any`:                 struct{ X any }{map[int]string{1: "a"}},
		`.X["a"][0].M: a map[payload_test.Level]int`:     struct{ X any }{map[string]any{"a": []struct{ M map[Level]int }{{map[Level]int{1: 1}}}}},
		`.X[0]: the integer 9007199254740993 in an`:      struct{ X []any }{[]any{int64(1<<53 + 1)}},
		`the integer 18446744073709551615 in an any`:     []any{uint64(1<<64 - 1)},
		`["n"]: the integer 9223372036854775807`:         map[string]any{"n": any(int64(1<<63 - 1))},
		`the integer 36893488147419103233 in an any`:     []any{new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 65), big.NewInt(1))},
		`the integer 123456789012345678 in an any`:       []any{json.Number("123456789012345678")},
		`in an any: payload_test.Hidden has no field`:    []any{Hidden{}},
		`in an any: JSON has no chan`:                    struct{ X any }{make(chan int)},
		`in an any: MarshalJSON of payload_test.Ref has`: []any{Ref{"x"}},
		`.P: a pointer to a nil *int`:                    struct{ P **int }{&none},
		`a pointer to a nil map[string]int`:              []*map[string]int{&noMap},
		`an empty json.Number`:                           []json.Number{""},
		`offset in seconds`:                              []time.Time{time.Now().In(time.FixedZone("LMT", 561))},
		`refers to itself (encountered a cycle`:          *loop,
		`refers to itself`:                               list,
		`nests more than 1000 levels`:                    []any{deep},
		`nests more than 1000 levels deep`:               tree,
		`JSONTrouble: json: error calling MarshalJSON`:   JSONTrouble{},
	} {
		t.Run(part, func(t *testing.T) {
			typ, err := payload.TypeOf(reflect.TypeOf(v))
			if err != nil {
				t.Fatal(err)
			}
			p := reflect.New(reflect.TypeOf(v))
			p.Elem().Set(reflect.ValueOf(v))
			data, err := typ.Encode(p.Interface())
			var e *payload.Error
			if !errors.As(err, &e) || e.Type != reflect.TypeOf(v) || !strings.Contains(err.Error(), part) {
				t.Errorf("%.100s, %v", data, err)
			}
		})
	}
	typ, _ := payload.TypeOf(reflect.TypeFor[JSONTrouble]())
	if _, err := typ.Encode(&JSONTrouble{}); !errors.Is(err, errTrouble) {
		t.Errorf("%v does not wrap the author's error", err)
	}
}

var errTrouble = errors.New("trouble")

type (
	bytesText   []byte
	brokenJSON  struct{}
	JSONTrouble struct{}
)

func (b bytesText) MarshalText() ([]byte, error)  { return b, nil }
func (b *bytesText) UnmarshalText(t []byte) error { *b = t; return nil }
func (brokenJSON) MarshalJSON() ([]byte, error)   { return []byte("\"\xff\""), nil }
func (*brokenJSON) UnmarshalJSON([]byte) error    { return nil }
func (JSONTrouble) MarshalJSON() ([]byte, error)  { return nil, fmt.Errorf("wrapped: %w", errTrouble) }
func (*JSONTrouble) UnmarshalJSON([]byte) error   { return nil }

func TestBytesThatWouldLoseDataAreNotDecoded(t *testing.T) {
	deep := strings.Repeat("[", payload.MaxDepth+1) + strings.Repeat("]", payload.MaxDepth+1)
	for name, c := range map[string]struct {
		into any
		data string
	}{
		"not UTF-8":          {new(string), "\"\xff\""},
		"large integer":      {new(any), `{"a":[9007199254740993]}`},
		"beyond all numbers": {new([]any), `[1e999]`},
		"deep":               {new(any), deep},
		"deep, raw":          {new(json.RawMessage), deep},
		"more follows":       {new(any), `1 2`},
		"more follows, int":  {new(int), `1 2`},
		"cut":                {new(any), `{"a":`},
		"no bytes":           {new(any), ``},
		"a string":           {new(int), `"1"`},
		"too large":          {new(int8), `128`},
	} {
		t.Run(name, func(t *testing.T) {
			typ, err := payload.TypeOf(reflect.TypeOf(c.into).Elem())
			if err != nil {
				t.Fatal(err)
			}
			if err := typ.Decode([]byte(c.data), c.into); err == nil {
				t.Errorf("decoded into %v", reflect.ValueOf(c.into).Elem())
			}
		})
	}
}

// Parsing gives a time the local zone if it has the local offset. The payload must not print differently on a machine in another zone.
func TestTimesDoNotDependOnTheZoneOfTheMachine(t *testing.T) {
	local := time.Local //nolint:gosmopolitan // the subject of the test
	defer func() { time.Local = local }()
	type times struct {
		At    time.Time
		By    map[string]*time.Time
		Stamp Stamp
		Any   any
	}
	typ, err := payload.TypeOf(reflect.TypeFor[times]())
	if err != nil {
		t.Fatal(err)
	}
	const text = `"2026-07-01T12:00:00.123456789+02:00"`
	data := []byte(`{"At":` + text + `,"By":{"x":` + text + `},"Stamp":` + text + `,"Any":` + text + `}`)
	for _, offset := range []int{0, 2, 5} {
		time.Local = time.FixedZone("HERE", offset*3600) //nolint:gosmopolitan // as above
		var got times
		if err := typ.Decode(data, &got); err != nil {
			t.Fatal(err)
		}
		for _, at := range []time.Time{got.At, *got.By["x"], got.Stamp.Time} {
			if s := at.Format("15:04:05.999999999 -0700 MST"); s != "12:00:00.123456789 +0200 +0200" {
				t.Errorf("in a zone of +%d: %s", offset, s)
			}
		}
	}
}

type unsafePointer = unsafe.Pointer

func nan() float64 { return math.NaN() }
func inf() float64 { return math.Inf(1) }
