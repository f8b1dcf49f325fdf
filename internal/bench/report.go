package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlrun/pawl/internal/term"
)

// tableColumns is the maximum number of results that are columns of the table. More results are rows.
const tableColumns = 6

// report writes results, which are structs with JSON tags. Strings are the name of a result, numbers and booleans its metrics.
// A field with the tag table:"-" is only in JSON.
type report struct {
	w               io.Writer
	json, benchstat bool

	results []result // for the table
	headed  bool
}

// result consists of the names and metrics of one struct.
type result struct {
	names   []string // name of the scenario, and of its part
	runs    int64    // the first count
	metrics []metric
}

type metric struct {
	unit  string // for example p50-ms
	value float64
	text  string
}

// add writes a result, or keeps it for the table.
func (r *report) add(v any) error {
	switch {
	case r.json:
		e := json.NewEncoder(r.w)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	case r.benchstat:
		return r.line(resultOf(v))
	default:
		r.results = append(r.results, resultOf(v))
		return nil
	}
}

// end writes the table, if it has results.
func (r *report) end() error {
	if len(r.results) == 0 {
		return nil
	}
	return table(r.results).Write(r.w)
}

// line writes a result in the format of Go benchmarks.
func (r *report) line(one result) error {
	var b strings.Builder
	if !r.headed {
		r.headed = true
		b.WriteString("pkg: github.com/pawlrun/pawl\n")
	}
	var names []string
	for _, n := range one.names {
		names = append(names, strings.ToUpper(n[:1])+n[1:])
	}
	var line strings.Builder
	_, _ = fmt.Fprintf(&line, "Benchmark%s %d", strings.Join(names, "/"), max(one.runs, 1))
	for _, m := range one.metrics {
		better := "lower"
		if strings.HasSuffix(m.unit, "/s") || strings.HasSuffix(m.unit, "-ratio") {
			better = "higher"
		}
		_, _ = fmt.Fprintf(&b, "Unit %s better=%s\n", m.unit, better)
		_, _ = fmt.Fprintf(&line, " %s %s", strconv.FormatFloat(m.value, 'g', 6, 64), m.unit)
	}
	_, err := fmt.Fprintf(r.w, "%s%s\n", b.String(), line.String())
	return err
}

// table returns a table with a column per result, or, for many results, with a row per result.
func table(all []result) *term.Table {
	var units []string
	for _, r := range all {
		for _, m := range r.metrics {
			if !slices.Contains(units, m.unit) {
				units = append(units, m.unit)
			}
		}
	}
	rows := [][]any{{"METRIC"}}
	for _, r := range all {
		rows[0] = append(rows[0], strings.ToUpper(r.names[len(r.names)-1]))
	}
	for _, u := range units {
		row := []any{strings.ReplaceAll(u, "-", " ")}
		for _, r := range all {
			text := ""
			if i := slices.IndexFunc(r.metrics, func(m metric) bool { return m.unit == u }); i >= 0 {
				text = r.metrics[i].text
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	if len(all) > tableColumns {
		rows = transposed(rows)
	}
	t := &term.Table{}
	for i, h := range rows[0] {
		t.Header = append(t.Header, strings.ToUpper(fmt.Sprint(h)))
		if i > 0 {
			t.Right = append(t.Right, i)
		}
	}
	for _, row := range rows[1:] {
		t.Add(row...)
	}
	return t
}

func transposed(rows [][]any) [][]any {
	out := make([][]any, len(rows[0]))
	for i := range out {
		for _, row := range rows {
			out[i] = append(out[i], row[i])
		}
	}
	return out
}

func resultOf(v any) (r result) {
	r.read("", reflect.Indirect(reflect.ValueOf(v)))
	return r
}

// read adds the fields of a struct to the result. The fields of a nested struct are prefixed with its name.
func (r *result) read(prefix string, v reflect.Value) {
	for f, value := range v.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("table") == "-" || options == "omitempty" && value.IsZero() {
			continue
		}
		if f.Anonymous {
			r.read(prefix, value)
			continue
		}
		r.field(prefix+unit(key), reflect.Indirect(value))
	}
}

func (r *result) field(name string, v reflect.Value) {
	add := func(value float64, text string) { r.metrics = append(r.metrics, metric{name, value, text}) }
	switch v.Kind() {
	case reflect.String:
		r.names = append(r.names, v.String())
	case reflect.Bool:
		value, text := 0.0, "no"
		if v.Bool() {
			value, text = 1, "yes"
		}
		add(value, text)
	case reflect.Int, reflect.Int64:
		if r.runs == 0 {
			r.runs = v.Int()
		}
		add(float64(v.Int()), strconv.FormatInt(v.Int(), 10))
	case reflect.Float64:
		add(v.Float(), number(v.Float()))
	case reflect.Map: // from texts to numbers
		for _, k := range slices.SortedFunc(v.Seq(), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			r.field(k.String()+"-"+name, v.MapIndex(k))
		}
	case reflect.Struct:
		r.read(name+"-", v)
	default: // samples, whose median has a field of its own
	}
}

// unit derives the unit of a metric from its JSON key: instances_per_s becomes instances/s.
func unit(key string) string {
	if head, ok := strings.CutSuffix(key, "_per_s"); ok {
		key = head + "/s"
	}
	return strings.ReplaceAll(key, "_", "-")
}

// number formats a number with at least three significant digits.
func number(v float64) string {
	digits := 3
	for limit := v; limit >= 1 && digits > 0; limit /= 10 {
		digits--
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
