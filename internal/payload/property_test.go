package payload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlrun/pawl/internal/payload"
)

var (
	goodTypes = []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](),
		reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[time.Duration](), reflect.TypeFor[time.Time](), reflect.TypeFor[json.Number](), reflect.TypeFor[json.RawMessage](),
		reflect.TypeFor[any](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[*big.Int](), reflect.TypeFor[*Ref](), reflect.TypeFor[Cents](), reflect.TypeFor[Box[int]](),
		reflect.TypeFor[Color](), reflect.TypeFor[Level](), reflect.TypeFor[Both](), reflect.TypeFor[Stamp](), reflect.TypeFor[DatedOwn](),
		reflect.TypeFor[GenericOwn[int]](), reflect.TypeFor[WithBase](), reflect.TypeFor[WithInner](), reflect.TypeFor[Tree](), reflect.TypeFor[struct{}](),
	}
	badTypes = []reflect.Type{
		reflect.TypeFor[chan int](), reflect.TypeFor[func()](), reflect.TypeFor[complex64](), reflect.TypeFor[error](), reflect.TypeFor[JSONOut](),
		reflect.TypeFor[JSONIn](), reflect.TypeFor[TextOut](), reflect.TypeFor[TextIn](), reflect.TypeFor[Packed](), reflect.TypeFor[Hidden](),
		reflect.TypeFor[Dated](), reflect.TypeFor[MaybeDated](), reflect.TypeFor[Shadow](), reflect.TypeFor[WithLoose](), reflect.TypeFor[WithInnerP](),
		reflect.TypeFor[Loop](), reflect.TypeFor[Ref](), reflect.TypeFor[big.Int](), reflect.TypeFor[GenericDated[int]](), reflect.TypeFor[Ambiguous](), reflect.TypeFor[map[any]int](),
	}
	goodKeys = []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[uint64](), reflect.TypeFor[Color](), reflect.TypeFor[Level](), reflect.TypeFor[netip.Addr](),
	}
	badKeys = []reflect.Type{
		reflect.TypeFor[any](), reflect.TypeFor[bool](), reflect.TypeFor[float64](), reflect.TypeFor[Cents](), reflect.TypeFor[Both](), reflect.TypeFor[Name](), reflect.TypeFor[time.Time](),
	}
	goodTags = []string{``, ``, `json:",omitempty"`, `json:",omitzero"`, `json:"-,"`, `json:"bad\"name"`}
	badTags  = []string{`json:"same"`, `json:",string"`, `json:"-"`}
)

// typeGen draws types. Only good types must be accepted; others may be.
type typeGen struct{ good bool }

func (g typeGen) pick(t *rapid.T, good, bad []reflect.Type) reflect.Type {
	if g.good || rapid.IntRange(0, 9).Draw(t, "good") > 0 {
		return rapid.SampledFrom(good).Draw(t, "type")
	}
	return rapid.SampledFrom(bad).Draw(t, "bad type")
}

func (g typeGen) draw(t *rapid.T, depth int) reflect.Type {
	shapes := []string{"leaf"}
	if depth > 0 {
		shapes = []string{"leaf", "pointer", "slice", "array", "map", "struct", "struct"}
	}
	switch rapid.SampledFrom(shapes).Draw(t, "shape") {
	case "pointer":
		return reflect.PointerTo(g.draw(t, depth-1))
	case "slice":
		return reflect.SliceOf(g.draw(t, depth-1))
	case "array":
		return reflect.ArrayOf(rapid.IntRange(0, 3).Draw(t, "len"), g.draw(t, depth-1))
	case "map":
		return reflect.MapOf(g.pick(t, goodKeys, badKeys), g.draw(t, depth-1))
	case "struct":
		return g.structure(t, depth)
	default:
		return g.pick(t, goodTypes, badTypes)
	}
}

func (g typeGen) structure(t *rapid.T, depth int) reflect.Type {
	var fields []reflect.StructField
	if rapid.IntRange(0, 4).Draw(t, "embed") == 0 {
		e := reflect.TypeFor[Base]()
		if rapid.Bool().Draw(t, "pointer") {
			e = reflect.PointerTo(e)
		}
		fields = append(fields, reflect.StructField{Name: "Base", Type: e, Anonymous: true})
	}
	tags := goodTags
	if !g.good {
		tags = slices.Concat(goodTags, goodTags, badTags)
	}
	once := false
	for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
		tag := rapid.SampledFrom(tags).Draw(t, "tag")
		if tag == `json:"-,"` && once {
			tag = ""
		}
		once = once || tag == `json:"-,"`
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: g.draw(t, depth-1), Tag: reflect.StructTag(tag)})
	}
	return reflect.StructOf(fields)
}

// fill draws a value.
func fill(t *rapid.T, v reflect.Value, depth int) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<&>", "\u2028", "\ufffd", `\ufffd`, "\x00", "\xff"}))
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		zone := rapid.SampledFrom([]*time.Location{time.UTC, time.FixedZone("X", 5*3600+1800), time.FixedZone("", -60), time.FixedZone("LMT", 561)}).Draw(t, "zone")
		*p = time.Unix(rapid.Int64Range(-6e10, 2e11).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).In(zone)
		return
	case *json.Number:
		*p = rapid.SampledFrom([]json.Number{"0", "-1.50", "1e400", "123456789012345678901234567890", ""}).Draw(t, "number")
		return
	case *json.RawMessage:
		*p = rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage("null"), json.RawMessage(`{"a":[1,2.50,"<\ud83d\ude00\ufffd"]}`)}).Draw(t, "raw")
		return
	case *any:
		*p = generic(t, depth)
		return
	case *netip.Addr:
		*p = rapid.SampledFrom([]netip.Addr{{}, netip.MustParseAddr("::1%eth0"), netip.MustParseAddr("10.0.0.1")}).Draw(t, "address")
		return
	case *big.Int:
		p.SetString(rapid.StringMatching(`-?[1-9][0-9]{0,40}`).Draw(t, "big"), 10)
		return
	case *Cents:
		p.n = rapid.Int64().Draw(t, "cents")
		return
	case *Ref:
		p.key = rapid.StringMatching(`[a-z]*`).Draw(t, "ref")
		return
	case *Box[int]:
		p.in = rapid.Int().Draw(t, "box")
		return
	case *Color:
		*p = Color{rapid.Byte().Draw(t, "r"), 1, 2}
		return
	case *Both:
		p.n = rapid.Int().Draw(t, "both")
		return
	case *DatedOwn:
		p.Note = rapid.StringMatching(`[a-z]*`).Draw(t, "note")
		p.Time = time.Unix(rapid.Int64Range(-6e10, 2e11).Draw(t, "s"), 5).UTC()
		return
	case *GenericOwn[int]:
		p.n, p.V = rapid.Int64().Draw(t, "n"), rapid.Int().Draw(t, "v")
		return
	}
	fillKind(t, v, depth, text)
}

func fillKind(t *rapid.T, v reflect.Value, depth int, text *rapid.Generator[string]) {
	few := func() int {
		if depth <= 0 {
			return 0
		}
		return rapid.IntRange(0, 3).Draw(t, "n")
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int") >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "uint") >> (64 - v.Type().Bits()))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, "float")))
	case reflect.Float64:
		v.SetFloat(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1e21, 1e20, math.NaN(), math.Inf(-1)})).Draw(t, "float"))
	case reflect.String:
		v.SetString(text.Draw(t, "text"))
	case reflect.Pointer:
		if depth > -3 && rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.MakeSlice(v.Type(), few(), 3))
		}
		for i := range v.Len() {
			fill(t, v.Index(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), depth-1)
		}
	case reflect.Map:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.MakeMap(v.Type()))
			for range few() {
				k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(t, k, depth-1)
				fill(t, e, depth-1)
				v.SetMapIndex(k, e)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && v.Type().Field(i).Tag.Get("json") != "-" {
				fill(t, f, depth-1)
			}
		}
	default: // has no value, or is set by fill
	}
}

// generic draws a value that an any may contain.
func generic(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 16).Draw(t, "any"); {
	case n == 0:
		return nil
	case n == 1:
		return rapid.Bool().Draw(t, "bool")
	case n == 2:
		return rapid.Float64().Draw(t, "float")
	case n == 3:
		return rapid.Int64().Draw(t, "int")
	case n == 4:
		return rapid.String().Draw(t, "text")
	case n == 5:
		return map[int]string{rapid.Int().Draw(t, "key"): "x"}
	case n == 6:
		return &Tree{Kids: []Tree{{}}}
	case n == 7:
		return []Cents{{rapid.Int64().Draw(t, "cents")}}
	case n == 8:
		return big.NewInt(rapid.Int64().Draw(t, "big"))
	case n == 9:
		return map[string]Level{"l": 3}
	case n < 13 && depth > 0:
		var all []any
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			all = append(all, generic(t, depth-1))
		}
		return all
	case depth > 0:
		all := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			all[rapid.String().Draw(t, "key")] = generic(t, depth-1)
		}
		return all
	default:
		return 1.0
	}
}

// same reports how a decoded value differs from the encoded one. The only differences allowed are those that docs/guide/payloads.md
// lists.
func same(want, got reflect.Value, path string) error {
	t := want.Type()
	differs := func() error { return fmt.Errorf("%s: %#v was decoded as %#v", path, want, got) }
	switch w := want.Interface().(type) {
	case time.Time:
		g := got.Interface().(time.Time)
		_, a := w.Zone()
		_, b := g.Zone()
		if !w.Equal(g) || a != b {
			return differs()
		}
		return nil
	case Stamp:
		return same(reflect.ValueOf(w.Time), reflect.ValueOf(got.Interface().(Stamp).Time), path)
	case json.RawMessage:
		if g := got.Interface().(json.RawMessage); string(g) != string(w) && (w != nil || string(g) != "null") {
			return differs()
		}
		return nil
	case big.Int:
		g := got.Interface().(big.Int)
		if w.Cmp(&g) != 0 {
			return differs()
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Interface: // as with encoding/json alone
		data, err := json.Marshal(want.Interface())
		var as any
		if err := errors.Join(err, json.Unmarshal(data, &as)); err != nil || !reflect.DeepEqual(as, got.Interface()) {
			return differs()
		}
		return nil
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if want.IsNil() != got.IsNil() {
			return differs()
		}
	default:
	}
	switch t.Kind() {
	case reflect.Pointer:
		if want.IsNil() {
			return nil
		}
		return same(want.Elem(), got.Elem(), path)
	case reflect.Slice, reflect.Array:
		if want.Len() != got.Len() {
			return differs()
		}
		for i := range want.Len() {
			if err := same(want.Index(i), got.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Map:
		if want.Len() != got.Len() {
			return differs()
		}
		for k, v := range want.Seq2() {
			g := got.MapIndex(k)
			if !g.IsValid() {
				return differs()
			}
			if err := same(v, g, fmt.Sprintf("%s[%v]", path, k)); err != nil {
				return err
			}
		}
		return nil
	case reflect.Struct:
		return sameFields(want, got, path)
	default:
	}
	if t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 {
		if math.Float64bits(want.Float()) != math.Float64bits(got.Float()) {
			return differs()
		}
		return nil
	}
	if want.Interface() != got.Interface() {
		return differs()
	}
	return nil
}

func sameFields(want, got reflect.Value, path string) error {
	for i := range want.NumField() {
		f := want.Type().Field(i)
		if !f.IsExported() && f.Type != reflect.TypeFor[inner]() {
			if !want.Field(i).Equal(got.Field(i)) { // an unexported field of a type that encodes itself
				return fmt.Errorf("%s.%s differs", path, f.Name)
			}
			continue
		}
		if f.Type == reflect.TypeFor[inner]() {
			if want.Field(i).Field(0).Int() != got.Field(i).Field(0).Int() {
				return fmt.Errorf("%s.%s differs", path, f.Name)
			}
			continue
		}
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		w, g := want.Field(i), got.Field(i)
		switch {
		case tag == "-" && options == "" && f.Tag.Get("json") == "-":
			if !g.IsZero() {
				return fmt.Errorf("%s.%s was decoded", path, f.Name)
			}
			continue
		case options == "omitempty" && (w.Kind() == reflect.Slice || w.Kind() == reflect.Map) && w.Len() == 0,
			options == "omitempty" && w.CanFloat() && w.Float() == 0, // including a negative zero
			options == "omitzero" && (w.IsZero() || isZeroTime(w)):
			if !g.IsZero() {
				return fmt.Errorf("%s.%s was omitted and decoded", path, f.Name)
			}
			continue
		}
		if err := same(w, g, path+"."+f.Name); err != nil {
			return err
		}
	}
	return nil
}

func isZeroTime(v reflect.Value) bool {
	z, ok := reflect.TypeAssert[interface{ IsZero() bool }](v)
	return ok && z.IsZero()
}

// canonical sorts the fields of objects, because those of a struct in an any are decoded in another order.
func canonical(data []byte) string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return err.Error()
	}
	b, err := json.Marshal(v)
	return fmt.Sprint(string(b), err)
}

// rejectedByName checks that an error names the type.
func rejectedByName(t *rapid.T, typ reflect.Type, err error) {
	var e *payload.Error
	if !errors.As(err, &e) || e.Type != typ || !strings.HasPrefix(err.Error(), typ.String()) || e.Reason == "" {
		t.Fatalf("%v is rejected with %v", typ, err)
	}
}

func TestEveryTypeIsRejectedByNameOrItsValuesRoundTrip(t *testing.T) {
	accepted, roundTripped := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := typeGen{good: rapid.Bool().Draw(t, "only good types")}
		rt := g.draw(t, 3)
		typ, err := payload.TypeOf(rt)
		if err != nil {
			if g.good {
				t.Fatalf("rejected: %v", err)
			}
			rejectedByName(t, rt, err)
			return
		}
		accepted++
		want := reflect.New(rt)
		fill(t, want.Elem(), 3)
		data, err := typ.Encode(want.Interface())
		if err != nil {
			rejectedByName(t, rt, err)
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%s is not JSON", data)
		}
		got := reflect.New(rt)
		if err := typ.Decode(data, got.Interface()); err != nil {
			t.Fatalf("%v encodes to %s, which does not decode: %v", rt, data, err)
		}
		if err := same(want.Elem(), got.Elem(), ""); err != nil {
			t.Fatalf("%v, encoded to %s: %v", rt, data, err)
		}
		again, err := typ.Encode(got.Interface())
		// A field that is omitted may keep a struct from being zero, so that omitzero does not omit the struct the first time.
		leftOut := strings.Contains(rt.String(), `json:\"-\"`) || strings.Contains(rt.String(), "omitzero")
		if err != nil || !leftOut && canonical(again) != canonical(data) {
			t.Fatalf("%v: %s encodes to %s the second time, %v", rt, data, again, err)
		}
		roundTripped++
	})
	if accepted < 20 || roundTripped < 10 {
		t.Errorf("%d types were accepted, and %d values round-tripped", accepted, roundTripped)
	}
}
