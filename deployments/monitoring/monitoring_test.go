package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl"
)

func root(name string) string { return filepath.Join("..", "..", filepath.FromSlash(name)) }

func TestFilesAreGenerated(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(root(name)); err != nil || string(got) != string(want) {
			t.Errorf("%s: run go run ./deployments/monitoring (%v)", name, err)
		}
	}
}

// Trap: a dashboard that queries a metric that no longer exists.
func TestDashboardsAndAlertsUseExistingMetrics(t *testing.T) {
	all, err := catalog()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]metric{}
	for _, m := range all {
		known[m.name] = m
		if !slices.Contains(m.labels, "namespace") {
			t.Errorf("%s has no namespace", m.name)
		}
		if !slices.ContainsFunc(groups, func(g [2]string) bool { return strings.HasPrefix(m.name, g[0]) }) {
			t.Errorf("%s is in no section of docs/metrics.md", m.name)
		}
	}
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`pawl_[a-z_]+(?:\{([^}]*)\})?`)
	label := regexp.MustCompile(`(\w+)=`)
	for file, content := range files {
		for _, used := range name.FindAllStringSubmatch(strings.ReplaceAll(string(content), `\"`, `"`), -1) {
			n, _, _ := strings.Cut(used[0], "{")
			m, ok := known[n]
			if !ok {
				m, ok = known[strings.TrimSuffix(n, "_bucket")]
			}
			if !ok && !strings.HasSuffix(n, "_") { // a prefix in prose
				t.Errorf("%s: %s does not exist", file, n)
			}
			for _, l := range label.FindAllStringSubmatch(used[1], -1) {
				if !slices.Contains(m.labels, l[1]) {
					t.Errorf("%s: %s has no label %s", file, n, l[1])
				}
			}
		}
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	b, err := os.ReadFile(root("docs/operations/monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^### (Pawl\w+)$`).FindAllStringSubmatch(string(b), -1) {
		headings[h[1]] = true
	}
	for _, a := range alerts() {
		if !headings[a.name] {
			t.Errorf("no runbook for %s", a.name)
		}
		delete(headings, a.name)
	}
	for h := range headings {
		t.Errorf("a runbook for %s, which is no alert", h)
	}
}

func TestTwentyOrchestrationsHaveAtMostTwoThousandSeries(t *testing.T) {
	var orchestrations []pawl.OrchestrationBinding
	var activities []pawl.ActivityBinding
	for i := range 20 {
		orchestrations = append(orchestrations, pawl.NewOrchestration[int, int](fmt.Sprint("o", i)).Do(func(*pawl.Context, int) (int, error) { return 0, nil }))
		activities = append(activities, pawl.NewActivity[int, int](fmt.Sprint("a", i)).Do(func(context.Context, int) (int, error) { return 0, nil }))
	}
	reg := prometheus.NewPedanticRegistry()
	if err := register(reg, "shop", orchestrations, activities); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := 64 + 3 + 2*20 + 40*8 // created at run time: partition lag, instances, queues, and limits of all actions
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series++
			if h := m.GetHistogram(); h != nil {
				series += len(h.GetBucket()) + 2 // plus +Inf, sum and count, minus the series counted above
			}
		}
	}
	t.Logf("%d series", series)
	if series > 2000 {
		t.Errorf("%d series", series)
	}
}

func TestExemplarsOfEachHistogramAreDrawnOnce(t *testing.T) {
	all, err := catalog()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range traced {
		if !slices.ContainsFunc(all, func(m metric) bool { return m.name == name }) {
			t.Errorf("%s does not exist", name)
		}
		n := 0
		for _, d := range dashboards() {
			b, err := d.json()
			if err != nil {
				t.Fatal(err)
			}
			for target := range strings.SplitSeq(string(b), `"refId"`) {
				if strings.Contains(target, name+"_bucket") && strings.Contains(target, `"exemplar": true`) {
					n++
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: %d queries with exemplars", name, n)
		}
	}
}
