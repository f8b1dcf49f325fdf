// Package promql parses the queries of the alerts and the dashboards with the parser of Prometheus. It is a separate module,
// so that no program links it.
//
//	cd deployments/testdata/promql && go test ./...
package promql

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"
)

// rules is a Prometheus rules file.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

func TestAlertsAreRulesOfPrometheus(t *testing.T) {
	b, err := os.ReadFile("../../monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := yaml.UnmarshalStrict(b, &r); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range r.Groups {
		for _, a := range g.Rules {
			n++
			expr, err := parser.ParseExpr(a.Expr)
			if err != nil {
				t.Errorf("%s: %v", a.Alert, err)
				continue
			}
			if expr.Type() != parser.ValueTypeVector {
				t.Errorf("%s is a %s", a.Alert, expr.Type())
			}
			if _, err := model.ParseDuration(a.For); err != nil || a.Alert == "" || g.Name == "" || a.Labels["severity"] == "" || len(a.Annotations) == 0 {
				t.Errorf("%s: %+v, %v", a.Alert, a, err)
			}
		}
	}
	if n == 0 {
		t.Error("no alerts")
	}
}

func TestQueriesOfDashboardsAreExpressions(t *testing.T) {
	files, err := filepath.Glob("../../monitoring/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(b, &d); err != nil || len(d.Panels) == 0 {
			t.Fatalf("%s: %d panels, %v", file, len(d.Panels), err)
		}
		for _, p := range d.Panels {
			if len(p.Targets) == 0 {
				t.Errorf("%s: %s has no query", file, p.Title)
			}
			for _, q := range p.Targets {
				if _, err := parser.ParseExpr(strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")); err != nil {
					t.Errorf("%s: %s: %v", file, p.Title, err)
				}
			}
		}
	}
}
