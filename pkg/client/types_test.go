package client_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlrun/pawl/internal/builtin"
	"github.com/pawlrun/pawl/internal/message"
	"github.com/pawlrun/pawl/pkg/client"
)

// pairs are the types of this package and the stored types that have the same encoding.
var pairs = map[reflect.Type]reflect.Type{ //nolint:gochecknoglobals // read only
	reflect.TypeFor[client.Schedule]():      reflect.TypeFor[builtin.Schedule](),
	reflect.TypeFor[client.ScheduleState](): reflect.TypeFor[builtin.State](),
	reflect.TypeFor[client.Job]():           reflect.TypeFor[builtin.Job](),
	reflect.TypeFor[client.Batch]():         reflect.TypeFor[builtin.Batch](),
	reflect.TypeFor[client.Change]():        reflect.TypeFor[message.Change](),
}

func TestTypesHaveTheFieldsAndTagsOfTheStoredTypes(t *testing.T) {
	for public, stored := range pairs {
		for _, d := range differences(public, stored) {
			t.Errorf("%s: %s", public, d)
		}
	}
	// The cursors of a batch are not public, so the fields of its state are some of those that are stored.
	for _, d := range differences(reflect.TypeFor[client.BatchState](), reflect.TypeFor[builtin.BatchState]()) {
		if !strings.HasPrefix(d, "Place: ") {
			t.Errorf("BatchState: %s", d)
		}
	}
}

// differences describes how the encodings of two types differ.
func differences(a, b reflect.Type) (all []string) {
	if a == b {
		return nil
	}
	if a.Kind() != b.Kind() {
		return []string{fmt.Sprintf("%s is a %s, and %s a %s", a, a.Kind(), b, b.Kind())}
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		return differences(a.Elem(), b.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	if a.NumField() != b.NumField() {
		return []string{fmt.Sprintf("%d fields, and %d are stored", a.NumField(), b.NumField())}
	}
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		if x.Name != y.Name || x.Tag != y.Tag || x.Anonymous != y.Anonymous {
			all = append(all, fmt.Sprintf("%s `%s` is stored as %s `%s`", x.Name, x.Tag, y.Name, y.Tag))
		}
		for _, d := range differences(x.Type, y.Type) {
			all = append(all, x.Name+": "+d)
		}
	}
	return all
}

func TestTypesAreEncodedAsTheStoredTypes(t *testing.T) {
	for public, stored := range pairs {
		v, w := reflect.New(public), reflect.New(stored)
		fill(v.Elem())
		a, err := json.Marshal(v.Interface())
		if err == nil {
			err = json.Unmarshal(a, w.Interface())
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(w.Interface())
		if err != nil || string(a) != string(b) || strings.Contains(string(a), ":null") {
			t.Errorf("%v: %s\nis stored as %s", err, a, b)
		}
	}
}

// fill sets every field to a value that is not zero.
func fill(v reflect.Value) {
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Date(2026, 11, 28, 1, 2, 3, 4000, time.UTC)
		return
	case *json.RawMessage:
		*at = json.RawMessage(`{"a":[1,2.50,"<é>"],"b":12345678901234567890}`)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7_000_000_000)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	default:
		panic("add " + v.Kind().String())
	}
}

func TestConstantsAreThoseOfTheStoredTypes(t *testing.T) {
	for _, v := range builtin.BatchVerbs() {
		b := client.Batch{Verb: client.BatchVerb(v), All: true}
		switch b.Verb {
		case client.BatchEvent:
			b.Event = "e"
		case client.BatchRewind:
			b.To = 1
		case client.BatchCancel, client.BatchTerminate, client.BatchPause, client.BatchResume, client.BatchRetry, client.BatchPurge:
		default:
			t.Errorf("no constant for %s", v)
		}
		if err := b.Check(); err != nil {
			t.Error(err)
		}
	}
	for public, stored := range map[client.Overlap]builtin.Overlap{
		client.OverlapSkip: builtin.Skip, client.OverlapBufferOne: builtin.BufferOne, client.OverlapBufferAll: builtin.BufferAll,
		client.OverlapCancelOther: builtin.CancelOther, client.OverlapTerminateOther: builtin.TerminateOther, client.OverlapAllowAll: builtin.AllowAll,
	} {
		if string(public) != string(stored) {
			t.Errorf("%s is stored as %s", public, stored)
		}
	}
}

func TestChecksOfConfigurationsNameWhatIsWrong(t *testing.T) {
	daily := client.Times{Cron: []string{"@daily"}}
	job := &client.Job{Activity: "a"}
	for want, check := range map[string]func() error{
		"one of start, run and send": (&client.Schedule{Times: daily}).Check,
		"overlap \"x\"":              (&client.Schedule{Times: daily, Run: job, Overlap: "x"}).Check,
		"must not be negative":       (&client.Schedule{Times: daily, Run: job, CatchUp: -1}).Check,
		"zone \"Mars\"":              (&client.Schedule{Times: client.Times{Cron: daily.Cron, Zone: "Mars"}, Run: job}).Check,
		"where is required":          (&client.Batch{Verb: client.BatchCancel}).Check,
		"verb \"x\"":                 (&client.Batch{Verb: "x", All: true}).Check,
		"RawMessage":                 (&client.Batch{Verb: client.BatchEvent, Event: "e", All: true, Data: []byte("{")}).Check,
		"name":                       (&client.Job{Activity: "a b"}).Check,
	} {
		if err := check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s := client.Schedule{Times: daily, Run: job}
	times, err := s.Next(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), 1)
	if err != nil || len(times) != 1 || !times[0].Equal(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%s, %v", times, err)
	}
}
